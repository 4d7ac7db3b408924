"""The names of weights in GPT-2 as Hugging Face stores it.

Its matrices are transposed, because its layers are convolutions of width 1 (`Conv1D`), and one
matrix packs queries, keys and values.

Reference:
    Radford et al. 2019, section 2.3; `GPT2LMHeadModel` of transformers.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from crosshead.addons.interop.rows import from_rows, to_rows
from crosshead.models.language import LanguageConfig

TOKENS, POSITIONS = "transformer.wte.weight", "transformer.wpe.weight"
OUTPUT = "lm_head.weight"
"""The names of the matrices of tokens, of positions and of the output projection."""

EMBEDDINGS, TABLE, PROJECTION = (
    "embeddings.weight",
    "embeddings.positions.table",
    "projection.weight",
)
"""Their names in crosshead."""

_LAYER = (
    ("add_norm_attention.norm", "ln_1"),
    ("attention.output", "attn.c_proj"),
    ("add_norm_feedforward.norm", "ln_2"),
    ("feedforward.inner", "mlp.c_fc"),
    ("feedforward.outer", "mlp.c_proj"),
)
_PACKED = ("attention.query", "attention.key_value"), "attn.c_attn"


class Place(NamedTuple):
    """A parameter of GPT-2, and the parameters of crosshead that it packs."""

    theirs: str
    ours: tuple[str, ...]
    """Names of parameters, which are joined along the first axis."""
    transposed: bool


def places(layers: int) -> Iterator[Place]:
    """Yield the parameters of a model outside embeddings and output projection."""
    modules: list[tuple[tuple[str, ...], str]] = [(("stack.norm",), "transformer.ln_f")]
    for layer in range(layers):
        ours, theirs = f"stack.layers.{layer}", f"transformer.h.{layer}"
        modules.append((tuple(f"{ours}.{each}" for each in _PACKED[0]), f"{theirs}.{_PACKED[1]}"))
        modules += [((f"{ours}.{mine}",), f"{theirs}.{other}") for mine, other in _LAYER]
    for mine_all, name in modules:
        is_matrix = ".ln_" not in name
        for end in ("weight", "bias"):
            names = tuple(f"{each}.{end}" for each in mine_all)
            yield Place(f"{name}.{end}", names, is_matrix and end == "weight")


def is_tied(config: LanguageConfig) -> bool:
    """Return whether the matrix of tokens is also the output projection in GPT-2.

    Embeddings that crosshead multiplies by sqrt(d_model) are another matrix.
    """
    return config.tie and not config.scale_embeddings


def to_gpt2(
    config: LanguageConfig,
    weights: Mapping[str, Tensor],
    table: Tensor,
    rows: Sequence[int | None],
) -> dict[str, Tensor]:
    """Return the weights of a model under GPT-2's names."""
    found = {
        place.theirs: _turned(torch.cat([weights[each] for each in place.ours]), place.transposed)
        for place in places(config.layers)
    }
    scale = config.d_model**0.5 if config.scale_embeddings else 1.0
    found[TOKENS] = to_rows(weights[EMBEDDINGS], rows) * scale
    found[POSITIONS] = table
    if not is_tied(config):
        found[OUTPUT] = to_rows(weights[PROJECTION], rows)
    return found


def from_gpt2(
    config: LanguageConfig, found: Mapping[str, Tensor], rows: Sequence[int | None]
) -> dict[str, Tensor]:
    """Return the parameters of a model from weights under GPT-2's names.

    A token that the foreign vocabulary lacks gets a zero vector.
    """
    weights = {
        EMBEDDINGS: from_rows(found[TOKENS], rows, 0.0),
        TABLE: found[POSITIONS],
        PROJECTION: from_rows(found[TOKENS if config.tie else OUTPUT], rows, 0.0),
    }
    width = config.d_model
    for place in places(config.layers):
        packed = _turned(found[place.theirs], place.transposed)
        sizes = [len(packed)] if len(place.ours) == 1 else [width, len(packed) - width]
        weights |= {
            name: part.contiguous()
            for name, part in zip(place.ours, packed.split(sizes), strict=True)
        }
    return weights


def _turned(weight: Tensor, transposed: bool) -> Tensor:
    return weight.T.contiguous() if transposed else weight
