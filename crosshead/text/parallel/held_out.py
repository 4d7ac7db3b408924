"""Pairs held out of training for validation, for runs without validation files."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from crosshead.caller import option
from crosshead.errors import DataError
from crosshead.text.parallel.corpora import Corpora, Part
from crosshead.text.parallel.languages import without_tags
from crosshead.text.parallel.pairs import (
    Origin,
    Pair,
    ParallelText,
    Sides,
    Text,
    comparable,
    numbered,
    pair_hash,
    pairs_at,
    within,
)
from crosshead.text.parallel.section import DataConfig
from crosshead.text.scripts import is_long_source

_SHARE_STREAM, _FOLD_STREAM = 1, 2
"""Numbers that make the draws of a seed differ from one another."""


@dataclass(frozen=True)
class HeldOut:
    """The held-out set of a text, and the rows that are excluded from training."""

    valid: ParallelText
    rows: np.ndarray
    """The sorted rows of the pairs in `valid`."""
    repeats: np.ndarray
    """The sorted rows of pairs that are like a held-out pair, and of old pairs that are like an old
    validation pair. Training excludes both kinds."""
    unused: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    """The sorted rows that `data.share` leaves out."""

    @property
    def excluded(self) -> np.ndarray:
        """The sorted rows that are held out or not used."""
        return np.union1d(self.rows, self.unused)


NOTHING = HeldOut(ParallelText([], [], []), np.zeros(0, np.int64), np.zeros(0, np.int64))
"""An empty held-out set, for runs with validation files."""


@dataclass(frozen=True)
class Remaining:
    """The training pairs of a text: all but held-out pairs, their repeats, and unused pairs."""

    text: Text
    held: HeldOut

    def __len__(self) -> int:
        return len(self.text) - len(self._gone)

    @property
    def _gone(self) -> np.ndarray:
        return np.union1d(self.held.excluded, self.held.repeats)

    def chunks(self) -> Iterator[Sides]:
        """Yield the remaining sources and targets, some of each at a time."""
        gone = self._gone
        for first, (source, target) in numbered(self.text):
            source, target = list(source), list(target)
            for row in within(gone, first, first + len(source))[::-1]:
                del source[row - first], target[row - first]
            yield source, target


def hold_out(text: Text, config: DataConfig, seed: int) -> HeldOut:
    """Choose about `valid_size` pairs of the text for validation, or the pairs of `fold`.

    Pairs are alike if their sources are equal, apart from surrounding white space and the Unicode
    form; if a source has one or two words, the targets must be equal too. The held-out set has at
    least one pair and at most a tenth of the different pairs: a pair that is like an earlier one
    does not count, so that training keeps most of the different pairs. The different pairs are cut
    into equal spans, and one pair is drawn from each, so that the pairs are spread over all
    corpora. The folds of a cross-validation share the different pairs among them. A drawn pair with
    an empty side or with too many characters is not held out. Pairs that are like a held-out pair
    are excluded from training too. The result depends only on the text, the configuration and the
    seed.
    """
    held: dict[Pair, int] = {}
    pairs = pairs_at(text, _drawn_rows(_first_rows(text), config, seed))
    for row, pair in pairs.items():
        sides = comparable(pair)
        if all(side and len(side) <= 4 * config.max_length for side in sides):
            held.setdefault(likeness(pair), row)
    chosen = sorted(held.values())
    repeats = _alike(text, held)
    valid = [(pairs[row], text.origin(row)) for row in chosen]
    held_pairs = held_out(valid, chosen, repeats)
    _check_enough(len(text), held_pairs)
    return held_pairs


def _check_enough(count: int, held: HeldOut) -> None:
    """Raise DataError if no pair is held out, or if no pair is left to train on."""
    if not len(held.rows) or len(held.rows) + len(held.repeats) == count:
        raise DataError(
            f"the training pairs ({count}) are too few, too similar or too long (data.max_length) "
            f"to hold some out for validation; give validation files ({option('valid-source')} and "
            f"{option('valid-target')}, or their keys in [data])"
        )


def in_both_directions(text: Corpora, config: DataConfig, seed: int) -> HeldOut:
    """Choose pairs of a text whose second half is its first half with exchanged sides.

    A pair is held out in both directions or in none. Otherwise the model could learn a held-out
    pair from its reverse. Pairs that are like a held-out pair in one direction are excluded in
    both.
    """
    count = len(text.parts) // 2
    forward = hold_out(Corpora(text.parts[:count], text.counts[:count]), config, seed)
    half = len(text) // 2
    rows = np.concatenate([forward.rows, forward.rows + half])
    pairs = pairs_at(text, rows)
    held = {likeness(pair): row for row, pair in pairs.items() if row >= half}
    backward = np.array(_alike(text, held), np.int64) - half
    repeats = np.setdiff1d(np.union1d(forward.repeats, backward[backward >= 0]), forward.rows)
    _check_enough(half, replace(forward, repeats=repeats))
    valid = [(pair, text.origin(row)) for row, pair in pairs.items()]
    return held_out(valid, [*pairs], [*repeats.tolist(), *(repeats + half).tolist()])


def held_out(valid: list[tuple[Pair, Origin]], rows: list[int], repeats: list[int]) -> HeldOut:
    """Return the held-out set of the given pairs."""
    return HeldOut(
        ParallelText(
            [pair[0] for pair, _ in valid],
            [pair[1] for pair, _ in valid],
            [origin for _, origin in valid],
        ),
        np.array(rows, np.int64),
        np.array(repeats, np.int64),
    )


def without_unused(text: Text, held: HeldOut, share: float, seed: int) -> HeldOut:
    """Leave out all but a share of the training pairs.

    The seed orders the pairs, and a share takes the first ones, so that a smaller share is part of
    a larger one. The held-out set does not change.
    """
    rows = np.setdiff1d(np.arange(len(text)), held.rows)
    order = np.random.default_rng([seed, _SHARE_STREAM]).permutation(rows)
    used = round(share * len(order))
    if not used:
        raise DataError(f"data.share {share:g} of {len(order)} pairs is no pair; raise it")
    return replace(held, unused=np.sort(order[used:]))


def without_old_valid(text: Corpora, held: HeldOut, parts: list[int], valid: Sides) -> HeldOut:
    """Exclude the pairs of an old domain that are like one of its validation pairs.

    With `directions` "both", a pair is excluded in both directions or in none.
    """
    known = {likeness(pair) for pair in zip(*valid, strict=True)}
    rows = [
        row
        for number in parts
        for row, pair in enumerate(_pairs_of(text.parts[number]), int(text.starts[number]))
        if likeness(pair) in known
    ]
    excluded = np.array(rows, np.int64)
    if any(part.exchanged for part in text.parts):
        half = len(text) // 2
        excluded = np.union1d(excluded, (excluded + half) % len(text))
    return replace(held, repeats=np.union1d(held.repeats, excluded))


def likeness(pair: Pair) -> Pair:
    """Return what alike pairs have in common: their source, or both sides if it is short."""
    source, target = comparable(pair)
    return source, "" if is_long_source(without_tags(source)) else target


def _pairs_of(part: Part) -> Iterator[Pair]:
    """Yield the pairs of a part."""
    for sides in part.chunks():
        yield from zip(*sides, strict=True)


def _first_rows(text: Text) -> np.ndarray:
    """Return the rows of the pairs that are like no earlier pair, in rising order."""
    hashes = (
        pair_hash(likeness(pair)) for sides in text.chunks() for pair in zip(*sides, strict=True)
    )
    _, first = np.unique(np.fromiter(hashes, np.uint64), return_index=True)
    return np.sort(first)


def _drawn_rows(rows: np.ndarray, config: DataConfig, seed: int) -> np.ndarray:
    """Return one random row of each span of `rows`, or the rows of a fold, in rising order."""
    if config.fold:
        number, folds = config.fold
        if len(rows) < folds:
            raise DataError(
                f"{folds} folds need as many different pairs, found {len(rows)}; use fewer folds, "
                "or give more pairs"
            )
        order = np.random.default_rng([seed, _FOLD_STREAM]).permutation(rows)
        return np.sort(order[number - 1 :: folds])
    size = min(config.valid_size, max(1, len(rows) // 10))
    rng = np.random.default_rng(seed)
    spans = np.array_split(rows, size) if len(rows) else []
    return np.array([rng.choice(span) for span in spans], np.int64)


def _alike(text: Text, held: dict[Pair, int]) -> list[int]:
    """Return the rows that are like a held-out pair of another row, in rising order."""
    return [
        row
        for first, sides in numbered(text)
        for row, pair in enumerate(zip(*sides, strict=True), first)
        if held.get(likeness(pair), row) != row
    ]
