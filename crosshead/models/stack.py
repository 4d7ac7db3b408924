"""Stacks of attention layers: their configuration, and functions that build their parts."""

from collections.abc import Callable
from functools import partial
from typing import Literal, Self

from pydantic import Field, model_validator
from torch import nn

from crosshead.attention.masks import Mask, dilated, fixed, strided, window
from crosshead.attention.multihead import MultiHeadAttention
from crosshead.config import MOST_HEADS, MOST_INNER, MOST_POSITIONS, MOST_WIDTH
from crosshead.layers.addnorm import ADD_NORM, AddNorm
from crosshead.layers.decoder import DecoderLayer
from crosshead.layers.encoder import EncoderLayer
from crosshead.layers.feedforward import FeedForward
from crosshead.layers.layer_stack import LayerStack
from crosshead.models.attention_kinds import (
    DEFAULT_MAX_LENGTH,
    POSITIONS,
    SCORES,
    AttentionParts,
    PositionsName,
    ScoreName,
    attention_parts,
)
from crosshead.models.base import ModelConfig

Activation = Literal["relu", "gelu", "gelu-tanh", "swish"]
"""The activations of the feed-forward network; "gelu-tanh" is an approximation of "gelu"."""


PATTERNS: dict[str, tuple[tuple[str, ...], Callable[..., Mask] | None]] = {
    "full": ((), None),
    "window": (("radius",), window),
    "dilated": (("radius", "dilation"), dilated),
    "strided": (("stride",), strided),
    "fixed": (("stride", "columns"), fixed),
}
"""The settings of each pattern, and the function that makes its mask from them."""


class StackConfig(ModelConfig):
    """The shape of attention layers; the defaults are the paper's `base` model.

    Reference:
        Vaswani et al. 2017, Table 3.
    """

    d_ff: int = Field(2048, ge=1, le=MOST_INNER)
    """Inner width of the feed-forward network (section 3.3)."""

    heads: int = Field(8, ge=1, le=MOST_HEADS)
    """Number of attention heads (section 3.2.2)."""

    kv_heads: int | None = Field(None, ge=1, le=MOST_HEADS)
    """Heads of keys and values; with fewer than `heads`, neighbouring heads share them. 1 is
    multi-query attention (Shazeer 2019). Unset: as many as `heads`."""

    d_key: int | None = Field(None, ge=1, le=MOST_WIDTH)
    """Width of the queries and keys of a head. Unset: d_model / heads."""

    d_value: int | None = Field(None, ge=1, le=MOST_WIDTH)
    """Width of the values of a head. Unset: d_model / heads."""

    attention_dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout of attention weights; the paper has none."""

    activation_dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout of the feed-forward network's inner activations; the paper has none."""

    norm: Literal["post", "pre"] = "post"
    """Layer norm after each residual connection (`post`, as in the paper) or before each sublayer
    (`pre`)."""

    norm_eps: float = Field(1e-5, gt=0, le=1)
    """Number added to the variance in layer norms."""

    activation: Activation = "relu"
    """Activation function of the feed-forward network; the paper has `relu`."""

    score: ScoreName = "scaled-dot"
    """Score function of all attention layers; the paper has `scaled-dot` (Eq. 1)."""

    positions: PositionsName = "sinusoidal"
    """The kind of positions. Sinusoids and `learned` vectors are added to embeddings. `sinusoidal`
    follows the paper (section 3.5), `sinusoidal-halves` Hugging Face's Marian, `sinusoidal-marian`
    Marian itself. The other kinds act in self-attention, with separate parameters in each layer."""

    max_length: int | None = Field(None, ge=1, le=MOST_POSITIONS)
    """Number of learned positions, by default 1024. Other kinds of positions have no limit and do
    not take it."""

    pattern: Literal["full", "window", "dilated", "strided", "fixed"] = "full"
    """Pattern of self-attention, the same for all heads: all positions; `radius` neighbours on each
    side; the same, `dilation` apart; or the strided or fixed attention of Child et al. 2019 with
    both parts merged (section 5.1)."""

    radius: int | None = Field(None, ge=1, le=MOST_POSITIONS)
    """Neighbours on each side in the patterns `window` and `dilated`."""

    dilation: int | None = Field(None, ge=1, le=MOST_POSITIONS)
    """Distance between neighbours in the pattern `dilated`."""

    stride: int | None = Field(None, ge=1, le=MOST_POSITIONS)
    """Length l of the patterns `strided` and `fixed` (Child et al. 2019, section 4.3)."""

    columns: int | None = Field(None, ge=1, le=MOST_POSITIONS)
    """Number c of summary columns in the pattern `fixed`."""

    @model_validator(mode="after")
    def _check_heads(self) -> Self:
        if (self.d_key is None or self.d_value is None) and self.d_model % self.heads:
            raise ValueError(
                f"d_model {self.d_model} is not divisible by heads {self.heads}; "
                "choose another number of heads, or give d_key and d_value"
            )
        if self.kv_heads is not None and self.heads % self.kv_heads:
            raise ValueError(
                f"heads {self.heads} is not divisible by kv_heads {self.kv_heads}; choose kv_heads "
                "that divides heads"
            )
        return self

    @model_validator(mode="after")
    def _check_positions(self) -> Self:
        self.refuse_idle("max_length", "positions", "learned", DEFAULT_MAX_LENGTH)
        scores = POSITIONS[self.positions].scores
        if scores is not None and self.score not in scores:
            known = ", ".join(name for name in SCORES if name in scores)
            raise ValueError(
                f"positions {self.positions} do not work with score {self.score}: they act on "
                f"plain products of queries and keys; choose another score ({known}), "
                "or positions t5 or alibi, which work with any score"
            )
        if self.positions == "rotary" and self.key_width % 2:
            raise ValueError(
                f"positions rotary rotate pairs of numbers, but the width {self.key_width} of "
                "queries and keys is odd; give an even d_key"
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
        used, _ = PATTERNS[self.pattern]
        for name in ("radius", "dilation", "stride", "columns"):
            given = getattr(self, name)
            if given is None and name in used:
                raise ValueError(f"pattern {self.pattern!r} needs {name}: give a number")
            if given is not None and name not in used:
                users = " or ".join(repr(each) for each in PATTERNS if name in PATTERNS[each][0])
                raise ValueError(
                    f"{name} {given} has no meaning for pattern {self.pattern!r}; leave it out, or "
                    f"choose pattern {users}"
                )
        if self.columns is not None and self.stride is not None and self.columns > self.stride:
            raise ValueError(
                f"columns {self.columns} are more than a block has; give {self.stride} (stride) or "
                "fewer"
            )
        if self.pattern == "fixed" and POSITIONS[self.positions].needs_distances:
            raise ValueError(
                f"positions {self.positions} do not work with pattern 'fixed', whose summary "
                "columns have no regular distances; choose positions rotary, or positions that "
                "are added to embeddings"
            )
        return self

    def layers_and_widths(self, layers: str) -> str:
        """Return the number of layers and the widths, as a clause."""
        return (
            f"{layers} layers, d_model {self.d_model}, d_ff {self.d_ff}, {self.heads} heads, "
            f"{self.norm}-norm"
        )

    @property
    def most_positions(self) -> int | None:
        """The number of learned positions; None for other kinds, which have no limit."""
        return (self.max_length or DEFAULT_MAX_LENGTH) if self.positions == "learned" else None


def residual_init_scale(layers: int) -> float:
    """Return the initial scale of the last matrix of every residual branch.

    The scale is 1/sqrt(2 L), as in GPT-2. With a scale of 1 the branches outweigh the residual
    stream of a small post-norm encoder. All positions of a sentence then get nearly the same hidden
    state, and cross-attention may never learn to tell them apart.

    Reference:
        Radford et al. 2019, section 2.3.
    """
    return float((2 * layers) ** -0.5)


def encoder_stack(
    config: StackConfig, layers: int, attention: Callable[[], MultiHeadAttention] | None = None
) -> LayerStack[EncoderLayer]:
    """Build a stack of self-attention and feed-forward layers, with its final norm.

    Reference:
        Vaswani et al. 2017, Figure 1 (left).
    """
    gain = residual_init_scale(layers)
    build = attention or partial(self_attention, config, gain, causal=False)

    def layer() -> EncoderLayer:
        return EncoderLayer(
            build(), feedforward(config, gain), (add_norm(config), add_norm(config))
        )

    return LayerStack([layer() for _ in range(layers)], final_norm(config))


def decoder_stack(config: StackConfig, layers: int) -> LayerStack[DecoderLayer]:
    """Build a stack of causal self-attention, cross-attention and feed-forward layers.

    Reference:
        Vaswani et al. 2017, Figure 1 (right).
    """
    gain = residual_init_scale(layers)

    def layer() -> DecoderLayer:
        return DecoderLayer(
            self_attention(config, gain, causal=True),
            cross_attention(config, gain),
            feedforward(config, gain),
            (add_norm(config), add_norm(config), add_norm(config)),
        )

    return LayerStack([layer() for _ in range(layers)], final_norm(config))


def self_attention(config: StackConfig, gain: float, *, causal: bool) -> MultiHeadAttention:
    """Build a self-attention layer; it includes the positions that act in attention."""
    return build_attention(config, gain, attention_parts(config, causal=causal))


def cross_attention(config: StackConfig, gain: float) -> MultiHeadAttention:
    """Build a cross-attention layer; two sequences have no distances between their positions."""
    return build_attention(config, gain, AttentionParts(SCORES[config.score](config)))


def feedforward(config: StackConfig, gain: float) -> FeedForward:
    """Build the position-wise network."""
    return FeedForward(
        config.d_model,
        config.d_ff,
        activation=config.activation,
        dropout=config.activation_dropout,
        output_gain=gain,
    )


def add_norm(config: StackConfig) -> AddNorm:
    """Build the residual connection around a sublayer."""
    return ADD_NORM[config.norm](config.d_model, config.dropout, config.norm_eps)


def final_norm(config: StackConfig) -> nn.Module:
    """Build the norm at the end of a stack."""
    if config.norm == "post":
        return nn.Identity()
    return nn.LayerNorm(config.d_model, eps=config.norm_eps)


def added_positions(config: StackConfig) -> nn.Module | None:
    """Build the positions that are added to token embeddings."""
    build = POSITIONS[config.positions].added
    return None if build is None else build(config)


def build_attention(config: StackConfig, gain: float, parts: AttentionParts) -> MultiHeadAttention:
    """Build an attention layer."""
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
