"""Recurrent encoder-decoders, with a fixed-size bottleneck or with attention.

Sutskever et al. 2014; Cho et al. 2014; Bahdanau et al. 2015; Luong et al. 2015.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, Self

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field, model_validator
from torch import Tensor, nn

from crosshead.attention.attend import Attention
from crosshead.attention.masks import padding_mask
from crosshead.attention.scores import Dot, Location, ProjectedAdditive
from crosshead.config import MOST_LAYERS, MOST_POSITIONS
from crosshead.errors import UserError
from crosshead.layers.embeddings import Embeddings, embedding_weight, source_and_target_weights
from crosshead.layers.recurrent_decoder import (
    BahdanauDecoder,
    ChoDecoder,
    InputFeedingDecoder,
    LuongDecoder,
    RecurrentDecoder,
    RecurrentDecoderState,
    SutskeverDecoder,
    glorot,
)
from crosshead.layers.rnn import Cell, EncodedSource, RecurrentEncoder, RecurrentStack
from crosshead.layers.source_attention import LocalWindow, SourceAttention
from crosshead.models.base import AttentionKind, EncoderDecoderConfig, SequenceModel
from crosshead.models.source_memory import SentenceMemory
from crosshead.vocabulary import PAD

Kind = Literal[
    "none",
    "bahdanau",
    "luong-dot",
    "luong-general",
    "luong-concat",
    "luong-location",
    "luong-local",
]


DEFAULT_RADIUS, DEFAULT_MAX_LENGTH = 10, 1024
"""The defaults of luong-local's radius and of luong-location's number of positions. Stored bundles
rely on these values."""


class RecurrentConfig(EncoderDecoderConfig):
    """The shape of a recurrent encoder-decoder; all layers and embeddings are `d_model` wide."""

    architecture: Literal["recurrent"] = "recurrent"
    """The architecture of the model."""

    cell: Cell = "lstm"
    """Kind of recurrent cell."""

    encoder_layers: int = Field(2, ge=1, le=MOST_LAYERS)
    """Layers of the encoder."""

    decoder_layers: int = Field(2, ge=1, le=MOST_LAYERS)
    """Layers of the decoder."""

    bidirectional: bool = True
    """True makes half of the units of each encoder layer read the source backwards."""

    attention: Kind = "luong-general"
    """The kind of attention to the source. Without attention, an LSTM starts from each layer's
    final state (Sutskever et al. 2014), and a GRU reads one source vector at every step (Cho et al.
    2014)."""

    input_feeding: bool = False
    """True makes each step also read the attentional hidden state of the step before (Luong et al.
    2015, section 3.3)."""

    radius: int | None = Field(None, ge=1, le=MOST_POSITIONS)
    """Positions on each side of the predicted one that luong-local attends to, by default 10."""

    max_length: int | None = Field(None, ge=1, le=MOST_POSITIONS)
    """Number of source positions that luong-location knows, by default 1024. The other kinds of
    attention have no limit, and targets have none."""

    reverse_source: bool = False
    """True reads the source from its end (Sutskever et al. 2014, section 3.3)."""

    @model_validator(mode="after")
    def _check_combination(self) -> Self:
        self.refuse_idle("radius", "attention", "luong-local")
        self.refuse_idle("max_length", "attention", "luong-location")
        if self.bidirectional and self.d_model % 2:
            raise ValueError(
                f"d_model {self.d_model} is odd, but half of a bidirectional encoder's units read "
                "backwards; choose an even d_model, or set bidirectional = false"
            )
        if self.input_feeding and not self.attention.startswith("luong"):
            raise ValueError(
                f"input_feeding needs one of Luong's attentions, found attention {self.attention!r}"
            )
        if self.hands_over_layers and self.encoder_layers != self.decoder_layers:
            raise ValueError(
                f"with attention {self.attention!r} each decoder layer begins with the final state "
                f"of an encoder layer, found {self.encoder_layers} encoder_layers and "
                f"{self.decoder_layers} decoder_layers; make them equal"
            )
        return self

    @property
    def hands_over_layers(self) -> bool:
        """True if the decoder's layers begin with the final states of the encoder's layers."""
        return self.attention.startswith("luong") or (self.attention, self.cell) == ("none", "lstm")

    @property
    def most_source(self) -> int | None:
        """The number of positions that luong-location knows; None for other attention."""
        if self.attention != "luong-location":
            return None
        return self.max_length or DEFAULT_MAX_LENGTH

    @property
    def bound(self) -> str:
        """The limited resource behind `most_source`, named for messages."""
        return "source positions that luong-location knows (model.max_length)"

    def shape(self) -> str:
        """Return the number of layers and the widths, as a clause."""
        attention = "no" if self.attention == "none" else self.attention
        return (
            f"{self.encoder_layers}+{self.decoder_layers} {self.cell.upper()} layers"
            f"{', bidirectional encoder' if self.bidirectional else ''}, d_model {self.d_model}, "
            f"{attention} attention{', input feeding' if self.input_feeding else ''}"
        )


@dataclass
class RecurrentState:
    """The state of decoding `N` rows: the encoded sources and the decoder's state."""

    memory: SentenceMemory
    decoder: RecurrentDecoderState

    def select(self, rows: Int[Tensor, " M"]) -> "RecurrentState":
        """Return a state whose row i continues row `rows[i]`: see `SentenceMemory.select`."""
        return RecurrentState(self.memory.select(rows), self.decoder.select(rows))

    def join(self, other: "RecurrentState") -> "RecurrentState":
        """Return a state with the rows of this one, and then those of another."""
        return RecurrentState(self.memory.join(other.memory), self.decoder.join(other.decoder))

    @property
    def nbytes(self) -> int:
        """The size of the state in bytes."""
        return self.memory.nbytes + self.decoder.nbytes


class Recurrent(SequenceModel):
    """A recurrent encoder-decoder, with one of several kinds of attention or without attention.

    `forward` gives logits for training; `start` and `step` decode (`crosshead.decoding.protocol`).

    Matrices start Glorot-uniform, matrices from state to state orthogonal, biases zero except for
    forget gates, and embeddings N(0, 1/d_model). Dropout does not act on the states that pass from
    step to step within a layer.

    Args:
        config: The shape.
        source_vocabulary: Number of source tokens.
        target_vocabulary: Number of target tokens.

    Reference:
        Zaremba et al. 2014 (dropout).
    """

    def __init__(
        self, config: RecurrentConfig, source_vocabulary: int, target_vocabulary: int
    ) -> None:
        super().__init__()
        self.config: RecurrentConfig = config
        width = config.d_model
        draw = partial(embedding_weight, d_model=width)
        source_weight, target_weight = source_and_target_weights(
            draw, source_vocabulary, target_vocabulary, shared=config.tie == "three-way"
        )
        self.source_embeddings = Embeddings(source_weight, None, config.dropout)
        self.target_embeddings = Embeddings(target_weight, None, config.dropout)
        self.encoder = RecurrentEncoder(
            config.cell,
            config.encoder_layers,
            width,
            bidirectional=config.bidirectional,
            dropout=config.dropout,
        )
        self.decoder = _decoder(config)
        self.projection = nn.Linear(width, target_vocabulary, bias=False)
        self.projection.weight = draw(target_vocabulary) if config.tie == "none" else target_weight

    def encode(self, source: Int[Tensor, "B S"]) -> tuple[EncodedSource, Bool[Tensor, "B 1 1 S"]]:
        """Encode a padded source.

        The memory is in the order of the source, even if the source was read from its end. An empty
        source is read as one token of padding.

        Args:
            source: Token ids, "B S".

        Returns:
            The encoded source and its padding mask, "B 1 1 S".

        Raises:
            UserError: If the source has more tokens than luong-location has positions.
        """
        most = self.config.most_source
        if most is not None and source.shape[1] > most:
            raise UserError(
                f"a source of {source.shape[1]} tokens is longer than the {most} positions that "
                "this model's attention knows (model.max_length); shorten or split it"
            )
        valid = source != PAD
        mask = padding_mask(valid).dense(
            1, source.shape[1], batch=source.shape[0], device=source.device
        )
        lengths = valid.sum(dim=1).clamp_min(1)
        if not self.config.reverse_source:
            return self.encoder(self.source_embeddings(source), lengths), mask
        order = _backwards(lengths, source.shape[1])
        read = self.encoder(self.source_embeddings(source.gather(1, order)), lengths)
        in_order = order.unsqueeze(-1).expand_as(read.memory)
        return EncodedSource(read.memory.gather(1, in_order), read.final), mask

    def features(
        self, source: Int[Tensor, "B S"], target: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T D"]:
        """Return the decoder's last hidden states, one per target position.

        `forward` projects them to logits. The fused loss starts from them instead.

        Args:
            source: Token ids, "B S".
            target: Token ids of the shifted target, "B T".

        Returns:
            Hidden states, "B T D".
        """
        state = self.start(source)
        return self._decode(state, target)[0]

    def start(self, source: Int[Tensor, "B S"]) -> RecurrentState:
        """Return the state before the first token, one row per sentence."""
        encoded, mask = self.encode(source)
        seen = self.decoder.project_memory(encoded.memory)
        return RecurrentState(SentenceMemory(seen, mask), self.decoder.initial_state(encoded))

    def step(
        self, state: RecurrentState, tokens: Int[Tensor, "N T"]
    ) -> tuple[Float[Tensor, "N D"], RecurrentState]:
        """Feed each row its next tokens.

        Args:
            state: The state so far; it stays unchanged.
            tokens: Token ids, "N T".

        Returns:
            The last hidden state of each row, "N D", and the new state.
        """
        hidden, decoder = self._decode(state, tokens)
        return hidden[:, -1], RecurrentState(state.memory, decoder)

    def attentions(self) -> Mapping[AttentionKind, Sequence[Attention]]:
        """Return the module that attends to the source, if the model has one."""
        found = [part for part in self.decoder.modules() if isinstance(part, SourceAttention)]
        return {"cross": found} if found else {}

    def _decode(
        self, state: RecurrentState, tokens: Int[Tensor, "N T"]
    ) -> tuple[Float[Tensor, "N T D"], RecurrentDecoderState]:
        x, memory = self.target_embeddings(tokens), state.memory
        return self.decoder(x, state.decoder, memory.layers, memory.mask)


def _backwards(lengths: Int[Tensor, " B"], positions: int) -> Int[Tensor, "B S"]:
    """Return the index of each position in the reversed sentence; padding stays in place."""
    here = torch.arange(positions, device=lengths.device).expand(lengths.shape[0], -1)
    there = lengths.unsqueeze(1) - 1 - here
    return torch.where(there >= 0, there, here)


def _decoder(config: RecurrentConfig) -> RecurrentDecoder:
    width, dropout = config.d_model, config.dropout

    def stack(inputs: int) -> RecurrentStack:
        """Return the decoder layers; the first reads `inputs` concatenated vectors."""
        return RecurrentStack(
            config.cell, config.decoder_layers, inputs * width, width, dropout=dropout
        )

    if config.attention == "none":
        if config.cell == "lstm":
            return SutskeverDecoder(stack(1), dropout)
        return ChoDecoder(stack(2), width, dropout)
    attention = _attention(config)
    if config.attention == "bahdanau":
        d_final = width // 2 if config.bidirectional else width
        return BahdanauDecoder(stack(2), attention, width, d_final, dropout)
    if config.input_feeding:
        return InputFeedingDecoder(LuongDecoder(stack(2), attention, width, dropout))
    return LuongDecoder(stack(1), attention, width, dropout)


def _attention(config: RecurrentConfig) -> SourceAttention:
    """Return the attention of Luong et al. 2015, section 3.1, or Bahdanau et al. 2015, A.1.2."""
    width, same = config.d_model, nn.Identity()
    match config.attention:
        case "luong-dot":
            return SourceAttention(same, same, Dot())
        case "luong-general":  # h^T W_a k as (W_a^T h)^T k, so that decoding projects no keys
            return SourceAttention(glorot(width, width, bias=False), same, Dot())
        case "luong-local":  # with its best score in Luong et al. 2015, Table 4
            window = LocalWindow(width, config.radius or DEFAULT_RADIUS)
            return SourceAttention(glorot(width, width, bias=False), same, Dot(), window)
        case "luong-location":
            longest = config.max_length or DEFAULT_MAX_LENGTH
            return SourceAttention(same, same, Location(1, width, longest))
        case _:
            return SourceAttention(
                glorot(width, width, bias=False),
                glorot(width, width, bias=False),
                ProjectedAdditive(1, width),
            )
