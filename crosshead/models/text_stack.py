"""Models of monolingual text: one stack of layers between embeddings and a projection."""

from collections.abc import Callable, Iterable
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator
from torch import nn

from crosshead.attention.multihead import MultiHeadAttention
from crosshead.config import MOST_LAYERS
from crosshead.layers.embeddings import Embeddings, embedding_weight
from crosshead.layers.restricted import RestrictedProjection
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

    scale_embeddings: bool = True
    """True multiplies embeddings by sqrt(d_model) (Vaswani et al. 2017, section 3.4). False leaves
    them as they are, as in GPT-2."""

    absent: list[Literal[0, 1, 3]] = Field(default_factory=list)
    """Control tokens that the model never predicts: 0 is padding, 1 begin and 3 unknown. An
    imported model names those that its own vocabulary lacks. Not together with output_bias."""

    @model_validator(mode="after")
    def _check_absent(self) -> Self:
        if self.absent and self.output_bias:
            raise ValueError("absent needs output_bias = false; leave one of them out")
        return self

    @property
    def depth(self) -> int:
        """The number of layers."""
        return self.layers

    def shape(self) -> str:
        """Return the number of layers and the widths, as a clause."""
        return self.layers_and_widths(str(self.layers))


class TextStack(TokenModel):
    """Embeddings, a stack of layers and a projection; weights start as in `Transformer`."""

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
        scale = None if config.scale_embeddings else 1.0
        self.embeddings = Embeddings(weight, added_positions(config), config.dropout, scale)
        self.stack = encoder_stack(config, config.layers, attention)
        self.projection = nn.Linear(config.d_model, vocabulary, bias=config.output_bias)
        output = weight if config.tie else embedding_weight(vocabulary, config.d_model)
        if config.absent:
            self.projection = RestrictedProjection(output, config.absent)
        self.projection.weight = output
        if config.output_bias:
            nn.init.zeros_(self.projection.bias)

    def layers(self) -> Iterable[nn.Module]:
        """Return the layers of the stack."""
        return tuple(self.stack.layers)
