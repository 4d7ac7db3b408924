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
from crosshead.text.parallel.examples import scrambled
from crosshead.text.parallel.pairs import ParallelText, Sides, comparable, pair_hash
from crosshead.text.scripts import LEAST_SOURCE_WORDS, split_words

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
    """The number of words of both sides, "N 2"."""
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
            zip(keys.sources[: len(origins)], keys.counts[:, 0], strict=False)
        )
        if count >= LEAST_SOURCE_WORDS
    }

    def where(row: int) -> str:
        return origins[row] if row < len(origins) else place(order[row - len(origins)])

    suspects = []
    for row in range(len(origins), len(first_equal)):
        equal, near = first_equal[row], int(first_near[row])
        held_source = held_sources.get(int(keys.sources[row]))
        number, score = order[row - len(origins)], 1 - 1 / max(int(keys.counts[row].sum()), 1)
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
    vocabulary: dict[tuple[int, str], int] = {}
    pairs = [comparable(pair) for pair in zip(source, target, strict=True)]
    lengths: list[int] = []

    def ids(side: int, text: str) -> list[int]:
        words = split_words(text)
        lengths.append(len(words))
        return [vocabulary.setdefault((side, word), len(vocabulary)) for word in words]

    numbers = chain.from_iterable(
        ids(side, text) for pair in pairs for side, text in enumerate(pair)
    )
    hashes = scrambled(np.fromiter(numbers, np.uint64))
    counts = np.array(lengths, np.int64).reshape(-1, 2)
    sums = _sums(hashes, counts.ravel()).reshape(-1, 2)
    words = sums[:, 0] + sums[:, 1]
    shorter = np.repeat(words, counts.sum(1)) - hashes
    return _Keys([pair_hash(pair) for pair in pairs], words, sums[:, 0], counts, shorter)


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
    rows, counts = np.arange(len(keys.words)), keys.counts.sum(1)
    row = np.concatenate([rows, np.repeat(rows, counts)])
    key = np.concatenate([keys.words, keys.shorter])
    enough = counts[row] >= _LEAST_WORDS
    row, key = row[enough], key[enough]
    order = np.lexsort((row, key))
    row, key = row[order], key[order]
    begins = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]])[: len(key)])
    first = np.repeat(row[begins], np.diff(np.append(begins, len(key))))
    nearest = rows.copy()
    np.minimum.at(nearest, row, first)
    return nearest
