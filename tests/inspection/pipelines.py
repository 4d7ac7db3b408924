"""Small untrained models of every architecture, as functions on text."""

import torch

from crosshead.bundle.text_bundle import TextBundle, TextBundleConfig
from crosshead.models.convolutional import ConvolutionalConfig
from crosshead.models.encoder_only import EncoderConfig
from crosshead.models.language import LanguageConfig
from crosshead.models.recurrent import RecurrentConfig
from crosshead.models.registry import AnyConfig, build_model
from crosshead.models.transformer import TransformerConfig
from crosshead.models.transformer_xl import TransformerXLConfig
from crosshead.tasks.pipeline import Pipeline
from crosshead.tasks.registry import TASKS
from crosshead.text.tokenizers import TokenizerConfig, train_tokenizer

CONTEXT = 24
LINES = ["to be or not", "to be", "that is the question"]
PAIRS = {"encoder_layers": 2, "decoder_layers": 3, "d_model": 16, "dropout": 0.0}
STACK = {"d_model": 16, "d_ff": 24, "heads": 4, "dropout": 0.0}

CONFIGS: dict[str, AnyConfig] = {
    "transformer": TransformerConfig(**PAIRS | STACK),
    "pre-norm, multi-query": TransformerConfig(**PAIRS | STACK, norm="pre", kv_heads=1),
    "windows": TransformerConfig(**PAIRS | STACK, pattern="window", radius=2, positions="shaw"),
    "convolutional": ConvolutionalConfig(**PAIRS),
    "bahdanau": RecurrentConfig(**PAIRS, attention="bahdanau", cell="gru", reverse_source=True),
    "luong": RecurrentConfig(
        **PAIRS | {"encoder_layers": 3}, attention="luong-general", input_feeding=True
    ),
    "no attention": RecurrentConfig(**PAIRS | {"encoder_layers": 3}, attention="none"),
    "language": LanguageConfig(layers=2, **STACK),
    "transformer-xl": TransformerXLConfig(layers=2, segment=4, memory=6, **STACK),
    "encoder": EncoderConfig(layers=2, **STACK),
}


def pipeline_of(name: str, kind: str = "characters", config: AnyConfig | None = None) -> Pipeline:
    """The pipeline of an architecture, or of a given shape, with a tokenizer of this kind."""
    config = config or CONFIGS[name]
    tokenizer = train_tokenizer(TokenizerConfig(kind=kind), LINES)
    torch.manual_seed(0)
    size = tokenizer.vocab_size
    model = build_model(config, size, size).eval()
    bundle = TextBundleConfig(
        task=config.task, model=config, joint_tokenizer=True, source_vocabulary=size,
        target_vocabulary=size, longest_source=CONTEXT,
    )  # fmt: skip
    return TASKS[config.task].pipeline(TextBundle(bundle, model, tokenizer, tokenizer))
