"""Pairs that repeat earlier pairs, or pairs of the validation and test sets.

Two pairs are near-duplicates if they have the same words, ignoring case, punctuation and order,
except for at most one word. Each pair gets the sum of the hashes of its words, and for each word
the sum without it. Near-duplicates have one of these sums in common.
"""

from collections.abc import Callable, Collection, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from crosshead.addons.checks.suspects import Suspect
from crosshead.text.parallel.pairs import ParallelText, Sides, comparable, pair_hash
from crosshead.text.words import LEAST_SOURCE_WORDS, split_words

_LEAST_WORDS = 8
"""The smallest number of words of a near-duplicate, both sides together."""


class _Keys(NamedTuple):
    """Hashes of pairs by which repeats are found."""

    exact: list[int]
    """A hash of both sides, as `comparable` returns them."""
    words: np.ndarray
    """The sum of the hashes of all words, "N"."""
    sources: np.ndarray
    """The sum of the hashes of the source words, "N"."""
    counts: np.ndarray
    """The number of words of each pair."""
    source_counts: np.ndarray
    shorter: np.ndarray
    """The sums without one word, pair by pair."""


def repeated(
    sides: Sides,
    held: Sequence[ParallelText],
    place: Callable[[int], str],
    dropped: Collection[int] = (),
) -> list[Suspect]:
    """Return duplicates, near-duplicates, and pairs that overlap with the held texts.

    The rows in `dropped` come after all others. So a pair that stays never counts as a repeat of
    one that is dropped.

    The score is 1 for repeats, the share of equal words for near-duplicates, and 0.5 if only the
    source repeats a held source.
    """
    gone = sorted(dropped)
    order = np.concatenate([np.delete(np.arange(len(sides[0])), gone), gone]).astype(int).tolist()
    source, target = ([side[row] for row in order] for side in sides)
    others: Sides = (
        [t for text in held for t in text.source],
        [t for text in held for t in text.target],
    )
    origins = [f"{each.file}:{each.line}" for text in held for each in text.origins]
    keys = _keys(others[0] + source, others[1] + target)
    first_equal = _first_equal(keys)
    first_near = _first_near(keys)
    held_sources = {
        int(key): row
        for row, (key, count) in enumerate(
            zip(keys.sources[: len(origins)], keys.source_counts, strict=False)
        )
        if count >= LEAST_SOURCE_WORDS
    }

    def where(row: int) -> str:
        return origins[row] if row < len(origins) else place(order[row - len(origins)])

    suspects = []
    for row in range(len(origins), len(first_equal)):
        equal, near = first_equal[row], int(first_near[row])
        held_source = held_sources.get(int(keys.sources[row]))
        number, score = order[row - len(origins)], 1 - 1 / max(int(keys.counts[row]), 1)
        if equal < row:
            kind = "overlap" if equal < len(origins) else "duplicate"
            suspects.append(Suspect(number, kind, 1.0, f"repeats {where(equal)}"))
        elif near < len(origins):
            suspects.append(Suspect(number, "overlap", score, f"nearly repeats {where(near)}"))
        elif held_source is not None:
            reason = f"the source repeats that of {where(held_source)}"
            suspects.append(Suspect(number, "overlap", 0.5, reason))
        elif near < row:
            reason = f"nearly repeats {where(near)}"
            suspects.append(Suspect(number, "near-duplicate", score, reason))
    return suspects


def _keys(source: Sequence[str], target: Sequence[str]) -> _Keys:
    """Return the keys of pairs."""
    vocabulary: dict[str, int] = {}
    sums = []
    lengths: list[np.ndarray] = []
    numbers: list[np.ndarray] = []
    pairs = [comparable(pair) for pair in zip(source, target, strict=True)]
    exact = [pair_hash(pair) for pair in pairs]
    for number in range(2):
        counts: list[int] = []

        def ids(line: str, counts: list[int] = counts) -> list[int]:
            words = split_words(line)
            counts.append(len(words))
            return [vocabulary.setdefault(word, len(vocabulary)) for word in words]

        side = (pair[number] for pair in pairs)
        found = np.fromiter(chain.from_iterable(map(ids, side)), np.uint64)
        hashes = _spread(found * np.uint64(2) + np.uint64(number))
        lengths.append(np.array(counts, np.int64))
        numbers.append(hashes)
        sums.append(_sums(hashes, lengths[-1]))
    words = sums[0] + sums[1]
    shorter = np.concatenate(
        [np.repeat(words, count) - hashes for hashes, count in zip(numbers, lengths, strict=True)]
    )
    return _Keys(exact, words, sums[0], lengths[0] + lengths[1], lengths[0], shorter)


def _spread(numbers: np.ndarray) -> np.ndarray:
    """Return a 64-bit hash of each number (the finaliser of SplitMix64)."""
    mixed = (numbers + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))


def _sums(hashes: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the sum of the hashes of each line, modulo 2 ** 64."""
    total = np.concatenate([np.zeros(1, np.uint64), np.cumsum(hashes, dtype=np.uint64)])
    ends = np.cumsum(lengths)
    return np.asarray(total[ends] - total[ends - lengths])


def _first_equal(keys: _Keys) -> list[int]:
    """Return for each pair the first pair with the same text."""
    seen: dict[int, int] = {}
    return [seen.setdefault(key, row) for row, key in enumerate(keys.exact)]


def _first_near(keys: _Keys) -> np.ndarray:
    """Return for each pair the first near-duplicate, or the pair itself."""
    count = len(keys.words)
    rows = np.arange(count)
    source = np.repeat(rows, keys.source_counts)
    target = np.repeat(rows, keys.counts - keys.source_counts)
    row = np.concatenate([rows, source, target])
    key = np.concatenate([keys.words, keys.shorter])
    enough = keys.counts[row] >= _LEAST_WORDS
    row, key = row[enough], key[enough]
    order = np.lexsort((row, key))
    row, key = row[order], key[order]
    begins = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]])[: len(key)])
    first = np.repeat(row[begins], np.diff(np.append(begins, len(key))))
    nearest = rows.copy()
    np.minimum.at(nearest, row, first)
    return nearest
