"""Pairs that repeat earlier pairs, or pairs of the validation and test sets.

Two pairs are near-duplicates if they have the same words, ignoring case, punctuation and order,
except for at most one word. Each pair gets the sum of the hashes of its words, and for each word
the sum without it. Near-duplicates have one of these sums in common.
"""

import contextlib
import tempfile
from collections.abc import Callable, Collection, Sequence
from itertools import chain
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from crosshead.addons.checks.suspects import Suspect
from crosshead.system.files import explain_os_errors
from crosshead.text.parallel.examples import scrambled
from crosshead.text.parallel.pairs import Pair, ParallelText, Sides, comparable, pair_hash
from crosshead.text.scripts import LEAST_SOURCE_WORDS, split_lines

_LEAST_WORDS = 8
"""The smallest number of words of a near-duplicate, both sides together."""


_PAIRS = 1_000
"""The number of pairs that are hashed at a time."""

_PART_BITS = 4
"""Sums are stored and compared in parts, by their first bits: they take more memory than texts."""

_SPOOLED = 4_000_000
"""The bytes of a part from which it is stored on disk."""

_SUM = np.dtype([("sum", np.uint64), ("row", np.int32)])


class _Keys(NamedTuple):
    """Hashes of some pairs by which repeats are found."""

    exact: np.ndarray
    """A hash of both sides, as `comparable` returns them."""
    sources: np.ndarray
    """The sum of the hashes of the source words, "N"."""
    counts: np.ndarray
    """The number of words of both sides, "N 2"."""
    sums: np.ndarray
    """The sums of the hashes of all words, and of all but one word, of pairs with enough words, in
    `_SUM`: each with its row."""


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
    pairs = list(zip(others[0] + source, others[1] + target, strict=True))
    keys = []
    with contextlib.ExitStack() as opened:
        opened.enter_context(explain_os_errors(Path("TMPDIR")))
        parts = [
            opened.enter_context(tempfile.SpooledTemporaryFile(_SPOOLED))
            for _ in range(1 << _PART_BITS)
        ]
        for at in range(0, max(len(pairs), 1), _PAIRS):
            *of_rows, sums = _keys(pairs[at : at + _PAIRS], at)
            keys.append(of_rows)
            part = sums["sum"] >> (64 - _PART_BITS)
            for number, file in enumerate(parts):
                file.write(sums[part == number].tobytes())
        first_near = _first_near(len(pairs), parts)
    exact, sources, counts = map(np.concatenate, zip(*keys, strict=True))
    _, firsts, text = np.unique(exact, return_index=True, return_inverse=True)
    first_equal = firsts[text]
    held_sources = {
        int(sources[row]): row
        for row in np.flatnonzero(counts[: len(origins), 0] >= LEAST_SOURCE_WORDS).tolist()
    }
    repeats = np.minimum(first_equal, first_near) < np.arange(len(pairs))
    repeats |= np.isin(sources, np.array([*held_sources], np.uint64))
    repeats[: len(origins)] = False

    def where(row: int) -> str:
        return origins[row] if row < len(origins) else place(order[row - len(origins)])

    suspects = []
    for row in np.flatnonzero(repeats).tolist():
        equal, near = int(first_equal[row]), int(first_near[row])
        held_source = held_sources.get(int(sources[row]))
        number, score = order[row - len(origins)], 1 - 1 / max(int(counts[row].sum()), 1)
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


def _keys(pairs: Sequence[Pair], first: int) -> _Keys:
    """Return the keys of pairs. `first` is the row of the first one."""
    pairs = list(map(comparable, pairs))
    words = np.fromiter(map(hash, split_lines(chain.from_iterable(pairs))), np.int64)
    is_end = words == hash("\n")
    side = np.cumsum(is_end)[~is_end]
    hashes = scrambled(words[~is_end].view(np.uint64) + (side % 2).astype(np.uint64))
    counts = np.bincount(side, minlength=2 * len(pairs)).reshape(-1, 2)
    sides = np.zeros(2 * len(pairs), np.uint64)
    np.add.at(sides, side, hashes)
    whole, lengths = sides[::2] + sides[1::2], counts.sum(1)
    rows = np.concatenate([np.arange(len(pairs)), side // 2])
    sums = np.concatenate([whole, whole[side // 2] - hashes])
    enough = lengths[rows] >= _LEAST_WORDS
    exact = np.array([pair_hash(pair) for pair in pairs], np.uint64)
    found = np.empty(int(enough.sum()), _SUM)
    found["sum"], found["row"] = sums[enough], rows[enough] + first
    return _Keys(exact, sides[::2], counts, found)


def _first_near(count: int, parts: Sequence[IO[bytes]]) -> np.ndarray:
    """Return for each pair the first near-duplicate, or the pair itself."""
    nearest = np.arange(count)
    for file in parts:
        file.seek(0)
        found = np.frombuffer(file.read(), _SUM)
        order = np.argsort(found["sum"])
        row, key = found["row"][order], found["sum"][order]
        begins = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]])[: len(key)])
        first = np.repeat(np.minimum.reduceat(row, begins), np.diff(np.append(begins, len(key))))
        later = first < row
        np.minimum.at(nearest, row[later], first[later])
    return nearest
