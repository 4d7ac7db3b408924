"""The Transformer of "Attention Is All You Need" (Vaswani et al. 2017): configuration and model."""

from dataclasses import dataclass
from typing import Literal, Self

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field, field_validator, model_validator
from torch import Tensor, nn

from crosshead.attention.attend import Backend
from crosshead.attention.cache import Cache, KeyValues, NoPast
from crosshead.attention.dropout import check_share
from crosshead.attention.masks import causal, present
from crosshead.attention.multihead import MultiHeadAttention
from crosshead.config import Config
from crosshead.layers.addnorm import ADD_NORM, AddNorm
from crosshead.layers.decoder import Decoder, DecoderLayer
from crosshead.layers.embeddings import (
    Embeddings,
    LearnedPositions,
    SinusoidalPositions,
    embedding_weight,
)
from crosshead.layers.encoder import Encoder, EncoderLayer
from crosshead.layers.feedforward import FeedForward
from crosshead.vocabulary import BOS, PAD


class TransformerConfig(Config):
    """The shape of a Transformer; the defaults are `base` of Vaswani et al. 2017, Table 3."""

    architecture: Literal["transformer"] = "transformer"
    encoder_layers: int = Field(6, ge=1)
    decoder_layers: int = Field(6, ge=1)
    d_model: int = Field(512, ge=1)
    d_ff: int = Field(2048, ge=1)
    heads: int = Field(8, ge=1)
    # Width of a head's queries and keys, and of its values: by default d_model / heads.
    d_key: int | None = Field(None, ge=1)
    d_value: int | None = Field(None, ge=1)
    # Of sublayer outputs and of the sums of embeddings and positions (section 5.4).
    dropout: float = Field(0.1, ge=0, lt=1)
    # Of attention weights, and of the feed-forward network's inner activations: not in the paper.
    attention_dropout: float = Field(0.0, ge=0, lt=1)
    activation_dropout: float = Field(0.0, ge=0, lt=1)
    norm: Literal["post", "pre"] = "post"
    norm_eps: float = Field(1e-5, gt=0)
    activation: Literal["relu", "gelu", "swish"] = "relu"
    positions: Literal["sinusoidal", "sinusoidal-halves", "learned"] = "sinusoidal"
    # The number of learned positions; sinusoids have no end.
    max_length: int = Field(1024, ge=1)
    # Which of source embedding, target embedding and output projection are one matrix: all
    # (section 3.4), the last two, or none of them.
    tie: Literal["three-way", "two-way", "none"] = "three-way"
    output_bias: bool = False
    # What the target begins with; Marian begins with padding.
    start: Literal["bos", "pad"] = "bos"

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.d_key is None or self.d_value is None) and self.d_model % self.heads:
            raise ValueError(
                f"d_model {self.d_model} is not divisible by heads {self.heads}; "
                "choose another number of heads, or give d_key and d_value"
            )
        return self

    @field_validator("dropout", "activation_dropout", "attention_dropout")
    @classmethod
    def _can_be_dropped(cls, share: float) -> float:
        check_share(share)
        return share

    @property
    def start_token(self) -> int:
        """The id that the target begins with."""
        return BOS if self.start == "bos" else PAD


@dataclass
class TransformerState:
    """Decoding so far: `N` rows that continue `B` sentences, the same number of rows a sentence."""

    memories: list[KeyValues]
    memory_mask: Bool[Tensor, "B 1 1 S"]
    caches: list[Cache]
    rows_per_sentence: int = 1

    def select(self, rows: Int[Tensor, " M"]) -> "TransformerState":
        """A state whose row i continues row `rows[i]` of this one.

        As long as every sentence keeps equally many rows, side by side, its memory is shared by
        them; otherwise every row gets a copy. Raises `ValueError` where no row is left.
        """
        if not rows.numel():
            raise ValueError("a state keeps at least one row; stop decoding where none is left")
        sentences = rows // self.rows_per_sentence
        kept, counts = torch.unique_consecutive(sentences, return_counts=True)
        if bool((counts == counts[0]).all()):
            rows_per_sentence = int(counts[0])
        else:
            kept, rows_per_sentence = sentences, 1
        memories, memory_mask = self.memories, self.memory_mask
        everyone = torch.arange(memory_mask.shape[0], device=kept.device)
        if not torch.equal(kept, everyone):
            memory_mask = memory_mask[kept]
            memories = [KeyValues(part.keys[kept], part.values[kept]) for part in memories]
        caches = [cache.select(rows) for cache in self.caches]
        return TransformerState(memories, memory_mask, caches, rows_per_sentence)


class Transformer(nn.Module):
    """The encoder-decoder of Vaswani et al. 2017, section 3 and Figure 1.

    `forward` gives logits for training; `start` and `step` decode (`crosshead.decoding.protocol`).

    Matrices begin Glorot-uniform, biases zero, embeddings N(0, 1/d_model). What ends a residual
    branch (W^O of attention, W_2 of feed-forward) is scaled by 1/sqrt(2 L), L being the layers of
    its stack, as in Radford et al. 2019, section 2.3. At full size the branches drown the stream of
    a small post-norm encoder: all positions of a sentence come out alike, and cross-attention,
    which then has nothing to choose from, may never learn to.
    """

    def __init__(
        self,
        config: TransformerConfig,
        source_vocabulary: int,
        target_vocabulary: int,
        backend: Backend | None = None,
    ) -> None:
        super().__init__()
        self.config = config
        source_weight = embedding_weight(source_vocabulary, config.d_model)
        target_weight = embedding_weight(target_vocabulary, config.d_model)
        if config.tie == "three-way":
            if source_vocabulary != target_vocabulary:
                raise ValueError(
                    f"three-way tying needs one joint vocabulary, found {source_vocabulary} source "
                    f"and {target_vocabulary} target pieces"
                )
            source_weight = target_weight
        self.source_embeddings = Embeddings(source_weight, _positions(config), config.dropout)
        self.target_embeddings = Embeddings(target_weight, _positions(config), config.dropout)
        self.encoder = Encoder(
            [_encoder_layer(config, backend) for _ in range(config.encoder_layers)],
            _final_norm(config),
        )
        self.decoder = Decoder(
            [_decoder_layer(config, backend) for _ in range(config.decoder_layers)],
            _final_norm(config),
        )
        self.projection = nn.Linear(config.d_model, target_vocabulary, bias=config.output_bias)
        self.projection.weight = (
            embedding_weight(target_vocabulary, config.d_model)
            if config.tie == "none"
            else target_weight
        )
        if config.output_bias:
            nn.init.zeros_(self.projection.bias)

    def encode(
        self, source: Int[Tensor, "B S"]
    ) -> tuple[Float[Tensor, "B S D"], Bool[Tensor, "B 1 1 S"]]:
        """The memory of a padded source, and the mask that keeps its padding out."""
        batch, length = source.shape
        mask = present(source != PAD).dense(1, length, batch=batch, device=source.device)
        return self.encoder(self.source_embeddings(source), mask), mask

    def features(
        self, source: Int[Tensor, "B S"], target: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T D"]:
        """What the last layer says at every position of a shifted target (section 3.1).

        The projection of these is `forward`; a loss that never holds all logits begins here.
        """
        memory, memory_mask = self.encode(source)
        length = target.shape[1]
        return self.decoder(
            self.target_embeddings(target),
            [NoPast()] * self.config.decoder_layers,
            self.decoder.project_memory(memory),
            causal.dense(length, length, device=target.device),
            memory_mask,
        )

    def forward(
        self, source: Int[Tensor, "B S"], target: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T V"]:
        """Logits of the token after each of `target`, which begins with the start token."""
        return self.projection(self.features(source, target))

    def start(self, source: Int[Tensor, "B S"]) -> TransformerState:
        """The state before the first token: one row a sentence."""
        memory, memory_mask = self.encode(source)
        caches = [Cache() for _ in range(self.config.decoder_layers)]
        return TransformerState(self.decoder.project_memory(memory), memory_mask, caches)

    def step(
        self, state: TransformerState, tokens: Int[Tensor, "N T"]
    ) -> tuple[Float[Tensor, "N D"], TransformerState]:
        """Feed each row its next tokens; what the last layer says after them, and the state then.

        `state` is used up: its caches are extended in place, and the state after is the same one.
        """
        before, new = state.caches[0].length, tokens.shape[1]
        mask = None  # one token, the last, may attend to everything before it
        if new > 1:
            mask = causal.dense(new, before + new, offset=before, device=tokens.device)
        features = self.decoder(
            self.target_embeddings(tokens, start=before),
            state.caches,
            state.memories,
            mask,
            state.memory_mask,
        )
        return features[:, -1], state

    def logits(self, features: Float[Tensor, "N D"]) -> Float[Tensor, "N V"]:
        """The logits of the token that follows each of `features`."""
        return self.projection(features)


def _positions(config: TransformerConfig) -> SinusoidalPositions | LearnedPositions:
    if config.positions == "learned":
        return LearnedPositions(config.d_model, config.max_length)
    halves = config.positions == "sinusoidal-halves"
    return SinusoidalPositions(config.d_model, "halves" if halves else "interleaved")


def _final_norm(config: TransformerConfig) -> nn.Module:
    """The norm at the end of a pre-norm stack, whose stream is not normalised otherwise."""
    if config.norm == "post":
        return nn.Identity()
    return nn.LayerNorm(config.d_model, eps=config.norm_eps)


def _add_norm(config: TransformerConfig) -> AddNorm:
    return ADD_NORM[config.norm](config.d_model, config.dropout, config.norm_eps)


def _branch_gain(layers: int) -> float:
    """By which the last matrix of every residual branch is scaled: see `Transformer`."""
    return (2 * layers) ** -0.5


def _attention(
    config: TransformerConfig, backend: Backend | None, gain: float
) -> MultiHeadAttention:
    return MultiHeadAttention(
        config.d_model,
        config.heads,
        d_key=config.d_key or config.d_model // config.heads,
        d_value=config.d_value or config.d_model // config.heads,
        dropout=config.attention_dropout,
        output_gain=gain,
        backend=backend,
    )


def _feedforward(config: TransformerConfig, gain: float) -> FeedForward:
    return FeedForward(
        config.d_model,
        config.d_ff,
        activation=config.activation,
        dropout=config.activation_dropout,
        output_gain=gain,
    )


def _encoder_layer(config: TransformerConfig, backend: Backend | None) -> EncoderLayer:
    gain = _branch_gain(config.encoder_layers)
    return EncoderLayer(
        _attention(config, backend, gain),
        _feedforward(config, gain),
        (_add_norm(config), _add_norm(config)),
    )


def _decoder_layer(config: TransformerConfig, backend: Backend | None) -> DecoderLayer:
    gain = _branch_gain(config.decoder_layers)
    return DecoderLayer(
        _attention(config, backend, gain),
        _attention(config, backend, gain),
        _feedforward(config, gain),
        (_add_norm(config), _add_norm(config), _add_norm(config)),
    )
