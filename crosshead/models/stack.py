"""What stacks of attention layers are configured by, and the parts that they are built of."""

from collections.abc import Callable
from typing import Literal, Self

from pydantic import Field, model_validator
from torch import nn

from crosshead.attention.multihead import MultiHeadAttention
from crosshead.layers.addnorm import ADD_NORM, AddNorm
from crosshead.layers.embeddings import LearnedPositions, SinusoidalPositions
from crosshead.layers.feedforward import FeedForward
from crosshead.models.base import ModelConfig


class StackConfig(ModelConfig):
    """The shape of attention layers; the defaults are `base` of Vaswani et al. 2017, Table 3."""

    d_ff: int = Field(2048, ge=1)
    heads: int = Field(8, ge=1)
    # Of keys and values, where neighbouring heads share them: 1 is multi-query attention.
    kv_heads: int | None = Field(None, ge=1)
    # Width of a head's queries and keys, and of its values: by default d_model / heads.
    d_key: int | None = Field(None, ge=1)
    d_value: int | None = Field(None, ge=1)
    # Of attention weights, and of the feed-forward network's inner activations: not in the paper.
    attention_dropout: float = Field(0.0, ge=0, lt=1)
    activation_dropout: float = Field(0.0, ge=0, lt=1)
    norm: Literal["post", "pre"] = "post"
    norm_eps: float = Field(1e-5, gt=0)
    activation: Literal["relu", "gelu", "swish"] = "relu"
    positions: Literal["sinusoidal", "sinusoidal-halves", "learned", "none"] = "sinusoidal"
    # The number of learned positions; the others have no end.
    max_length: int = Field(1024, ge=1)

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

    @property
    def most_positions(self) -> int | None:
        """The number of learned positions; None for the others."""
        return self.max_length if self.positions == "learned" else None

    def inner_vectors(self) -> int:
        """How many of width `d_ff` the feed-forward network keeps for the way back."""
        return 1 + (self.activation != "relu") + 2 * (self.activation_dropout > 0)


def branch_gain(layers: int) -> float:
    """By which the last matrix of every residual branch is scaled, in a stack of so many layers.

    1/sqrt(2 L), as in Radford et al. 2019, section 2.3. At full size the branches drown the stream
    of a small post-norm encoder: all positions of a sentence come out alike, and cross-attention,
    which then has nothing to choose from, may never learn to.
    """
    return float((2 * layers) ** -0.5)


def self_attention(config: StackConfig, gain: float) -> MultiHeadAttention:
    """Attention of a sequence to itself, in which positions may have a part."""
    return _attention(config, gain)


def cross_attention(config: StackConfig, gain: float) -> MultiHeadAttention:
    """Attention to another sequence."""
    return _attention(config, gain)


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
    """What is added to the embeddings of tokens; None where attention knows positions by itself."""
    return _ADDED[config.positions](config)


_ADDED: dict[str, Callable[[StackConfig], SinusoidalPositions | LearnedPositions | None]] = {
    "sinusoidal": lambda config: SinusoidalPositions(config.d_model, "interleaved"),
    "sinusoidal-halves": lambda config: SinusoidalPositions(config.d_model, "halves"),
    "learned": lambda config: LearnedPositions(config.d_model, config.max_length),
    "none": lambda config: None,
}


def _attention(config: StackConfig, gain: float) -> MultiHeadAttention:
    return MultiHeadAttention(
        config.d_model,
        config.heads,
        d_key=config.d_key or config.d_model // config.heads,
        d_value=config.d_value or config.d_model // config.heads,
        kv_heads=config.kv_heads,
        dropout=config.attention_dropout,
        output_gain=gain,
    )
