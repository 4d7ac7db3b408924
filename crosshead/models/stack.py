"""Configuration of stacks of attention layers, and the parts they are built of."""

from collections.abc import Callable
from typing import Literal, NamedTuple, Self

import torch
from pydantic import Field, model_validator
from torch import nn

from crosshead.attention.attend import Combine, weighted_sum
from crosshead.attention.masks import EvaluatedMask, Mask, causal, dilated, fixed, strided, window
from crosshead.attention.multihead import MultiHeadAttention, Rotate
from crosshead.attention.positions import Rotary, SinusoidalPositions
from crosshead.attention.relative import ALiBi, Biased, ShawKeys, ShawValues, T5Buckets
from crosshead.attention.scores import (
    Additive,
    Concat,
    Cosine,
    Dot,
    General,
    ScaledDot,
    Score,
)
from crosshead.config import MOST_HEADS, MOST_INNER, MOST_POSITIONS, MOST_WIDTH
from crosshead.layers.addnorm import ADD_NORM, AddNorm
from crosshead.layers.embeddings import LearnedPositions
from crosshead.layers.feedforward import FeedForward
from crosshead.models.base import ModelConfig

Positions = Literal[
    "sinusoidal", "sinusoidal-halves", "sinusoidal-marian", "learned",
    "rotary", "shaw", "t5", "alibi", "none",
]  # fmt: skip
"""Position information of a stack of attention layers."""


Activation = Literal["relu", "gelu", "gelu-tanh", "swish"]
"""Activation of the feed-forward network; "gelu-tanh" is an approximation of "gelu"."""

LEARNED = 1024
"""Learned positions where a configuration does not say: bundles rely on it."""


class StackConfig(ModelConfig):
    """The shape of attention layers; the defaults are `base` of Vaswani et al. 2017, Table 3."""

    d_ff: int = Field(2048, ge=1, le=MOST_INNER)
    heads: int = Field(8, ge=1, le=MOST_HEADS)
    # Of keys and values, where neighbouring heads share them: 1 is multi-query attention.
    kv_heads: int | None = Field(None, ge=1, le=MOST_HEADS)
    # Width of a head's queries and keys, and of its values: by default d_model / heads.
    d_key: int | None = Field(None, ge=1, le=MOST_WIDTH)
    d_value: int | None = Field(None, ge=1, le=MOST_WIDTH)
    # Of attention weights, and of the feed-forward network's inner activations: not in the paper.
    attention_dropout: float = Field(0.0, ge=0, lt=1)
    activation_dropout: float = Field(0.0, ge=0, lt=1)
    norm: Literal["post", "pre"] = "post"
    norm_eps: float = Field(1e-5, gt=0, le=1)
    activation: Activation = "relu"
    # How a query is scored against a key, in all attention.
    score: Literal["scaled-dot", "dot", "additive", "concat", "general", "cosine"] = "scaled-dot"
    # Sinusoids and learned vectors are added to embeddings, in the order of the paper, of Hugging
    # Face's Marian ("halves") or of Marian itself; the others act in self-attention, each layer
    # with parameters of its own.
    positions: Positions = "sinusoidal"
    # The number of learned positions, by default 1024; the others have no end, and take none.
    max_length: int | None = Field(None, ge=1, le=MOST_POSITIONS)
    # Whom a position may attend to in self-attention, the same for all heads: everyone, `radius`
    # neighbours on each side, `dilation` apart, or as in Child et al. 2019, their strided or fixed
    # attention with both parts merged (section 5.1), l = `stride` and c = `columns`.
    pattern: Literal["full", "window", "dilated", "strided", "fixed"] = "full"
    radius: int | None = Field(None, ge=1, le=MOST_POSITIONS)
    dilation: int | None = Field(None, ge=1, le=MOST_POSITIONS)
    stride: int | None = Field(None, ge=1, le=MOST_POSITIONS)
    columns: int | None = Field(None, ge=1, le=MOST_POSITIONS)

    @model_validator(mode="after")
    def _check_heads(self) -> Self:
        if (self.d_key is None or self.d_value is None) and self.d_model % self.heads:
            raise ValueError(
                f"d_model {self.d_model} is not divisible by heads {self.heads}; "
                "choose another number of heads, or give d_key and d_value"
            )
        if self.kv_heads is not None and self.heads % self.kv_heads:
            raise ValueError(
                f"heads {self.heads} is not divisible by kv_heads {self.kv_heads}: as many heads "
                "must share each"
            )
        return self

    @model_validator(mode="after")
    def _check_positions(self) -> Self:
        self.refuse_idle("max_length", "positions", "learned", LEARNED)
        scores = _SCORES_OF_POSITIONS.get(self.positions, (self.score,))
        if self.score not in scores:
            raise ValueError(
                f"positions {self.positions} do not go with score {self.score}: they act on plain "
                f"products of queries and keys; choose another score ({', '.join(scores)}), or "
                "positions t5 or alibi, which go with any"
            )
        if self.positions == "rotary" and self.key_width % 2:
            raise ValueError(
                f"positions rotary turn pairs of numbers: queries and keys of {self.key_width} "
                "have one too many; give an even d_key"
            )
        return self

    @property
    def key_width(self) -> int:
        """Width of a head's queries and keys."""
        return self.d_key or self.d_model // self.heads

    @property
    def value_width(self) -> int:
        """Width of a head's values."""
        return self.d_value or self.d_model // self.heads

    @model_validator(mode="after")
    def _check_pattern(self) -> Self:
        used, _ = _PATTERNS[self.pattern]
        for name in ("radius", "dilation", "stride", "columns"):
            given = getattr(self, name)
            if given is None and name in used:
                raise ValueError(f"pattern {self.pattern!r} needs {name}: give a number")
            if given is not None and name not in used:
                users = " or ".join(repr(each) for each in _PATTERNS if name in _PATTERNS[each][0])
                raise ValueError(
                    f"{name} {given} has no meaning for pattern {self.pattern!r}; leave it out, or "
                    f"choose pattern {users}"
                )
        if self.columns is not None and self.stride is not None and self.columns > self.stride:
            raise ValueError(
                f"columns {self.columns} are more than a block has; give {self.stride} (stride) or "
                "fewer"
            )
        if self.pattern == "fixed" and self.positions in ("shaw", "t5", "alibi"):
            raise ValueError(
                f"positions {self.positions} do not go with pattern 'fixed': its summary columns "
                "stand at no regular distance; choose positions rotary, or added to embeddings"
            )
        return self

    @property
    def most_positions(self) -> int | None:
        """The number of learned positions; None for the others."""
        return (self.max_length or LEARNED) if self.positions == "learned" else None

    def kept_of_a_pair(self) -> int:
        """The count of numbers that attention keeps for the backward pass per query and key.

        It keeps the weight, two more numbers if weights are dropped, and the hidden layer of an
        additive score.
        """
        hidden = self.key_width if self.score in ("additive", "concat") else 0
        return (3 if self.attention_dropout else 1) + hidden

    def inner_vectors(self) -> int:
        """The count of `d_ff` vectors that the feed-forward network keeps for the backward pass."""
        return 1 + (self.activation != "relu") + 2 * (self.activation_dropout > 0)


def branch_gain(layers: int) -> float:
    """Return the initial scale of the last matrix of every residual branch.

    The scale is 1/sqrt(2 L), as in Radford et al. 2019, section 2.3. At full size the branches
    outweigh the residual stream of a small post-norm encoder. All positions of a sentence then get
    nearly the same hidden state, and cross-attention may never learn to tell them apart.
    """
    return float((2 * layers) ** -0.5)


def self_attention(config: StackConfig, gain: float, *, causal: bool) -> MultiHeadAttention:
    """Attention of a sequence to itself, in which positions may have a part.

    `causal` says whether no position attends to later ones.
    """
    return attention_of(config, gain, _position_aware(config, causal))


def cross_attention(config: StackConfig, gain: float) -> MultiHeadAttention:
    """Attention to another sequence: there are no distances between the two."""
    return attention_of(config, gain, Parts(_SCORES[config.score](config)))


def feedforward(config: StackConfig, gain: float) -> FeedForward:
    """The position-wise network."""
    return FeedForward(
        config.d_model,
        config.d_ff,
        activation=config.activation,
        dropout=config.activation_dropout,
        output_gain=gain,
    )


def add_norm(config: StackConfig) -> AddNorm:
    """The residual connection around a sublayer."""
    return ADD_NORM[config.norm](config.d_model, config.dropout, config.norm_eps)


def final_norm(config: StackConfig) -> nn.Module:
    """The norm at the end of a pre-norm stack, whose stream is not normalised otherwise."""
    if config.norm == "post":
        return nn.Identity()
    return nn.LayerNorm(config.d_model, eps=config.norm_eps)


def added_positions(config: StackConfig) -> SinusoidalPositions | LearnedPositions | None:
    """Return the positions added to token embeddings; None if attention itself knows positions."""
    build = _ADDED.get(config.positions)
    return None if build is None else build(config)


_ADDED: dict[str, Callable[[StackConfig], SinusoidalPositions | LearnedPositions]] = {
    "sinusoidal": lambda config: SinusoidalPositions(config.d_model, "interleaved"),
    "sinusoidal-halves": lambda config: SinusoidalPositions(config.d_model, "halves"),
    "sinusoidal-marian": lambda config: SinusoidalPositions(
        config.d_model, "halves", "tensor2tensor"
    ),
    "learned": lambda config: LearnedPositions(config.d_model, config.most_positions or LEARNED),
}


class Parts(NamedTuple):
    """The parts of attention besides its projections."""

    score: Score
    combine: Combine = weighted_sum
    rotate: Rotate | None = None


def _position_aware(config: StackConfig, causal: bool) -> Parts:
    """The parts of self-attention: positions act in it unless they are added to embeddings."""
    score = _SCORES[config.score](config)
    match config.positions:
        case "rotary":
            return Parts(score, rotate=Rotary(config.key_width))
        case "shaw":
            keys = ShawKeys(config.key_width, scale=1.0 if config.score == "dot" else None)
            return Parts(keys, combine=ShawValues(config.value_width))
        case "t5":
            return Parts(Biased(score, T5Buckets(config.heads, causal=causal)))
        case "alibi":
            return Parts(Biased(score, ALiBi(config.heads)))
    return Parts(score)


_SCORES_OF_POSITIONS = {
    # Turning keeps lengths, and makes products depend on the distance.
    "rotary": ("scaled-dot", "dot", "cosine"),
    "shaw": ("scaled-dot", "dot"),
}
"""With which scores positions go, where not with all."""

_SCORES: dict[str, Callable[[StackConfig], Score]] = {
    "scaled-dot": lambda config: ScaledDot(),
    "dot": lambda config: Dot(),
    "additive": lambda config: Additive(
        config.heads, config.key_width, config.key_width, config.key_width
    ),
    "concat": lambda config: Concat(
        config.heads, config.key_width, config.key_width, config.key_width
    ),
    "general": lambda config: General(config.heads, config.key_width, config.key_width),
    "cosine": lambda config: Cosine(nn.Parameter(torch.full((config.heads, 1, 1), 10.0))),
}


def attention_of(config: StackConfig, gain: float, parts: Parts) -> MultiHeadAttention:
    """Attention of the widths that are configured, made of these parts."""
    return MultiHeadAttention(
        config.d_model,
        config.heads,
        d_key=config.key_width,
        d_value=config.value_width,
        kv_heads=config.kv_heads,
        score=parts.score,
        combine=parts.combine,
        rotate=parts.rotate,
        dropout=config.attention_dropout,
        output_gain=gain,
    )


def self_mask(config: StackConfig, among: Mask) -> Mask:
    """Return the self-attention mask: the pairs of `among` that the pattern allows."""
    pattern = _pattern(config)
    return among if pattern is None else among & pattern


def _pattern(config: StackConfig) -> Mask | None:
    """The mask of the pattern, as it is without any other; None for that of all pairs."""
    used, pattern = _PATTERNS[config.pattern]
    return None if pattern is None else pattern(*(getattr(config, name) for name in used))


def causal_mask(
    config: StackConfig, new: int, before: int, device: torch.device
) -> EvaluatedMask | None:
    """Return the causal self-attention mask of `new` positions after `before` earlier ones.

    The result is None if every cached position is visible: for a single new position without a
    pattern, or with a window that covers all. The cache may lack the first positions, as only the
    last `cache_window` of them are visible.
    """
    all_near = config.pattern == "window" and before <= (config.radius or 0)
    if new == 1 and (config.pattern == "full" or all_near):
        return None
    mask = self_mask(config, causal)
    return mask.evaluate(new, before + new, offset=before, device=device)


def cache_window(config: StackConfig) -> int | None:
    """Return how far back a position sees in self-attention; None if there is no limit.

    A pattern with a limit depends on distances alone, for all kinds of positions: see `Cache`.
    """
    if config.radius is None:
        return None
    return config.radius * (config.dilation or 1)


def scored_keys(config: StackConfig, length: int, *, causal: bool) -> int:
    """The number of keys that a query of self-attention is scored against.

    For what a sequence of so many positions takes of memory: all of them, or those of blocks, fewer
    in attention that is `causal`.
    """
    mask = _pattern(config)
    return length if mask is None else mask.scored(length, causal=causal)


_PATTERNS: dict[str, tuple[tuple[str, ...], Callable[..., Mask] | None]] = {
    "full": ((), None),
    "window": (("radius",), window),
    "dilated": (("radius", "dilation"), dilated),
    "strided": (("stride",), strided),
    "fixed": (("stride", "columns"), fixed),
}
"""The settings of each pattern, and its mask."""
