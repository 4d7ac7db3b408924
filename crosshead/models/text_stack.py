"""Models of monolingual text: one stack of layers between embeddings and a projection."""

from collections.abc import Callable, Iterable
from typing import ClassVar, Literal

from pydantic import Field
from torch import nn

from crosshead.attention.multihead import MultiHeadAttention
from crosshead.config import MOST_LAYERS
from crosshead.layers.embeddings import Embeddings, embedding_weight
from crosshead.models.base import TokenModel, TokenModelConfig
from crosshead.models.stack import (
    Activation,
    StackConfig,
    added_positions,
    encoder_stack,
)


class TextStackConfig(StackConfig, TokenModelConfig):
    """The shape of one stack of layers, for monolingual text."""

    task: ClassVar[str] = "language"
    vocabularies: ClassVar[int] = 1

    layers: int = Field(6, ge=1, le=MOST_LAYERS)
    """Number of layers."""

    norm: Literal["post", "pre"] = "pre"
    """Layer norm after each residual connection (`post`) or before each sublayer (`pre`)."""

    activation: Activation = "gelu"
    """Activation function of the feed-forward network."""

    tie: bool = False
    """True shares one matrix between the embeddings and the output projection. That saves weights
    if the vocabulary is large, but an untrained model then expects every token to be repeated."""

    output_bias: bool = False
    """True gives the output projection a bias."""

    @property
    def depth(self) -> int:
        """The number of layers."""
        return self.layers

    def shape(self) -> str:
        """Return the number of layers and the widths, as a clause."""
        return self.layers_and_widths(str(self.layers))


class TextStack(TokenModel):
    """Embeddings, a stack of layers and a projection; weights start as in `Transformer`.

    Args:
        config: The shape.
        vocabulary: Number of tokens.
        attention: Function that builds the self-attention of each layer.
    """

    config: TextStackConfig

    def __init__(
        self,
        config: TextStackConfig,
        vocabulary: int,
        attention: Callable[[], MultiHeadAttention],
    ) -> None:
        super().__init__()
        self.config = config
        weight = embedding_weight(vocabulary, config.d_model)
        self.embeddings = Embeddings(weight, added_positions(config), config.dropout)
        self.stack = encoder_stack(config, config.layers, attention)
        self.projection = nn.Linear(config.d_model, vocabulary, bias=config.output_bias)
        self.projection.weight = (
            weight if config.tie else embedding_weight(vocabulary, config.d_model)
        )
        if config.output_bias:
            nn.init.zeros_(self.projection.bias)

    def layers(self) -> Iterable[nn.Module]:
        """Return the layers of the stack."""
        return tuple(self.stack.layers)
