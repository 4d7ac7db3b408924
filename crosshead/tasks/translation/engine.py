"""Engines, which decode sentences in batches that other sentences join, and the choice of one."""

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from crosshead.bundle.texts import BundleState, TextParts
from crosshead.config import nearest
from crosshead.decoding.hypotheses import Finished, Hypothesis
from crosshead.decoding.settings import DecodeConfig
from crosshead.errors import ConfigError, UserError
from crosshead.extensions import added
from crosshead.system.processor import available_cores
from crosshead.tasks.translation.line_translator import Alignments, MostPositions

if TYPE_CHECKING:
    from crosshead.tasks.translation.translator import Translator


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
    def name(self) -> str:
        """The name of the engine, as an option has it."""
        ...

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


class Search(NamedTuple):
    """A search, and the name of its engine."""

    engine: str
    find: Callable[..., list[list[Hypothesis]]]
    """Returns the hypotheses of each source, best first. It receives the ids of the sources, a
    number of hypotheses, and `scored` and `progress` as in `Translator.translate`. A translator
    binds the ids and `scored` of its lines."""


class MakesEngines(Protocol):
    """Makes what makes the engines of a translator, by its beam."""

    def __call__(self, translator: "Translator", decode: DecodeConfig | None = None) -> Engines:
        """Return what makes the engines with the settings of a search, by default the bundle's."""
        ...


class StoredModel(Protocol):
    """A model in an engine's own form, which was stored beside its bundle, for one search."""

    @property
    def decode(self) -> DecodeConfig:
        """The settings of the search."""
        ...

    @property
    def search(self) -> Search:
        """The search."""
        ...

    @property
    def most_positions(self) -> MostPositions:
        """The largest number of positions of a source and of a target, or None without a limit."""
        ...

    @property
    def alignments(self) -> Alignments:
        """The alignments of the model."""
        ...


class ForeignEngines(Protocol):
    """The engines of a package: an entry point of the group `crosshead.engines`."""

    def suits(self, translator: "Translator", decode: DecodeConfig) -> bool:
        """Return whether the engine finds the translations of a search that crosshead finds."""
        ...

    def __call__(self, kind: str | None, workers: int) -> MakesEngines:
        """Return what makes engines, with a number format (by default the exact one)."""
        ...

    def store(self, translator: "Translator", state: BundleState) -> None:
        """Store the model of a bundle in the engine's form beside it, if that is possible."""
        ...

    def stored(
        self, state: BundleState, parts: TextParts, decode: DecodeConfig, workers: int
    ) -> StoredModel | None:
        """Return the model that was stored beside a bundle, without PyTorch.

        None is returned if there is none of this bundle, or the engine does not suit the search.
        """
        ...


OWN, SUITED = "crosshead", "auto"
"""The names of crosshead's own engine, and of the one that suits a search best."""

SENTENCES = 1000
"""The largest number of sentences that another engine gets at once."""


def packages_engines(name: str) -> dict[str, ForeignEngines]:
    """Return the engines of packages among which a name chooses, by their names."""
    others: dict[str, ForeignEngines] = added("engines")
    if name in (OWN, SUITED):
        return others if name == SUITED else {}
    if name not in others:
        raise ConfigError(f"unknown engine {name!r}; {nearest(name, [SUITED, OWN, *others])}")
    return {name: others[name]}


def engines_of(name: str, kind: str | None, workers: int) -> MakesEngines:
    """Return what makes engines by their name: own ones, a package's, or those that suit."""
    if kind is not None and name in (OWN, SUITED):
        raise UserError(
            "--type is for an engine of another library; give --engine ctranslate2, too"
        )
    from crosshead.tasks.translation.model_engine import model_engines

    others = packages_engines(name)
    if not others:
        return model_engines
    if name in others:
        return others[name](kind, workers)

    def suited(translator: "Translator", decode: DecodeConfig | None = None) -> Engines:
        decode = decode or translator.bundle.config.decode
        for other in others.values():
            if other.suits(translator, decode):
                return other(None, workers)(translator, decode)
        return model_engines(translator, decode)

    return suited


class EngineSearch:
    """Gives the search of the engine of a name: `auto`, `crosshead` or that of a package.

    `workers` is the number of batches that it decodes side by side, by default one for each core.
    An engine that suits stores its form of the model beside the bundle, if `place` is its folder.
    """

    def __init__(
        self, name: str, workers: int | None = None, state: BundleState | None = None
    ) -> None:
        self._others = packages_engines(name)
        self._is_named, self._state = name in self._others, state
        self._workers = workers or available_cores()
        self._made: dict[str, Search | None] = {}

    def __call__(self, translator: "Translator", decode: DecodeConfig) -> Search | None:
        """Return the search of another engine, or None if the model itself searches."""
        settings = decode.model_dump_json()
        if settings not in self._made:
            self._made[settings] = self._search(translator, decode)
        return self._made[settings]

    def _search(self, translator: "Translator", decode: DecodeConfig) -> Search | None:
        for other in self._others.values():
            is_suited = other.suits(translator, decode)
            if is_suited and self._state is not None:
                other.store(translator, self._state)
                parts = self._state, translator.bundle
                if stored := other.stored(*parts, decode, self._workers):
                    return stored.search
            if is_suited or self._is_named:
                engine = other(None, self._workers)(translator, decode)(decode.beam)
                return search_with(engine.name, engine.batch, decode, translator.most_positions[1])
        return None


def search_with(
    name: str, batch: Callable[[], DecodingBatch], decode: DecodeConfig, most: int | None
) -> Search:
    """Return the search with the batches of an engine, whose outputs have a largest length."""
    return Search(name, partial(_searched, batch, decode.max_extra, most or sys.maxsize))


def _searched(
    batch: Callable[[], DecodingBatch], extra: int, most: int, ids: Sequence[Sequence[int]],
    count: int, *, scored: bool, progress: Callable[[float], None],
) -> list[list[Hypothesis]]:  # fmt: skip
    order = sorted(range(len(ids)), key=lambda row: -len(ids[row]))
    found: Finished = {}
    progress(0.0)
    for begin in range(0, len(order), SENTENCES):
        queries = [
            Query(row, ids[row], min(len(ids[row]) + 1 + extra, most), count, scored)
            for row in order[begin : begin + SENTENCES]
        ]
        found |= batch().add(queries)
        progress(len(found) / len(order))
    return [found[row] for row in range(len(order))]
