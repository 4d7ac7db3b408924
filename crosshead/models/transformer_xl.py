"""Transformer-XL (Dai et al. 2019): text in segments, each of which remembers those before it."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor

from crosshead.attention.cache import DecodingCache, SegmentMemory
from crosshead.attention.multihead import MultiHeadAttention
from crosshead.attention.relative import TransformerXLScore
from crosshead.config import MOST_POSITIONS
from crosshead.models.base import Numbers, RememberingModel, Shape
from crosshead.models.language import LanguageModel, select
from crosshead.models.stack import Parts, attention_of, branch_gain
from crosshead.models.text_stack import TextStackConfig


class TransformerXLConfig(TextStackConfig):
    """The shape of a Transformer-XL."""

    cannot = {
        **{key: why for key, why in TextStackConfig.cannot.items() if key != "memory"},
        "positions": "transformer-xl has its own, distances that also reach into its memory (Dai "
        "et al. 2019, section 3.3); leave positions out, or choose architecture 'language'",
        "score": "transformer-xl has its own, in which its positions are (Dai et al. 2019, section "
        "3.3); leave score out, or choose architecture 'language'",
        "pattern": "transformer-xl has its own, the segment up to a position and the memory before "
        "it; leave pattern out and set segment and memory, or choose architecture 'language'",
    }

    architecture: Literal["transformer-xl"] = "transformer-xl"
    # Nothing is added to embeddings: attention knows how far apart positions are.
    positions: Literal["none"] = "none"
    # Its own, of section 3.3.
    score: Literal["scaled-dot"] = "scaled-dot"
    # What is near is not what is near in a segment.
    pattern: Literal["full"] = "full"
    # Positions that are computed, and learned from, together.
    segment: int = Field(128, ge=1, le=MOST_POSITIONS)
    # Positions before a segment that its own may attend to; nothing is learned from them.
    memory: int = Field(128, ge=0, le=MOST_POSITIONS)

    def shape(self) -> str:
        """Its layers and widths, its segments and its memory, in a clause."""
        return (
            f"{super().shape()}, segments of {self.segment} that remember {self.memory} positions"
        )

    def numbers_held(self, shape: Shape, *, weights: bool, recompute: bool) -> Numbers:
        """Segment by segment as those of a decoder-only Transformer, and what is remembered.

        Scores keep their queries twice, and vectors of all distances; a layer keeps its normalised
        memory beside its normalised input, and the keys and values of both. The norm of a pre-norm
        layer keeps a memory longer than a segment as well; a shorter one is part of the input
        before.
        """
        width, drops = self.d_model, self.dropout > 0
        token = (9 + 2 * drops) * width + self.inner_vectors() * self.d_ff
        pairs, layers, remembered = [], [], 0
        for start in range(0, shape.target, self.segment):
            new, before = min(self.segment, shape.target - start), min(self.memory, start)
            copied = self.norm == "pre" and before > self.segment
            beside = ((3 + copied) * before + (before > 0) * new) * width
            distances = 2 * new + before
            layers.append(shape.rows * (new * token + beside) + 2 * distances * width)
            pairs.append(shape.rows * self.heads * new * (new + before) * weights)
            remembered += before
        tokens, block = shape.rows * shape.target, max(pairs)
        copies = 3 if self.attention_dropout else 1
        ends = tokens * (1 + drops + (self.norm == "pre")) * width
        if recompute:
            inputs = self.layers * (tokens + shape.rows * remembered) * width
            return Numbers(ends + inputs + max(layers), (copies + 2) * block, block)
        whole = self.layers * copies * sum(pairs) + 2 * block
        return Numbers(ends + self.layers * sum(layers), whole, block)


@dataclass
class TransformerXLState:
    """The text written in `N` rows, as far as it is remembered."""

    caches: list[DecodingCache]
    memory: int
    """Positions before a segment that its own may attend to."""
    begun: int = 0
    """Positions of the last segment that were read."""

    def select(self, rows: Int[Tensor, " M"]) -> "TransformerXLState":
        """A state whose row i continues row `rows[i]` of this one.

        Raises `ValueError` where no row is left.
        """
        return TransformerXLState(select(self.caches, rows), self.memory, self.begun)


class TransformerXL(LanguageModel, RememberingModel):
    """The segment-level recurrence of Dai et al. 2019, section 3.2, with section 3.3's positions.

    A position attends to those of its segment up to itself and to the `memory` positions before the
    segment. What a layer remembers is what it was given there, without a gradient:

        h~ = [SG(m) o h],   q = h W_q,   k = h~ W_k,   v = h~ W_v

    (SG stops gradients, o sets side by side.) Keys and values of the memory are thus made with the
    weights as they are, and these learn from it. A pre-norm layer puts LN(h) and LN(h~) in the
    place of h and h~, as the authors' code does: a memory holds hidden states, and the norm learns
    from it too. `u` and `v` of the score are each layer's own, as with `untie_r` in the authors'
    TensorFlow code; their PyTorch code has one pair for all layers.
    """

    config: TransformerXLConfig

    def __init__(self, config: TransformerXLConfig, vocabulary: int) -> None:
        def attention() -> MultiHeadAttention:
            score = TransformerXLScore(config.heads, config.key_width, config.d_model)
            return attention_of(config, branch_gain(config.layers), Parts(score))

        super().__init__(config, vocabulary, attention)

    def features(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        """Return the last hidden states, computed segment after segment.

        The first segment has an empty memory. So a batch with several segments a row is trained
        without a state between updates.
        """
        caches, found = [SegmentMemory() for _ in range(self.config.layers)], []
        for segment in tokens.split(self.config.segment, dim=1):
            found.append(self.after(caches, segment))
            caches = [cache.last(self.config.memory) for cache in caches]
        return torch.cat(found, dim=1)

    def start(self, source: Int[Tensor, "B 0"], memory: int | None = None) -> TransformerXLState:
        """The state before the first token; the source of a model of text by itself is empty.

        `memory` may be another, also a longer one, than that of training (section 4.1).
        """
        caches = [DecodingCache() for _ in range(self.config.layers)]
        return TransformerXLState(caches, self.config.memory if memory is None else memory)

    @torch.no_grad()
    def read(
        self, state: TransformerXLState, tokens: Int[Tensor, "N T"]
    ) -> tuple[Float[Tensor, "N T D"], TransformerXLState]:
        """Read the next tokens of each row; return their last hidden states and the new state.

        Pieces of any length are cut into the same segments as by `features`. No gradient passes.
        `state` is used up, as by `step`.
        """
        found = []
        while tokens.shape[1]:
            if state.begun == self.config.segment:
                state.caches = [cache.last(state.memory) for cache in state.caches]
                state.begun = 0
            left = self.config.segment - state.begun
            piece, tokens = tokens[:, :left], tokens[:, left:]
            found.append(self.after(state.caches, piece))
            state.begun += piece.shape[1]
        return torch.cat(found, dim=1), state

    def step(
        self, state: TransformerXLState, tokens: Int[Tensor, "N T"]
    ) -> tuple[Float[Tensor, "N D"], TransformerXLState]:
        """Feed each row its next tokens; what the last layer says after them, and the state then.

        `state` is used up: it is extended in place, and the state after is the same one. No
        gradient passes.
        """
        features, state = self.read(state, tokens)
        return features[:, -1], state
