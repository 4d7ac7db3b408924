"""Engines, which decode sentences in batches that other sentences join."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol, cast

import torch

from crosshead.config import nearest
from crosshead.decoding.beam import BeamRules, RunningBatch
from crosshead.decoding.beams import Finished
from crosshead.decoding.candidates import Hypothesis, Specials
from crosshead.decoding.markup import parents
from crosshead.decoding.protocol import Decodable, JoinableState
from crosshead.decoding.search import DecodeConfig
from crosshead.errors import ConfigError, UserError
from crosshead.extensions import added
from crosshead.tasks.translation.translator import Search, Translator
from crosshead.text.batching import collate
from crosshead.vocabulary import BOS

_SHORT, _LONG = 8, 24
"""Lengths of the sources, in tokens, by which a state is measured."""
_ROOM = 16
"""The positions for which a new key-value cache has room."""


class Query(NamedTuple):
    """A sentence that joins a batch.

    Attributes:
        number: The number by which the batch names it.
        ids: Its token ids, without eos.
        max_length: The longest output in tokens, eos counted.
        n_best: The number of hypotheses, at most the beam of the engine.
        scored: False if nobody reads the log-probabilities. An engine that must compute them
            afterwards may then give NaN.
    """

    number: int
    ids: Sequence[int]
    max_length: int
    n_best: int
    scored: bool = True


class DecodingBatch(Protocol):
    """Sentences that are decoded together. One thread uses it, in `torch.inference_mode`."""

    def __len__(self) -> int:
        """Return the number of sentences that the next step goes on with."""
        ...

    def add(self, queries: Sequence[Query]) -> Finished:
        """Add sentences, and return the hypotheses of those that are done already, by number.

        After an exception the batch is not used any more.
        """
        ...

    def step(self) -> Finished:
        """Go on with every sentence, and return the hypotheses of those that are done, by number.

        The scheduler lets sentences join and leave between two steps. After an exception the batch
        is not used any more.
        """
        ...

    def drop(self, numbers: Sequence[int]) -> None:
        """Remove sentences that nobody waits for."""
        ...


class Engine(Protocol):
    """A model with the settings of one search."""

    @property
    def beam(self) -> int:
        """The number of hypotheses of the search."""
        ...

    def batch(self) -> DecodingBatch:
        """Return a new batch without sentences. Batches are independent of each other."""
        ...

    def bytes(self, sentences: int, source: int, target: int) -> float:
        """Return the memory that the states of a batch take, in bytes, without the weights."""
        ...


Engines = Callable[[int], "Engine"]
"""Makes an engine of a translator, by its beam."""

OWN, SUITED = "crosshead", "auto"
"""The names of crosshead's own engine, and of the one that suits a search best."""

SENTENCES = 1000
"""The largest number of sentences that another engine gets at once."""


class MakesEngines(Protocol):
    """Makes what makes the engines of a translator, by its beam."""

    def __call__(self, translator: Translator, decode: DecodeConfig | None = None) -> Engines:
        """Return what makes the engines with the settings of a search, by default the bundle's."""
        ...


class ForeignEngines(Protocol):
    """The engines of a package: an entry point of the group `crosshead.engines`."""

    def suits(self, translator: Translator, decode: DecodeConfig) -> bool:
        """Return whether the engine finds the translations of a search that crosshead finds."""
        ...

    def __call__(self, kind: str | None, workers: int) -> MakesEngines:
        """Return what makes engines, with a number format (by default the exact one)."""
        ...


def engines_of(name: str, kind: str | None, workers: int) -> MakesEngines:
    """Return what makes engines by their name: own ones, a package's, or those that suit."""
    if kind is not None and name in (OWN, SUITED):
        raise UserError(f"--type is for another --engine than {name}; leave one of them out")
    others: dict[str, ForeignEngines] = added("engines")
    if name == OWN:
        return model_engines
    if name == SUITED:
        return partial(_suited, workers)
    if name not in others:
        raise ConfigError(f"unknown engine {name!r}; {nearest(name, [SUITED, OWN, *others])}")
    return others[name](kind, workers)


def _suited(workers: int, translator: Translator, decode: DecodeConfig | None = None) -> Engines:
    """Return what makes the engines that suit a search: the first package's, or own ones."""
    decode = decode or translator.bundle.config.decode
    for other in added("engines").values():
        if other.suits(translator, decode):
            return cast(ForeignEngines, other)(None, workers)(translator, decode)
    return model_engines(translator, decode)


class EngineSearch:
    """Gives the search of the engine of a name: `auto`, `crosshead` or that of a package."""

    def __init__(self, name: str) -> None:
        self._engines = engines_of(name, None, torch.get_num_threads())
        self._made: dict[str, Engine] = {}

    def __call__(self, translator: Translator, decode: DecodeConfig) -> Search | None:
        """Return the search of another engine, or None if the model itself searches."""
        settings = decode.model_dump_json()
        if settings not in self._made:
            self._made[settings] = self._engines(translator, decode)(decode.beam)
        engine, most = self._made[settings], translator.most_positions[1] or sys.maxsize
        if isinstance(engine, ModelEngine):  # it searches batches side by side
            return None
        return partial(_searched, engine, decode.max_extra, most)


def _searched(
    engine: Engine, extra: int, most: int, ids: Sequence[Sequence[int]], count: int, *,
    scored: bool, progress: Callable[[float], None],
) -> list[list[Hypothesis]]:  # fmt: skip
    order = sorted(range(len(ids)), key=lambda row: -len(ids[row]))
    found: Finished = {}
    progress(0.0)
    for begin in range(0, len(order), SENTENCES):
        queries = [
            Query(row, ids[row], min(len(ids[row]) + 1 + extra, most), count, scored)
            for row in order[begin : begin + SENTENCES]
        ]
        found |= engine.batch().add(queries)
        progress(len(found) / len(order))
    return [found[row] for row in range(len(order))]


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
        rules = BeamRules(beam, decode.length_penalty, stop, decode.length_offset)
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
            parents(sources, engine.specials.marks),
        )

    def step(self) -> Finished:
        """Extend every hypothesis by one token."""
        return self.running.take(self.engine.model.step(self.running.state, self.running.last))

    def drop(self, numbers: Sequence[int]) -> None:
        """Remove sentences."""
        self.running.drop(numbers)
