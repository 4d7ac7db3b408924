"""Scores and positions of attention layers by name, and functions that add others.

A recipe names both (`model.score`, `model.positions`). `register_score` and `register_positions`
make further names known.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeVar

import torch
from torch import nn

from crosshead.attention.attend import Combine, weighted_sum
from crosshead.attention.multihead import Rotate
from crosshead.attention.positions import Rotary, SinusoidalPositions
from crosshead.attention.relative import ALiBi, Biased, ShawKeys, ShawValues, T5Buckets
from crosshead.attention.scores import Additive, Concat, Cosine, Dot, General, ScaledDot, Score
from crosshead.config import OneOf
from crosshead.layers.embeddings import LearnedPositions

if TYPE_CHECKING:
    from crosshead.models.stack import StackConfig

DEFAULT_MAX_LENGTH = 1024
"""The default number of learned positions. Stored bundles rely on this value."""


class AttentionParts(NamedTuple):
    """The parts of an attention layer besides its projections."""

    score: Score
    combine: Combine = weighted_sum
    rotate: Rotate | None = None


AttentionPositions = Callable[["StackConfig", Score, bool], AttentionParts]
"""A function that builds the parts of a self-attention layer.

It receives the configuration, the score of the configuration, and whether the layer is causal.
"""


class PositionKind(NamedTuple):
    """A kind of position information. What its parts return is converted to the model's type."""

    added: Callable[["StackConfig"], nn.Module] | None = None
    """Builds the module whose vectors are added to embeddings: called with the first position and
    the number of positions, it returns them as `T D`. In a running batch of a server, the first
    position is a tensor with one of each row, and the vectors are `N T D`."""
    attention: AttentionPositions | None = None
    """Builds the parts of self-attention in which positions act."""
    scores: frozenset[str] | None = None
    """The scores that it goes with; None if it goes with any."""
    needs_distances: bool = False
    """True if it needs regular distances, which the summary columns of pattern "fixed" lack."""


def _additive(config: "StackConfig") -> Score:
    return Additive(config.heads, config.key_width, config.key_width, config.key_width)


def _concat(config: "StackConfig") -> Score:
    return Concat(config.heads, config.key_width, config.key_width, config.key_width)


SCORES: dict[str, Callable[["StackConfig"], Score]] = {
    "scaled-dot": lambda config: ScaledDot(),
    "dot": lambda config: Dot(),
    "additive": _additive,
    "concat": _concat,
    "general": lambda config: General(config.heads, config.key_width, config.key_width),
    "cosine": lambda config: Cosine(nn.Parameter(torch.full((config.heads, 1, 1), 10.0))),
}
"""The function that builds each score."""


def _rotary(config: "StackConfig", score: Score, causal: bool) -> AttentionParts:
    return AttentionParts(score, rotate=Rotary(config.key_width))


def _shaw(config: "StackConfig", score: Score, causal: bool) -> AttentionParts:
    keys = ShawKeys(config.key_width, scale=1.0 if config.score == "dot" else None)
    return AttentionParts(keys, combine=ShawValues(config.value_width))


def _t5(config: "StackConfig", score: Score, causal: bool) -> AttentionParts:
    return AttentionParts(Biased(score, T5Buckets(config.heads, causal=causal)))


def _alibi(config: "StackConfig", score: Score, causal: bool) -> AttentionParts:
    return AttentionParts(Biased(score, ALiBi(config.heads)))


def _learned(config: "StackConfig") -> nn.Module:
    return LearnedPositions(config.d_model, config.max_length or DEFAULT_MAX_LENGTH)


POSITIONS: dict[str, PositionKind] = {
    "sinusoidal": PositionKind(lambda config: SinusoidalPositions(config.d_model, "interleaved")),
    "sinusoidal-halves": PositionKind(lambda config: SinusoidalPositions(config.d_model, "halves")),
    "sinusoidal-marian": PositionKind(
        lambda config: SinusoidalPositions(config.d_model, "halves", "tensor2tensor")
    ),
    "learned": PositionKind(_learned),
    # A rotation keeps lengths and makes products depend on the distance.
    "rotary": PositionKind(attention=_rotary, scores=frozenset({"scaled-dot", "dot", "cosine"})),
    "shaw": PositionKind(
        attention=_shaw, scores=frozenset({"scaled-dot", "dot"}), needs_distances=True
    ),
    "t5": PositionKind(attention=_t5, needs_distances=True),
    "alibi": PositionKind(attention=_alibi, needs_distances=True),
    "none": PositionKind(),
}
"""Each kind of position information."""

ScoreName = Annotated[str, OneOf(SCORES)]
PositionsName = Annotated[str, OneOf(POSITIONS)]


T = TypeVar("T")


def register_score(name: str, build: Callable[["StackConfig"], Score]) -> None:
    """Make a score known to `model.score` of recipes and configurations.

    A bundle holds the name only, so a program that loads it has to register the score first.

    Args:
        name: The new name.
        build: Function of the configuration that builds the score of one layer. A module is
            trained and saved with the layer. In a run in bfloat16 or float16, its weights, the
            queries and the keys have this type. It may return float32.

    Raises:
        ValueError: If the package itself has a score or positions of this name.
    """
    _add(SCORES, name, build)


def register_positions(name: str, kind: PositionKind) -> None:
    """Make a kind of positions known to `model.positions` of recipes and configurations.

    Args:
        name: The new name.
        kind: The kind. In a run in bfloat16 or float16, the weights of its modules have this type,
            and so have queries, keys, values and attention weights. All may return float32.

    Raises:
        ValueError: If the package itself has a score or positions of this name.
    """
    _add(POSITIONS, name, kind)


_SHIPPED = frozenset({*SCORES, *POSITIONS})


def _add(registry: dict[str, T], name: str, entry: T) -> None:
    if name in _SHIPPED:
        raise ValueError(f"{name!r} is a name of the package's own; choose another name")
    registry[name] = entry


def attention_parts(config: "StackConfig", *, causal: bool) -> AttentionParts:
    """Return the parts of a self-attention layer."""
    score, kind = SCORES[config.score](config), POSITIONS[config.positions]
    if kind.attention is None:
        return AttentionParts(score)
    return kind.attention(config, score, causal)
