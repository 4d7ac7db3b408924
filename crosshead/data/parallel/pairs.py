"""Pairs of texts in a fixed order, wherever they are, and where each was read."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

Sides = tuple[list[str], list[str]]
"""Sources, and as many targets."""

CHUNK = 10_000
"""So many pairs are read, and tokenized, at a time."""


class Origin(NamedTuple):
    """The origin of a pair: the file of its source side and the line, counted from 1."""

    file: str
    line: int


class Readable(Protocol):
    """Pairs in a fixed order, read in pieces, as often as they are asked for."""

    def __len__(self) -> int: ...

    def chunks(self) -> Iterator[Sides]:
        """All sources and targets, at most `CHUNK` of each at a time."""
        ...


class Text(Readable, Protocol):
    """Pairs of which is known where each stands."""

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
        """All sources and targets, at most `CHUNK` of each at a time."""
        for first in range(0, len(self), CHUNK):
            rows = slice(first, first + CHUNK)
            yield self.source[rows], self.target[rows]

    def origin(self, row: int) -> Origin:
        """Return the origin of pair `row`."""
        return self.origins[row]


def numbered(text: Readable) -> Iterator[tuple[int, Sides]]:
    """The chunks of a text, each with the row of its first pair."""
    first = 0
    for sides in text.chunks():
        yield first, sides
        first += len(sides[0])


def within(rows: np.ndarray, first: int, end: int) -> list[int]:
    """Return the rows from `first` to below `end`; `rows` are sorted."""
    begin, stop = np.searchsorted(rows, [first, end])
    found: list[int] = rows[begin:stop].tolist()
    return found
