"""Pairs that repeat earlier pairs, or pairs of the validation and test sets.

Two pairs are near-duplicates if they have the same words, ignoring case, punctuation and order,
except for at most one word. Each pair gets the sum of the hashes of its words, and for each word
the sum without it. Near-duplicates have one of these sums in common.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import chain, islice

import numpy as np

from crosshead.addons.checks.suspects import Suspect
from crosshead.text.parallel.examples import scrambled
from crosshead.text.parallel.pairs import (
    LineSides,
    Pair,
    ParallelText,
    comparable,
    pair_hash,
)
from crosshead.text.parallel.spooled import spooled
from crosshead.text.scripts import LEAST_SOURCE_WORDS, word_hashes

_LEAST_WORDS = 8
"""The smallest number of words of a near-duplicate, both sides together."""


_PAIRS = 1_000
"""The number of pairs that are hashed at a time."""

_KEY = np.dtype([("key", np.uint64), ("owner", np.int32)])
"""A hash that repeats have in common. The owner is twice the row of the pair for a hash of both
sides, and one more for a sum of the hashes of words."""

_PARTS = 64
"""Keys are compared in so many parts. There is one for each word, and together they take more
memory than the texts."""


def repeated(
    sides: LineSides,
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
    gone = np.array(sorted(dropped), np.int64)
    order = np.append(np.delete(np.arange(len(sides[0])), gone), gone)
    origins = [f"{each.file}:{each.line}" for text in held for each in text.origins]
    held_pairs = (pair for text in held for pair in zip(text.source, text.target, strict=True))
    pairs = chain(held_pairs, ((sides[0][row], sides[1][row]) for row in map(int, order)))
    held_sources: dict[int, int] = {}
    of_source: dict[int, int] = {}
    count = len(origins) + len(order)

    sizes = []  # of each part of the keys of some pairs

    def keys() -> Iterator[bytes]:
        for first in range(0, max(count, 1), _PAIRS):
            found, sources, words = _keys(list(islice(pairs, _PAIRS)), first)
            for row, source in enumerate(sources.tolist(), first):
                if row >= len(origins) and source in held_sources:
                    of_source[row] = held_sources[source]
                elif row < len(origins) and words[row - first] >= LEAST_SOURCE_WORDS:
                    held_sources[source] = row
            part = found["key"].astype(np.uint8) % _PARTS
            sizes.append(np.bincount(part, minlength=_PARTS))
            yield found.take(np.argsort(part, kind="stable")).tobytes()

    first_equal, first_near = _first(count, spooled(keys(), _KEY), sizes)
    repeats = np.flatnonzero(np.minimum(first_equal, first_near) < np.arange(count))

    def where(row: int) -> str:
        return origins[row] if row < len(origins) else place(int(order[row - len(origins)]))

    suspects = []
    for row in sorted({*repeats[repeats >= len(origins)].tolist(), *of_source}):
        number, first, nearest = int(order[row - len(origins)]), first_equal[row], first_near[row]
        if first < row:
            kind = "overlap" if first < len(origins) else "duplicate"
            suspects.append(Suspect(number, kind, 1.0, f"repeats {where(first)}"))
        elif row in of_source and nearest >= len(origins):
            reason = f"the source repeats that of {where(of_source[row])}"
            suspects.append(Suspect(number, "overlap", 0.5, reason))
        else:
            kind = "overlap" if nearest < len(origins) else "near-duplicate"
            words, _ = word_hashes(comparable((sides[0][number], sides[1][number])))
            reason = f"nearly repeats {where(nearest)}"
            suspects.append(Suspect(number, kind, 1 - 1 / len(words), reason))
    return suspects


def _keys(pairs: Sequence[Pair], first: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the keys of pairs, of which `first` is the row of the first one.

    The other arrays have the sum of the hashes of the source words of each pair, and their number.
    """
    pairs = list(map(comparable, pairs))
    words, side = word_hashes(chain.from_iterable(pairs))
    hashes = scrambled(words ^ ((side % 2).astype(np.uint64) << np.uint64(63)))
    counts = np.bincount(side, minlength=2 * len(pairs)).reshape(-1, 2)
    sides = np.zeros(2 * len(pairs), np.uint64)
    np.add.at(sides, side, hashes)
    whole, lengths = sides[::2] + sides[1::2], counts.sum(1)
    rows = np.concatenate([np.arange(len(pairs)), side // 2])
    sums = np.concatenate([whole, whole[side // 2] - hashes])
    enough = lengths[rows] >= _LEAST_WORDS
    exact = np.array([pair_hash(pair) for pair in pairs], np.uint64)
    found = np.empty(len(exact) + int(enough.sum()), _KEY)
    found["key"] = np.concatenate([exact, sums[enough]])
    found["owner"] = 2 * first + np.concatenate([2 * np.arange(len(pairs)), 2 * rows[enough] + 1])
    return found, sides[::2], counts[:, 0]


def _first(
    count: int, keys: np.ndarray, sizes: Sequence[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Return for each pair the first one with the same text, and the first near-duplicate.

    It may be the pair itself. `sizes` has the number of keys of each part, for stretches of `keys`.
    """
    nearest = np.arange(2 * count, dtype=np.int32)
    ends = np.cumsum(sizes).reshape(-1, _PARTS)
    for part in range(_PARTS):
        stretches = zip((ends - sizes)[:, part].tolist(), ends[:, part].tolist(), strict=True)
        found = np.concatenate([keys[begin:end] for begin, end in stretches])
        order = np.argsort(found["key"])
        owner, key = found["owner"][order], found["key"][order]
        begins = np.flatnonzero(np.append(True, key[1:] != key[:-1])[: len(key)])
        first = np.repeat(np.minimum.reduceat(owner, begins), np.diff(begins, append=len(key)))
        later = first < owner
        np.minimum.at(nearest, owner[later], first[later])
    return nearest[::2] // 2, nearest[1::2] // 2
