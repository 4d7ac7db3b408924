"""Small untrained captioners, as functions on images."""

from typing import Any

import numpy as np
import torch

from crosshead.addons.vision.bundles import ImageTextBundle, ImageTextBundleConfig
from crosshead.addons.vision.caption_pipeline import ImageCaptioner
from crosshead.addons.vision.models.captioner import CaptionerConfig
from crosshead.text.tokenizers import TokenizerConfig, train_tokenizer

LINES = ["a red circle", "a small blue square left of a red cross", "two words"]
SIZE, ROWS = 12, 3
SMALL = {"encoder_layers": 1, "decoder_layers": 2, "d_model": 16, "d_ff": 24, "heads": 4}


def captioner(kind: str = "words", size: int = SIZE, **settings: Any) -> ImageCaptioner:
    tokenizer = train_tokenizer(TokenizerConfig.model_validate({"kind": kind}), LINES)
    count = tokenizer.vocab_size
    config = ImageTextBundleConfig(
        task="captioning",
        model=CaptionerConfig.model_validate({**SMALL, "dropout": 0.0, **settings}),
        joint_tokenizer=True,
        source_vocabulary=count,
        target_vocabulary=count,
        longest_source=(size // 4) ** 2,
        longest_target=8,
        image_size=size,
    )
    torch.manual_seed(0)
    model: Any = ImageTextBundle.build(config)
    for parameter in model.parameters():
        parameter.data.mul_(2)  # so that attention is not uniform
    return ImageCaptioner(ImageTextBundle(config, model.eval(), tokenizer, tokenizer))


def pixels(number: int = 0, size: int = SIZE) -> np.ndarray:
    rng = np.random.default_rng(number)
    return rng.integers(0, 256, (size, size, 3), dtype=np.uint8)
