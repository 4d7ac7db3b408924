"""Small untrained translators of sentences beside images."""

from typing import Any

import torch

from crosshead.addons.vision.bundles import ImageTextBundle, ImageTextBundleConfig
from crosshead.addons.vision.models.multimodal import MultimodalConfig
from crosshead.addons.vision.multimodal_translator import MultimodalTranslator
from crosshead.decoding.settings import DecodeConfig
from crosshead.text.tokenizers import TokenizerConfig, train_tokenizer

SOURCES = ["a red sign above a small blue cross", "a green square", "one more word."]
TARGETS = ["ein roter Kreis über einem kleinen blauen Kreuz", "ein grünes Quadrat"]
SIZE, ROWS = 12, 3
SMALL = {"encoder_layers": 1, "decoder_layers": 2, "d_model": 16, "d_ff": 24, "heads": 4}


def translator(**settings: Any) -> MultimodalTranslator:
    """A translator with a tokenizer for each side, whose weights are random."""
    words = TokenizerConfig.model_validate({"kind": "words"})
    source, target = train_tokenizer(words, SOURCES), train_tokenizer(words, TARGETS)
    settings = {**SMALL, "dropout": 0.0, "tie": "two-way", **settings}
    config = ImageTextBundleConfig(
        task="multimodal",
        model=MultimodalConfig.model_validate(settings),
        joint_tokenizer=False,
        source_vocabulary=source.vocab_size,
        target_vocabulary=target.vocab_size,
        longest_source=9,
        longest_target=9,
        image_size=SIZE,
        decode=DecodeConfig(max_extra=6),  # an untrained model would write until the limit
    )
    torch.manual_seed(0)
    model: Any = ImageTextBundle.build(config)
    for parameter in model.parameters():
        parameter.data.mul_(2)  # so that attention is not uniform
    return MultimodalTranslator(ImageTextBundle(config, model.eval(), source, target))
