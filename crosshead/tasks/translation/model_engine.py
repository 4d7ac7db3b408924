"""The engine of crosshead: the running batches of a model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from crosshead.decoding.beam import RunningBatch
from crosshead.decoding.hypotheses import Finished, Specials
from crosshead.decoding.markup import owed
from crosshead.decoding.protocol import Decodable, JoinableState
from crosshead.decoding.settings import BeamRules, DecodeConfig
from crosshead.tasks.translation.engine import OWN, Query
from crosshead.tasks.translation.translator import Translator
from crosshead.text.batching import collate
from crosshead.vocabulary import BOS

_SHORT, _LONG = 8, 24
"""Lengths of the sources, in tokens, by which a state is measured."""
_ROOM = 16
"""The positions for which a new key-value cache has room."""


def model_engines(
    translator: Translator, decode: DecodeConfig | None = None
) -> Callable[[int], "ModelEngine"]:
    """Return a function that makes the engines of a translator, by their beams."""
    decode, device = decode or translator.bundle.config.decode, translator.device
    # Measured once, when the bundle is loaded, for all beams: a request must not wait for it.
    size = measured_size(translator.model, translator.bundle.specials, device)

    def engine(beam: int) -> ModelEngine:
        # A beam of one is greedy search, whatever the rule.
        stop = decode.stop if beam > 1 else "full"
        penalty, offset = decode.length_penalty, decode.length_offset
        rules = BeamRules(beam, penalty, stop, offset, decode.min_length)
        return ModelEngine(translator.model, translator.bundle.specials, rules, device, size)

    return engine


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
        """Return the size of a state."""
        each = self.sentence + self.source * source + rows * (self.row + self.target * target)
        return sentences * each


@torch.inference_mode()
def measured_size(
    model: Decodable[JoinableState], specials: Specials, device: torch.device
) -> StateSize:
    """Measure states of two source lengths, before and after the growth of their caches."""
    short, long = (model.start(_padded([[BOS] * (size - 1)], device)) for size in (_SHORT, _LONG))
    source = (long.nbytes - short.nbytes) / (_LONG - _SHORT)
    fed = torch.full((1, 1), specials.start, device=device)
    _, state = model.step(short, fed)
    first = state.nbytes
    row = state.select(torch.zeros(2, dtype=torch.long, device=device)).nbytes - first
    for _ in range(_ROOM):
        _, state = model.step(state, fed)
    target = (state.nbytes - first) / _ROOM
    sentence = first - row - source * _SHORT
    return StateSize(sentence, source, row - target * _ROOM, target)


def _padded(ids: Sequence[Sequence[int]], device: torch.device) -> torch.Tensor:
    """Return sources as padded token ids, "B S"."""
    return collate([(each, ()) for each in ids], range(len(ids))).source.to(device)


class ModelEngine:
    """A model with the rules of one search. Sentences join and leave its batches at every step."""

    name = OWN

    def __init__(
        self,
        model: Decodable[JoinableState],
        specials: Specials,
        rules: BeamRules,
        device: torch.device,
        size: StateSize,
    ) -> None:
        self.model, self.specials, self.rules = model, specials, rules
        self.device, self.size = device, size

    @property
    def beam(self) -> int:
        """The number of hypotheses of the search."""
        return self.rules.beam

    def batch(self) -> "ModelBatch":
        """Return a batch without sentences."""
        return ModelBatch(self)

    def bytes(self, sentences: int, source: int, target: int) -> float:
        """Return the memory of a batch."""
        return self.size.bytes(sentences, self.beam, source, target)

    def sources(self, ids: Sequence[Sequence[int]]) -> torch.Tensor:
        """Return sources as padded token ids, "B S"."""
        return _padded(ids, self.device)


class ModelBatch:
    """A running beam search of a model."""

    def __init__(self, engine: ModelEngine) -> None:
        self.engine = engine
        self.running = RunningBatch(engine.model, engine.specials, engine.rules)

    def __len__(self) -> int:
        return len(self.running)

    def add(self, queries: Sequence[Query]) -> Finished:
        """Encode sentences, take their first step, and add them to the search."""
        engine = self.engine
        sources = engine.sources([each.ids for each in queries])
        start = torch.full((len(queries), 1), engine.specials.start, device=engine.device)
        return self.running.add(
            engine.model.step(engine.model.start(sources), start),
            torch.tensor([each.max_length for each in queries]),
            [each.number for each in queries],
            [each.n_best for each in queries],
            owed(sources, engine.specials.marks),
        )

    def step(self) -> Finished:
        """Extend every hypothesis by one token."""
        return self.running.take(self.engine.model.step(self.running.state, self.running.last))

    def drop(self, numbers: Sequence[int]) -> None:
        """Remove sentences."""
        self.running.drop(numbers)
