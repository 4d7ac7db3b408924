"""Pairs that are held out of training for validation, where no files for it are given."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from crosshead.data.parallel.corpora import DataConfig
from crosshead.data.parallel.pairs import Origin, ParallelText, Sides, Text, numbered, within
from crosshead.errors import DataError

_Pair = tuple[str, str]


@dataclass(frozen=True)
class HeldOut:
    """The held-out set of a text, and the rows that leave training with it."""

    valid: ParallelText
    rows: np.ndarray
    """The rows of the pairs of `valid`, rising."""
    repeats: np.ndarray
    """The rows of the pairs that leave training because they repeat one of these, rising."""


NOTHING = HeldOut(ParallelText([], [], []), np.zeros(0, np.int64), np.zeros(0, np.int64))
"""Held out where there are files for validation."""


@dataclass(frozen=True)
class Remaining:
    """A text without what is held out of it and without its repeats."""

    text: Text
    held: HeldOut

    def __len__(self) -> int:
        return len(self.text) - len(self.held.rows) - len(self.held.repeats)

    def chunks(self) -> Iterator[Sides]:
        """All its sources and targets, some of each at a time."""
        gone = np.union1d(self.held.rows, self.held.repeats)
        for first, (source, target) in numbered(self.text):
            source, target = list(source), list(target)
            for row in within(gone, first, first + len(source))[::-1]:
                del source[row - first], target[row - first]
            yield source, target


def hold_out(text: Text, config: DataConfig, seed: int) -> HeldOut:
    """Take about `valid_size` pairs, from one to a tenth of all, out of the text for validation.

    The text is cut into as many spans of equal length and one pair is drawn from each, so that
    they are spread over all corpora. Pairs that training would leave out are not drawn (an empty
    side, or too many characters), nor the same pair twice, and what repeats a drawn pair, but for
    white space around it, leaves training too. A function of text, configuration and seed alone.

    Raises `DataError` where too little remains on either side.
    """
    held: dict[_Pair, int] = {}
    pairs = _pairs_at(text, _drawn_rows(len(text), config, seed))
    for row, pair in pairs.items():
        stripped = _stripped(pair)
        if all(side and len(side) <= 4 * config.max_length for side in stripped):
            held.setdefault(stripped, row)
    rows = sorted(held.values())
    repeats = _repeats(text, held)
    if not rows or len(rows) + len(repeats) == len(text):
        raise DataError(
            f"the training pairs ({len(text)}) are too few, or too much alike, to hold some out "
            "for validation; give validation files (--valid-source and --valid-target, or these "
            "keys in [data])"
        )
    valid = [(pairs[row], text.origin(row)) for row in rows]
    return held_out(valid, rows, repeats)


def held_out(valid: list[tuple[_Pair, Origin]], rows: list[int], repeats: list[int]) -> HeldOut:
    """Return the held-out set, given the pairs and their origins."""
    return HeldOut(
        ParallelText(
            [pair[0] for pair, _ in valid],
            [pair[1] for pair, _ in valid],
            [origin for _, origin in valid],
        ),
        np.array(rows, np.int64),
        np.array(repeats, np.int64),
    )


def _drawn_rows(count: int, config: DataConfig, seed: int) -> np.ndarray:
    """A row of each span, rising."""
    size = min(config.valid_size, max(1, count // 10))
    rng = np.random.default_rng(seed)
    spans = np.array_split(np.arange(count), size) if count else []
    return np.array([rng.choice(span) for span in spans], np.int64)


def _pairs_at(text: Text, rows: np.ndarray) -> dict[int, _Pair]:
    """The pairs of some rising rows."""
    return {
        row: (source[row - first], target[row - first])
        for first, (source, target) in numbered(text)
        for row in within(rows, first, first + len(source))
    }


def _repeats(text: Text, held: dict[_Pair, int]) -> list[int]:
    """The rows whose pairs are held out from another row."""
    return [
        row
        for first, sides in numbered(text)
        for row, pair in enumerate(zip(*sides, strict=True), first)
        if held.get(_stripped(pair), row) != row
    ]


def _stripped(pair: _Pair) -> _Pair:
    return pair[0].strip(), pair[1].strip()
