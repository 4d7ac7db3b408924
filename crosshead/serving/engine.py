"""A model that sentences are decoded with, and the memory that its batches take."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float

from crosshead.data.batching import collate
from crosshead.decoding.beam import BeamRules, RunningBatch
from crosshead.decoding.candidates import Specials
from crosshead.decoding.protocol import Decodable, JoinableState
from crosshead.vocabulary import BOS

_SHORT, _LONG = 8, 24
"""Lengths of the sources, in tokens, by which a state is measured."""
_ROOM = 16
"""The positions for which a new key-value cache has room."""


@dataclass(frozen=True)
class StateSize:
    """The memory of a state in bytes, as a sum of four parts.

    Attributes:
        sentence: Bytes of each sentence.
        source: Bytes of each source position of each sentence, padding counted.
        row: Bytes of each row.
        target: Bytes of each target position of each row, padding counted.
    """

    sentence: float
    source: float
    row: float
    target: float

    def bytes(self, sentences: int, rows: int, source: int, target: int) -> float:
        """Return the size of a state.

        Args:
            sentences: Number of sentences.
            rows: Number of rows of each sentence.
            source: Length of the longest source.
            target: Length of the longest target.
        """
        each = self.sentence + self.source * source + rows * (self.row + self.target * target)
        return sentences * each


@dataclass(eq=False)
class Engine:
    """A model with the rules of one search: the sentences of an engine are decoded together.

    Attributes:
        model: The model, whose states are `JoinableState`.
        specials: The special tokens.
        rules: The settings of the search.
        device: The device of the model.
    """

    model: Decodable[JoinableState]
    specials: Specials
    rules: BeamRules
    device: torch.device

    def __post_init__(self) -> None:
        self.size = self._measured()

    def batch(self) -> RunningBatch[JoinableState]:
        """Return a batch without sentences."""
        return RunningBatch(self.model, self.specials, self.rules)

    def first_step(
        self, ids: Sequence[Sequence[int]]
    ) -> tuple[Float[torch.Tensor, "B D"], JoinableState]:
        """Encode sources and take their first step.

        Args:
            ids: The ids of each source, without eos.

        Returns:
            Hidden states, "B D", and the state, as from `model.step`.
        """
        sources = self.sources(ids)
        start = torch.full((len(ids), 1), self.specials.start, device=self.device)
        return self.model.step(self.model.start(sources), start)

    def sources(self, ids: Sequence[Sequence[int]]) -> torch.Tensor:
        """Return sources as padded token ids, "B S".

        Args:
            ids: The ids of each source, without eos.
        """
        return collate([(each, ()) for each in ids], range(len(ids))).source.to(self.device)

    @torch.inference_mode()
    def _measured(self) -> StateSize:
        """Measure states of two source lengths, before and after the growth of their caches."""
        short, long = (
            self.model.start(self.sources([[BOS] * (length - 1)])) for length in (_SHORT, _LONG)
        )
        source = (long.nbytes - short.nbytes) / (_LONG - _SHORT)
        fed = torch.full((1, 1), self.specials.start, device=self.device)
        _, state = self.model.step(short, fed)
        first = state.nbytes
        row = state.select(torch.zeros(2, dtype=torch.long, device=self.device)).nbytes - first
        for _ in range(_ROOM):
            _, state = self.model.step(state, fed)
        target = (state.nbytes - first) / _ROOM
        sentence = first - row - source * _SHORT
        return StateSize(sentence, source, row - target * _ROOM, target)
