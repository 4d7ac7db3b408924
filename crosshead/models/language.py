"""Models of text by itself: what they have in common, and the decoder-only Transformer."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn

from crosshead.attention.cache import Cache, NoPast, Past
from crosshead.attention.multihead import MultiHeadAttention
from crosshead.layers.embeddings import Embeddings, embedding_weight
from crosshead.layers.encoder import Encoder, EncoderLayer
from crosshead.models.base import Numbers, SequenceModel, Shape
from crosshead.models.stack import (
    Positions,
    StackConfig,
    add_norm,
    added_positions,
    branch_gain,
    causal_mask,
    feedforward,
    final_norm,
    scored_keys,
    self_attention,
)


class LanguageStackConfig(StackConfig):
    """The shape of a stack of layers that reads what it has written itself."""

    task: ClassVar[Literal["translation", "language"]] = "language"

    layers: int = Field(6, ge=1)
    norm: Literal["post", "pre"] = "pre"
    activation: Literal["relu", "gelu", "swish"] = "gelu"
    # Whether the embeddings and the output projection are one matrix: that saves weights where the
    # vocabulary is large, but begins with the expectation that every token is written twice.
    tie: bool = False
    output_bias: bool = False

    def shape(self) -> str:
        """Its layers and widths, in a clause."""
        return (
            f"{self.layers} layers, d_model {self.d_model}, d_ff {self.d_ff}, {self.heads} heads, "
            f"{self.norm}-norm"
        )

    def numbers_held(self, shape: Shape, *, weights: bool, recompute: bool) -> Numbers:
        """As those of a Transformer's encoder."""
        width, tokens = self.d_model, shape.rows * shape.target
        layer = (8 + 2 * (self.dropout > 0)) * width + self.inner_vectors() * self.d_ff
        ends = (1 + (self.dropout > 0) + (self.norm == "pre")) * width
        block = shape.rows * self.heads * shape.target * scored_keys(self, shape.target) * weights
        copies = 3 if self.attention_dropout else 1
        if recompute:
            vectors = self.layers * width + layer
            return Numbers(tokens * (ends + vectors), (copies + 2) * block, block)
        whole = (self.layers * copies + 2) * block
        return Numbers(tokens * (ends + self.layers * layer), whole, block)


class LanguageConfig(LanguageStackConfig):
    """The shape of a decoder-only Transformer."""

    architecture: Literal["language"] = "language"
    # Of all kinds these learned text fastest in little training, and they have no end.
    positions: Positions = "rotary"


class LanguageModel(SequenceModel):
    """A stack of layers that reads what it has written, between embeddings and a projection.

    `attention` builds what each layer attends with. Weights begin as those of `Transformer`.
    """

    config: LanguageStackConfig

    def __init__(
        self,
        config: LanguageStackConfig,
        vocabulary: int,
        attention: Callable[[], MultiHeadAttention],
    ) -> None:
        super().__init__()
        self.config = config
        weight = embedding_weight(vocabulary, config.d_model)
        self.embeddings = Embeddings(weight, added_positions(config), config.dropout)
        self.stack = Encoder(
            [_layer(config, attention()) for _ in range(config.layers)], final_norm(config)
        )
        self.projection = nn.Linear(config.d_model, vocabulary, bias=config.output_bias)
        self.projection.weight = (
            weight if config.tie else embedding_weight(vocabulary, config.d_model)
        )
        if config.output_bias:
            nn.init.zeros_(self.projection.bias)

    def after(self, pasts: Sequence[Past], tokens: Int[Tensor, "N T"]) -> Float[Tensor, "N T D"]:
        """What the last layer says at every one of `tokens`, which come after `pasts`, one a layer.

        No token sees a later one, so that padding at the end of a row changes nothing before it.
        """
        before = pasts[0].length
        mask = causal_mask(self.config, tokens.shape[1], before, tokens.device)
        return self.stack(self.embeddings(tokens, start=before), mask, pasts)

    def layers(self) -> Iterable[nn.Module]:
        """The layers of the stack."""
        return tuple(self.stack.layers)


@dataclass
class LanguageState:
    """What was written in `N` rows, as keys and values of each layer."""

    caches: list[Cache]

    def select(self, rows: Int[Tensor, " M"]) -> "LanguageState":
        """A state whose row i continues row `rows[i]` of this one.

        Raises `ValueError` where no row is left.
        """
        return LanguageState(select(self.caches, rows))


class TransformerLanguageModel(LanguageModel):
    """The decoder of Vaswani et al. 2017 without a source: Liu et al. 2018, section 4.2.3.

    With learned positions, pre-norm and GELU it is GPT-2 (Radford et al. 2019, section 2.3), whose
    embeddings are not scaled by sqrt(d_model): divided by that they are the (untied) ones here.
    """

    def __init__(self, config: LanguageConfig, vocabulary: int) -> None:
        super().__init__(
            config,
            vocabulary,
            lambda: self_attention(config, branch_gain(config.layers), causal=True),
        )

    def features(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        """What the last layer says at every position, of the tokens up to there."""
        return self.after([NoPast()] * self.config.layers, tokens)

    def start(self, source: Int[Tensor, "B 0"]) -> LanguageState:
        """The state before the first token; the source of a model of text by itself is empty."""
        return LanguageState([Cache() for _ in range(self.config.layers)])

    def step(
        self, state: LanguageState, tokens: Int[Tensor, "N T"]
    ) -> tuple[Float[Tensor, "N D"], LanguageState]:
        """Feed each row its next tokens; what the last layer says after them, and the state then.

        `state` is used up: its caches are extended in place, and the state after is the same one.
        """
        return self.after(state.caches, tokens)[:, -1], state


def select(caches: Iterable[Cache], rows: Int[Tensor, " M"]) -> list[Cache]:
    """The caches of the chosen rows; raises `ValueError` where none is chosen."""
    if not rows.numel():
        raise ValueError("a state keeps at least one row; stop decoding where none is left")
    return [cache.select(rows) for cache in caches]


def _layer(config: LanguageStackConfig, attention: MultiHeadAttention) -> EncoderLayer:
    gain = branch_gain(config.layers)
    return EncoderLayer(attention, feedforward(config, gain), (add_norm(config), add_norm(config)))
