"""Pairs of texts in a fixed order, in memory or in files, with their origins."""

import hashlib
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

Pair = tuple[str, str]
"""Source and target."""

Sides = tuple[list[str], list[str]]
"""A list of sources, and a list of their targets."""

LineSides = tuple[Sequence[str], Sequence[str]]
"""A sequence of sources, in memory or in a file, and a sequence of their targets."""

CHUNK = 10_000
"""The number of pairs that are read and tokenized at a time."""


class Origin(NamedTuple):
    """The origin of a pair: the file of its source side, and the line, counted from 1."""

    file: str
    line: int


class Readable(Protocol):
    """Pairs in a fixed order that can be read in chunks any number of times."""

    def __len__(self) -> int: ...

    def chunks(self) -> Iterator[Sides]:
        """Yield all sources and targets, at most `CHUNK` of each at a time."""
        ...


class Text(Readable, Protocol):
    """Pairs with known origins."""

    def origin(self, row: int) -> Origin:
        """Return the origin of pair `row`."""
        ...


@dataclass(frozen=True)
class ParallelText:
    """Pairs of texts in memory, in the order they were read."""

    source: list[str]
    target: list[str]
    origins: Sequence[Origin]

    def __len__(self) -> int:
        return len(self.source)

    def chunks(self) -> Iterator[Sides]:
        """Yield all sources and targets, at most `CHUNK` of each at a time."""
        for first in range(0, len(self), CHUNK):
            rows = slice(first, first + CHUNK)
            yield self.source[rows], self.target[rows]

    def origin(self, row: int) -> Origin:
        """Return the origin of pair `row`."""
        return self.origins[row]


def joined(chunks: Iterable[Sides]) -> Sides:
    """Return all sources and targets of chunks."""
    sides: Sides = [], []
    for source, target in chunks:
        sides[0].extend(source)
        sides[1].extend(target)
    return sides


def numbered(text: Readable) -> Iterator[tuple[int, Sides]]:
    """Yield the chunks of a text, each with the row of its first pair."""
    first = 0
    for sides in text.chunks():
        yield first, sides
        first += len(sides[0])


def within(rows: np.ndarray, first: int, end: int) -> list[int]:
    """Return the rows from `first` to below `end`."""
    begin, stop = np.searchsorted(rows, [first, end])
    found: list[int] = rows[begin:stop].tolist()
    return found


def pairs_at(text: Readable, rows: np.ndarray) -> dict[int, Pair]:
    """Return the pairs of some rows."""
    return {
        row: (source[row - first], target[row - first])
        for first, (source, target) in numbered(text)
        for row in within(rows, first, first + len(source))
    }


def stripped(pair: Pair) -> Pair:
    """Return a pair without white space around its sides."""
    return pair[0].strip(), pair[1].strip()


def composed(text: str) -> str:
    """Return a text in the usual Unicode form, NFC, in which ü is one character."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def comparable(pair: Pair) -> Pair:
    """Return a pair in the form that repeats have in common: NFC, without white space around it."""
    return stripped((composed(pair[0]), composed(pair[1])))


def pair_hash(pair: Pair) -> int:
    """Return 64 bits of a pair's hash. The length at the front separates source and target."""
    text = f"{len(pair[0])} {pair[0]}{pair[1]}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
