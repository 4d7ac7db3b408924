"""Pairs held out of training for validation, for runs without validation files."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from crosshead.caller import option
from crosshead.data.parallel.corpora import DataConfig
from crosshead.data.parallel.pairs import Origin, ParallelText, Sides, Text, numbered, within
from crosshead.data.parallel.parts import Corpora
from crosshead.errors import DataError

_Pair = tuple[str, str]


@dataclass(frozen=True)
class HeldOut:
    """The held-out set of a text, and the rows that are excluded from training."""

    valid: ParallelText
    rows: np.ndarray
    """The sorted rows of the pairs in `valid`."""
    repeats: np.ndarray
    """The sorted rows of the pairs that repeat a held-out pair, and are excluded from training
    too."""


NOTHING = HeldOut(ParallelText([], [], []), np.zeros(0, np.int64), np.zeros(0, np.int64))
"""An empty held-out set, for runs with validation files."""


@dataclass(frozen=True)
class Remaining:
    """The training pairs of a text: all but the held-out pairs and their repeats."""

    text: Text
    held: HeldOut

    def __len__(self) -> int:
        return len(self.text) - len(self.held.rows) - len(self.held.repeats)

    def chunks(self) -> Iterator[Sides]:
        """Yield the remaining sources and targets, some of each at a time."""
        gone = np.union1d(self.held.rows, self.held.repeats)
        for first, (source, target) in numbered(self.text):
            source, target = list(source), list(target)
            for row in within(gone, first, first + len(source))[::-1]:
                del source[row - first], target[row - first]
            yield source, target


def hold_out(text: Text, config: DataConfig, seed: int) -> HeldOut:
    """Choose about `valid_size` pairs of the text for validation.

    The held-out set has at least one pair and at most a tenth of all pairs. The text is cut into
    equal spans and one pair is drawn from each, so that the pairs are spread over all corpora.
    Pairs with an empty side or with too many characters are not drawn, and no pair is drawn twice.
    Pairs that repeat a held-out pair (ignoring surrounding white space) are excluded from training
    too. The result depends only on the text, the configuration and the seed.

    Args:
        text: The text that is trained on.
        config: `valid_size` and `max_length`.
        seed: The random seed of the run.

    Returns:
        The held-out pairs, and the rows that repeat them.

    Raises:
        DataError: If too few pairs remain for training or for validation.
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
            f"the training pairs ({len(text)}) are too few or too similar to hold some out for "
            f"validation; give validation files ({option('valid-source')} and "
            f"{option('valid-target')}, or their keys in [data])"
        )
    valid = [(pairs[row], text.origin(row)) for row in rows]
    return held_out(valid, rows, repeats)


def in_both_directions(text: Corpora, config: DataConfig, seed: int) -> HeldOut:
    """Choose pairs of a text whose second half is its first half with exchanged sides.

    A pair is held out in both directions or in none. Otherwise the model could learn a held-out
    pair from its reverse.

    Args:
        text: The text, as `training_parts` gives it for `directions` "both".
        config: `valid_size` and `max_length`.
        seed: The random seed of the run.

    Returns:
        The held-out pairs of both directions, and the rows that repeat them.

    Raises:
        DataError: As `hold_out` does.
    """
    count = len(text.parts) // 2
    forward = hold_out(Corpora(text.parts[:count], text.counts[:count]), config, seed)
    half = len(text) // 2
    rows = forward.rows + half
    pairs = _pairs_at(text, rows)
    valid = list(
        zip(zip(forward.valid.source, forward.valid.target, strict=True), forward.valid.origins,
            strict=True)
    )  # fmt: skip
    valid += [(pairs[row], text.origin(row)) for row in rows.tolist()]
    repeats = [*forward.repeats.tolist(), *(forward.repeats + half).tolist()]
    return held_out(valid, [*forward.rows.tolist(), *rows.tolist()], repeats)


def held_out(valid: list[tuple[_Pair, Origin]], rows: list[int], repeats: list[int]) -> HeldOut:
    """Return the held-out set of the given pairs.

    Args:
        valid: The pairs with their origins.
        rows: The rows of the pairs, sorted.
        repeats: The rows of other pairs that repeat them, sorted.
    """
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
    """Return one random row of each span, in rising order."""
    size = min(config.valid_size, max(1, count // 10))
    rng = np.random.default_rng(seed)
    spans = np.array_split(np.arange(count), size) if count else []
    return np.array([rng.choice(span) for span in spans], np.int64)


def _pairs_at(text: Text, rows: np.ndarray) -> dict[int, _Pair]:
    """Return the pairs of some sorted rows."""
    return {
        row: (source[row - first], target[row - first])
        for first, (source, target) in numbered(text)
        for row in within(rows, first, first + len(source))
    }


def _repeats(text: Text, held: dict[_Pair, int]) -> list[int]:
    """Return the rows that repeat a held-out pair of another row."""
    return [
        row
        for first, sides in numbered(text)
        for row, pair in enumerate(zip(*sides, strict=True), first)
        if held.get(_stripped(pair), row) != row
    ]


def _stripped(pair: _Pair) -> _Pair:
    return pair[0].strip(), pair[1].strip()
