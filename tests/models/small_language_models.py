"""Small models of monolingual text, and an empty source."""

import torch
from torch import Tensor

from crosshead.models.language import LanguageConfig, TransformerLanguageModel
from crosshead.models.transformer_xl import TransformerXL, TransformerXLConfig
from tests.models.small_transformers import VOCABULARY, tokens

SHAPE = {"layers": 3, "d_model": 16, "d_ff": 24, "heads": 4, "dropout": 0.0}
VARIANTS: dict[str, LanguageConfig | TransformerXLConfig] = {
    "language": LanguageConfig(**SHAPE),
    "language, learned and tied": LanguageConfig(
        **SHAPE, positions="learned", max_length=64, tie=True, output_bias=True
    ),
    "language, sinusoidal, post-norm, multi-query": LanguageConfig(
        **SHAPE, positions="sinusoidal", norm="post", kv_heads=1
    ),
    "transformer-xl": TransformerXLConfig(**SHAPE, segment=4, memory=6),
    "language, window": LanguageConfig(**SHAPE, pattern="window", radius=3),
    "language, strided": LanguageConfig(**SHAPE, pattern="strided", stride=3),
    "language, fixed, rotary": LanguageConfig(
        **SHAPE, positions="rotary", pattern="fixed", stride=3, columns=1
    ),
    "transformer-xl, post-norm, shorter memory": TransformerXLConfig(
        **SHAPE, norm="post", tie=True, segment=5, memory=2, d_key=3, d_value=5
    ),
}


def model_of(
    config: LanguageConfig | TransformerXLConfig, seed: int = 0
) -> TransformerLanguageModel | TransformerXL:
    """A model in float64 for decoding, its constants randomised so that each of them matters."""
    torch.manual_seed(seed)
    build = TransformerXL if isinstance(config, TransformerXLConfig) else TransformerLanguageModel
    model = build(config, VOCABULARY).double().eval().requires_grad_(False)
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1 or ".score." in name:
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def nothing(rows: int) -> Tensor:
    """The source of models without one."""
    return torch.empty(rows, 0, dtype=torch.long)


def periodic(rows: int, period: int, length: int, seed: int) -> Tensor:
    """Rows that repeat as many random tokens again and again."""
    return tokens(rows, period, seed=seed).repeat(1, -(-length // period))[:, :length]
