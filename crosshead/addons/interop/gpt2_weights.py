"""The weights of a language model in Hugging Face's GPT-2."""

from collections.abc import Mapping

from torch import Tensor

from crosshead.addons.interop.weights import GPT2, Place, Rows, to_foreign
from crosshead.models.language import LanguageConfig

TOKENS, POSITIONS = "transformer.wte.weight", "transformer.wpe.weight"
OUTPUT = "lm_head.weight"
"""The names of the matrices of tokens, of positions and of the output projection."""

TABLE = "embeddings.positions.table"
"""The name of the matrix of positions in crosshead."""


def is_tied(config: LanguageConfig) -> bool:
    """Return whether the matrix of tokens is also the output projection in GPT-2.

    Embeddings that crosshead multiplies by sqrt(d_model) are another matrix.
    """
    return config.tie and not config.scale_embeddings


def places(config: LanguageConfig, rows: Rows) -> list[Place]:
    """Return all parameters of a model."""
    return [
        *GPT2.places({"stack": config.layers}, "pre"),
        Place(("embeddings.weight",), (TOKENS,), rows=rows),
        Place((TABLE,), (POSITIONS,)),
        Place(("projection.weight",), (TOKENS if is_tied(config) else OUTPUT,), rows=rows),
    ]


def to_gpt2(
    config: LanguageConfig, weights: Mapping[str, Tensor], table: Tensor, rows: Rows
) -> dict[str, Tensor]:
    """Return the weights of a model under GPT-2's names, with a table of positions."""
    scale = config.d_model**0.5 if config.scale_embeddings else 1.0
    found = to_foreign(places(config, rows), {**weights, TABLE: table})
    return {**found, TOKENS: found[TOKENS] * scale}
