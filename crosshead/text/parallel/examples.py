"""Tokenized pairs as flat arrays, in memory or mapped from files, and the examples of an epoch.

An epoch is a sequence of examples with their lengths: the arrays themselves, a mixture of corpora,
or sampled segmentations. Each example is a function of (seed, epoch, place in the epoch) and is
made when it is requested. A resumed run therefore does not make examples again that it has used.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, Self, overload

import numpy as np

from crosshead.errors import DataError
from crosshead.text.tokenizers import Tokenizer

Example = tuple[Sequence[int], Sequence[int]]
"""Source ids and target ids, without begin and end."""

_MIXED, _SAMPLED, _MEASURED = 1, 2, 3
"""Keys that separate random draws with the same (seed, epoch)."""

_PAIRS_MEASURED = 1000
_DEVIATIONS = 1.5
"""The room for a sampled segmentation, in standard deviations above the mean length; 1 in 20 is
longer. On Multi30k this room is a quarter above the mean, and a third above it with a value of
2."""


_AT_ONCE = 1 << 20


class Measured(Sequence[Example], ABC):
    """Examples whose lengths are known without reading them."""

    @property
    @abstractmethod
    def lengths(self) -> np.ndarray:
        """The tokens of both sides, without begin and end: an `n 2` array of int32."""

    @abstractmethod
    def example(self, row: int) -> Example:
        """Return example `row`, counted from 0."""

    @overload
    def __getitem__(self, row: int) -> Example: ...

    @overload
    def __getitem__(self, row: slice) -> list[Example]: ...

    def __getitem__(self, row: int | slice) -> Example | list[Example]:
        # The range raises IndexError, and counts from the end.
        places = range(len(self))[row]
        if isinstance(places, range):
            return [self.example(place) for place in places]
        return self.example(places)


@dataclass(frozen=True)
class Side:
    """The ids of one side of all pairs, concatenated."""

    ids: np.ndarray
    """The ids. Their integer type is large enough for the vocabulary."""

    ends: np.ndarray
    """The offset after the last id of each pair (int64)."""

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, row: int) -> list[int]:
        begin = self.ends[row - 1] if row else 0
        ids: list[int] = self.ids[begin : self.ends[row]].tolist()
        return ids

    @property
    def lengths(self) -> np.ndarray:
        """The number of ids of each entry (int32)."""
        return np.diff(self.ends, prepend=0).astype(np.int32)

    def some(self, rows: np.ndarray) -> Self:
        """Return some entries, in the order of `rows`."""
        lengths = self.ends[rows] - np.where(rows > 0, self.ends[rows - 1], 0)
        ends = np.cumsum(lengths)
        places = np.arange(ends[-1] if len(ends) else 0)
        places += np.repeat(self.ends[rows] - ends, lengths)
        return replace(self, ids=self.ids[places], ends=ends)

    def hashes(self) -> np.ndarray:
        """Return a 64-bit hash of the ids of each entry (uint64), which depends on their order."""
        found = np.zeros(len(self), np.uint64)
        begins = np.concatenate([[0], self.ends])
        for first in range(0, len(self.ids), _AT_ONCE):
            ids = self.ids[first : first + _AT_ONCE].astype(np.uint64)
            places = np.arange(first, first + len(ids))
            entries = np.searchsorted(self.ends, places, side="right")
            tokens = scrambled(ids << np.uint64(32) | (places - begins[entries]).astype(np.uint64))
            np.add.at(found, entries, tokens)
        return found


def scrambled(numbers: np.ndarray) -> np.ndarray:
    """Return a 64-bit hash of each number (SplitMix64, Steele et al. 2014)."""
    mixed = numbers + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))


@dataclass(frozen=True)
class Examples(Measured):
    """Pairs of ids in flat arrays, in memory or mapped."""

    source: Side
    target: Side

    @classmethod
    def of(cls, examples: Iterable[Example]) -> "Examples":
        """Return the examples of a list as arrays in memory.

        Args:
            examples: Source and target ids of each pair.
        """
        pairs = list(examples)
        return cls(*(Side(*flat([pair[side] for pair in pairs])) for side in (0, 1)))

    def __len__(self) -> int:
        return len(self.source)

    def example(self, row: int) -> Example:
        """Return example `row`, counted from 0."""
        return self.source[row], self.target[row]

    @property
    def lengths(self) -> np.ndarray:
        """The tokens of both sides, without begin and end: an `n 2` array of int32."""
        return np.stack([self.source.lengths, self.target.lengths], axis=1)

    def count_in(self, others: "Examples") -> int:
        """Return the number of these pairs that are also among others, by 64-bit hashes.

        Args:
            others: The other pairs, tokenized alike.
        """
        own, other = (3 * each.source.hashes() + each.target.hashes() for each in (self, others))
        return int(np.isin(own, other).sum())

    def sha256(self) -> str:
        """Return the checksum of all ids and of the ends of pairs."""
        digest = hashlib.sha256()
        for side in (self.source, self.target):
            # As 64-bit integers, so that equal ids have the same checksum in every integer type.
            for array in (side.ends.astype("<i8", copy=False), side.ids):
                digest.update(f"{len(array)} ".encode())
                for first in range(0, len(array), _AT_ONCE):
                    digest.update(array[first : first + _AT_ONCE].astype("<i8").tobytes())
        return digest.hexdigest()


@dataclass(frozen=True)
class Chosen(Measured):
    """A selection of examples in a given order, possibly with repetitions."""

    examples: Measured
    rows: np.ndarray

    def __len__(self) -> int:
        return len(self.rows)

    def example(self, row: int) -> Example:
        """Return example `row`, counted from 0."""
        return self.examples[int(self.rows[row])]

    @property
    def lengths(self) -> np.ndarray:
        """The tokens of both sides, without begin and end: an `n 2` array of int32."""
        lengths: np.ndarray = self.examples.lengths[self.rows]
        return lengths


def mixture(counts: Sequence[int], weights: Sequence[float], seed: int, epoch: int) -> np.ndarray:
    """Return the rows of an epoch, in which each corpus has `weight` passes.

    The part of a weight that is no whole pass is drawn anew from (seed, epoch).
    """
    rng = np.random.default_rng([seed, epoch, _MIXED])
    rows: list[np.ndarray] = []
    first = 0
    for count, weight in zip(counts, weights, strict=True):
        whole, rest = divmod(round(weight * count), max(count, 1))
        rows += [np.arange(first, first + count, dtype=np.int32)] * whole
        rows.append(first + np.sort(rng.permutation(count)[:rest]).astype(np.int32))
        first += count
    found = np.concatenate(rows)
    if not len(found):
        raise DataError(f"data.weights {list(weights)} leave no pair to train on; raise them")
    return found


@dataclass(frozen=True)
class Growth:
    """Growth of sampled segmentations over usual ones, in tokens, for each side."""

    mean: np.ndarray
    """Mean growth per token of the usual segmentation."""
    variance: np.ndarray
    """Variance of the growth per token of the usual segmentation."""

    def room(self, lengths: np.ndarray, longest: int) -> np.ndarray:
        """Return the largest number of tokens allowed for sampled segmentations."""
        spread = _DEVIATIONS * np.sqrt(self.variance * lengths)
        room: np.ndarray = np.minimum(np.ceil(lengths * (1 + self.mean) + spread), longest)
        return room.astype(np.int32)


@dataclass(frozen=True)
class Sampled(Measured):
    """Examples in segmentations drawn from (seed, epoch, place): subword sampling.

    The text to segment is decoded from the ids, because a BPE tokenizer loses nothing of a line.
    `lengths` is the room reserved for each pair before it is drawn. If a draw does not fit, the
    usual segmentation is used, so that a batch stays within its budget.
    """

    examples: Measured
    tokenizers: tuple[Tokenizer, Tokenizer]
    seed: int
    epoch: int
    room: np.ndarray
    """The largest number of tokens of each side: an `n 2` array of int32."""

    @property
    def lengths(self) -> np.ndarray:
        """The tokens reserved for both sides, without begin and end: an `n 2` array of int32."""
        return self.room

    def __len__(self) -> int:
        return len(self.examples)

    def example(self, row: int) -> Example:
        """Return example `row`, counted from 0."""
        rng = np.random.default_rng([self.seed, self.epoch, _SAMPLED, row])
        usual = self.examples[row]
        drawn = [
            sampled if len(sampled) <= room else ids
            for ids, room, sampled in zip(
                usual, self.room[row], _draw(self.tokenizers, usual, rng), strict=True
            )
        ]
        return drawn[0], drawn[1]


Draw = Callable[[Example, np.random.Generator], Sequence[Sequence[int]]]
"""A function of an example that draws other ids of both sides."""


def sampled_segmentation(tokenizers: tuple[Tokenizer, Tokenizer]) -> Draw:
    """Return the function that draws segmentations of both sides."""
    return partial(_draw, tokenizers)


def measure_growth(
    examples: Measured, draw: Draw, seed: int, most: int = _PAIRS_MEASURED
) -> Growth:
    """Measure how much longer drawn examples are than usual ones, on some of them."""
    rng = np.random.default_rng([seed, 0, _MEASURED])
    rows = np.unique(np.linspace(0, len(examples) - 1, most).astype(np.int64))
    counts = np.array(
        [
            [[len(side) for side in pair] for pair in (usual, draw(usual, rng))]
            for usual in (examples[int(row)] for row in rows)
        ]
    )
    usual, drawn = counts[:, 0], counts[:, 1]
    mean = (drawn - usual).sum(axis=0) / usual.sum(axis=0)
    variance = ((drawn - usual - mean * usual) ** 2).sum(axis=0) / usual.sum(axis=0)
    return Growth(mean, variance)


def _draw(
    tokenizers: tuple[Tokenizer, Tokenizer], usual: Example, rng: np.random.Generator
) -> list[list[int]]:
    """Return a sampled segmentation of both sides."""
    return [
        tokenizer.encode(tokenizer.decode(ids), rng)
        for tokenizer, ids in zip(tokenizers, usual, strict=True)
    ]


def lead_of(source: Sequence[int], tags: frozenset[int]) -> int:
    """Return the number of tokens up to the tag of a language at the beginning of a source."""
    # A space may stand before the first piece of a line.
    return next((end for end in (1, 2) if tags.intersection(source[:end])), 0)


def flat(lines: Sequence[Sequence[int]], dtype: Any = np.int32) -> tuple[np.ndarray, np.ndarray]:
    """Return the concatenated ids of some lines, and the offset after each line."""
    ends = np.cumsum([len(ids) for ids in lines], dtype=np.int64)
    return np.fromiter(chain.from_iterable(lines), dtype), ends
