"""Transformer-XL (Dai et al. 2019): text in segments, with a memory of the segments before."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor

from crosshead.attention.kv_cache import DecodingCache, SegmentMemory
from crosshead.attention.multihead import MultiHeadAttention
from crosshead.attention.relative import TransformerXLScore
from crosshead.config import MOST_POSITIONS
from crosshead.models.attention_kinds import AttentionParts
from crosshead.models.base import RememberingModel
from crosshead.models.language import LanguageModel, select
from crosshead.models.stack import build_attention, residual_init_scale
from crosshead.models.text_stack import TextStackConfig


class TransformerXLConfig(TextStackConfig):
    """The shape of a Transformer-XL."""

    cannot = {
        **{key: why for key, why in TextStackConfig.cannot.items() if key != "memory"},
        "positions": "transformer-xl has fixed positions, distances that also reach into its "
        "memory (Dai et al. 2019, section 3.3); leave positions out, or choose architecture "
        "'language'",
        "score": "transformer-xl has a fixed score, which contains its positions (Dai et al. 2019, "
        "section 3.3); leave score out, or choose architecture 'language'",
        "pattern": "transformer-xl has a fixed pattern, the segment up to a position and the "
        "memory before it; leave pattern out and set segment and memory, or choose architecture "
        "'language'",
    }

    architecture: Literal["transformer-xl"] = "transformer-xl"
    """The architecture of the model."""

    positions: Literal["none"] = "none"
    """Always none; another value is refused. The embeddings have no positions, because the score
    contains them."""

    score: Literal["scaled-dot"] = "scaled-dot"
    """Always scaled-dot; another value is refused. Dai et al. 2019, section 3.3, add a content bias
    and a term for the distance to this product before it is scaled."""

    pattern: Literal["full"] = "full"
    """Always full; another value is refused. A position attends to its segment up to itself, and to
    the memory before it."""

    segment: int = Field(128, ge=1, le=MOST_POSITIONS)
    """Positions that are computed together. Gradients do not leave a segment."""

    memory: int = Field(128, ge=0, le=MOST_POSITIONS)
    """Positions before a segment that its positions may attend to. No gradient passes to them."""

    def shape(self) -> str:
        """Return layers, widths, segment and memory, in a clause."""
        return (
            f"{super().shape()}, segments of {self.segment} that remember {self.memory} positions"
        )

    def check_context(self, context: int) -> None:
        """Raise `ValueError` if training windows of `context` tokens would never use the memory."""
        super().check_context(context)
        if self.memory and context <= self.segment:
            raise ValueError(
                f"data.context {context} must be more than model.segment {self.segment}: otherwise "
                "training never uses model.memory; raise data.context, lower model.segment, or set "
                "model.memory = 0"
            )


@dataclass
class TransformerXLState:
    """The state of decoding `N` rows.

    Attributes:
        caches: The cache of each layer, for the memory and the segment.
        memory: Number of positions before a segment that its positions may attend to.
        segment_length: Number of positions of the last segment that were read.
    """

    caches: list[DecodingCache]
    memory: int
    segment_length: int = 0

    def select(self, rows: Int[Tensor, " M"]) -> "TransformerXLState":
        """Return a state whose row i continues row `rows[i]` of this one."""
        return TransformerXLState(select(self.caches, rows), self.memory, self.segment_length)


class TransformerXL(LanguageModel, RememberingModel):
    """A language model with segment-level recurrence and relative positions.

    A position attends to the positions of its segment up to itself, and to the `memory` positions
    before the segment. A layer remembers its inputs h at these positions, without a gradient:

        h~ = [SG(m) o h],   q = h W_q,   k = h~ W_k,   v = h~ W_v

    SG stops gradients, and o is concatenation. The current weights project the memory to keys and
    values, and so they also learn from it. A pre-norm layer has LN(h) and LN(h~) instead of h and
    h~, as in the authors' code, and the norm learns from the memory too. Each layer has its own `u`
    and `v` of the score, as with `untie_r` in the authors' TensorFlow code. Their PyTorch code has
    one pair for all layers.

    Args:
        config: The shape.
        vocabulary: Number of tokens.

    Reference:
        Dai et al. 2019, sections 3.2 and 3.3.
    """

    config: TransformerXLConfig

    def __init__(self, config: TransformerXLConfig, vocabulary: int) -> None:
        def attention() -> MultiHeadAttention:
            score = TransformerXLScore(config.heads, config.key_width, config.d_model)
            scale = residual_init_scale(config.layers)
            return build_attention(config, scale, AttentionParts(score))

        super().__init__(config, vocabulary, attention)

    def features(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        """Return the last hidden states, computed segment after segment.

        The first segment has an empty memory. So a batch with several segments per row is trained
        without a state between updates.

        Args:
            tokens: Token ids, "B T".

        Returns:
            Hidden states, "B T D".
        """
        caches, found = [SegmentMemory() for _ in range(self.config.layers)], []
        for segment in tokens.split(self.config.segment, dim=1):
            found.append(self.continue_from(caches, segment))
            caches = [cache.last(self.config.memory) for cache in caches]
        return torch.cat(found, dim=1)

    def start(self, source: Int[Tensor, "B 0"], memory: int | None = None) -> TransformerXLState:
        """Return the state before the first token.

        Args:
            source: Empty, "B 0".
            memory: Number of remembered positions; by default as in training. It may be larger
                (section 4.1).

        Returns:
            The state, one row per sentence.
        """
        caches = [DecodingCache() for _ in range(self.config.layers)]
        return TransformerXLState(caches, self.config.memory if memory is None else memory)

    @torch.no_grad()
    def read(
        self, state: TransformerXLState, tokens: Int[Tensor, "N T"]
    ) -> tuple[Float[Tensor, "N T D"], TransformerXLState]:
        """Read the next tokens of each row.

        The text is cut into the same segments as by `features`, for tokens in pieces of any length.

        Args:
            state: The state so far. It is extended in place, so do not use it again.
            tokens: Token ids, "N T".

        Returns:
            The last hidden states, "N T D", and the new state. No gradient passes.
        """
        found = []
        while tokens.shape[1]:
            if state.segment_length == self.config.segment:
                state.caches = [cache.last(state.memory) for cache in state.caches]
                state.segment_length = 0
            left = self.config.segment - state.segment_length
            piece, tokens = tokens[:, :left], tokens[:, left:]
            found.append(self.continue_from(state.caches, piece))
            state.segment_length += piece.shape[1]
        return torch.cat(found, dim=1), state

    def step(
        self, state: TransformerXLState, tokens: Int[Tensor, "N T"]
    ) -> tuple[Float[Tensor, "N D"], TransformerXLState]:
        """Feed each row its next tokens.

        Args:
            state: The state so far. It is extended in place, so do not use it again.
            tokens: Token ids, "N T".

        Returns:
            The last hidden state of each row, "N D", and the new state. No gradient passes.
        """
        hidden, state = self.read(state, tokens)
        return hidden[:, -1], state
