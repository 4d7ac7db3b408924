"""Lines in another language than the rest of their side, by character n-grams.

The n-grams of a side are those of its language. A line in another language has rare n-grams. The
rarest lines begin a second group, and lines move between the groups until each line is in the group
that predicts it better. A line itself does not count for the prediction. So odd lines that are like
no other line stay in the first group. A second group that differs only by its topic is
rejected: then many lines lie between the groups, or most lines beside the group differ from their
side, too. A side in one language keeps one group.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from crosshead.data.checks.suspects import Suspect

LEAST_NGRAMS = 10
"""The smallest number of n-grams of a line that is judged."""

LEAST_LINES = 100
"""The smallest number of different lines to judge in a side."""

LEAST_WORDS = 150
"""The smallest number of different words to judge in a side. With fewer, as in a list of dates, the
lines of one word differ from the rest as those of another language do."""

_ORDER = 3
_BITS = 16
"""N-grams are counted by this number of bits of their hash."""
_FACTOR = 0x9E3779B97F4A7C15
"""An odd factor that spreads numbers over 64 bits (Knuth's multiplicative hashing)."""
_LEAST_GROUP = 5
"""The smallest number of lines in the second group. Fewer lines are odd by chance."""
_SMOOTHING = 0.01
_RAREST = (0.02, 0.1, 0.3)
"""The shares of lines that begin a second group."""
_ROUNDS = 10
_MARGIN = 0.6
"""The mean log-odds of an n-gram, in nats, from which a line belongs to the second group."""
_MOST_BETWEEN = 0.5
"""The largest number of lines with log-odds from 0 to the margin, as a share of the second group.
In Multi30k it was at most 0.2 for another language, and more than 1 for another topic."""
_MOST_DISTINCT = 0.5
"""The largest share of lines beside the second group that differ from the rest of their side as
much as the second group does from its own."""
_BLOCK = 10_000
_NO_LETTERS = re.compile(r"[\W\d_]+")


@dataclass(frozen=True)
class NGrams:
    """The hashed character n-grams of lines, in blocks of lines."""

    hashes: list[np.ndarray]
    counts: list[np.ndarray]
    """The number of n-grams of each line in a block."""

    @property
    def lengths(self) -> np.ndarray:
        """The number of n-grams of each line."""
        return np.concatenate([np.zeros(0, np.int64), *self.counts])

    def histogram(self, chosen: np.ndarray | None = None) -> np.ndarray:
        """Return the number of times that each n-gram occurs, in all or in the chosen lines."""
        total = np.zeros(1 << _BITS)
        for rows, hashes, counts in self._blocks():
            if chosen is not None:
                hashes = hashes[np.repeat(chosen[rows], counts)]
            total += np.bincount(hashes, minlength=1 << _BITS)
        return total

    def means(self, values: np.ndarray) -> np.ndarray:
        """Return the mean of the values of each line's n-grams, given the value of each n-gram."""
        found = []
        for _, hashes, counts in self._blocks():
            line = np.repeat(np.arange(len(counts)), counts)
            found.append(np.bincount(line, values[hashes], minlength=len(counts)))
        return np.asarray(np.concatenate(found) / np.maximum(self.lengths, 1))

    def _blocks(self) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        first = 0
        for hashes, counts in zip(self.hashes, self.counts, strict=True):
            yield slice(first, first + len(counts)), hashes, counts
            first += len(counts)


def ngrams(lines: Sequence[str]) -> NGrams:
    """Return the character n-grams of lines, within words and across the spaces between them."""
    blocks = [_block(lines[first : first + _BLOCK]) for first in range(0, len(lines), _BLOCK)]
    return NGrams([hashes for hashes, _ in blocks], [counts for _, counts in blocks])


def foreign(lines: Sequence[str], others: Sequence[str], side: str) -> list[Suspect] | None:
    """Return the lines of a side that are in another language than most of its lines.

    The score approaches 1 with the mean log-odds of the line's n-grams.

    Args:
        lines: All lines of the side.
        others: All lines of the other side.
        side: The name of the side, for the reason.

    Returns:
        The suspect lines, or None if there are too few lines or words to learn the language of the
        side.
    """
    # Each line counts once, whatever its digits and punctuation: otherwise the copies of an odd
    # line would confirm one another.
    letters = list(map(_letters, lines))
    unique = list(dict.fromkeys(letters))
    own = ngrams(unique)
    judged = own.lengths >= LEAST_NGRAMS
    words = {word for line in unique for word in line.split()}
    if judged.sum() < LEAST_LINES or len(words) < LEAST_WORDS:
        return None
    second, odds = _second_group(own, judged)
    members = {unique[row] for row in np.flatnonzero(second)}
    beside: dict[str, bool] = {}
    for line, other in zip(letters, map(_letters, others), strict=True):
        beside[other] = beside.get(other, False) or line in members
    other_side = ngrams(list(beside))
    theirs = other_side.histogram()
    if _is_topic(other_side, theirs, np.array(list(beside.values()), bool)):
        second = np.zeros_like(second)
    across = own.means(_log_share(theirs) - _log_share(own.histogram(~second), 1))
    swapped = judged & (across > np.where(second, np.maximum(odds, _MARGIN), _MARGIN))
    reasons = {
        True: f"the {side} is in the language of the other side",
        False: f"the {side} is in another language than the other {side}s",
    }
    found = {
        unique[row]: (float(1 - np.exp(-max(across[row], odds[row]))), reasons[bool(swapped[row])])
        for row in np.flatnonzero(second | swapped)
    }
    return [
        Suspect(row, "language", *found[line]) for row, line in enumerate(letters) if line in found
    ]


def _second_group(own: NGrams, judged: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return which lines are in the second group, and the mean log-odds for it of each line.

    Few foreign lines are the rarest ones, and many are not rare. So several shares of the rarest
    lines begin a group, and the group that is predicted best counts.
    """
    whole = own.histogram()
    rarity = own.means(-_log_share(whole, 1))
    best, gain = (np.zeros(len(judged), bool), np.zeros(len(judged))), 0.0
    for share in _RAREST:
        rarest = judged & (rarity >= np.quantile(rarity[judged], 1 - share))
        second, odds = _settled(own, judged, whole, rarest)
        if _is_language(second, odds, judged) and (odds * own.lengths)[second].sum() > gain:
            best, gain = (second, odds), float((odds * own.lengths)[second].sum())
    return best


def _settled(
    own: NGrams, judged: np.ndarray, whole: np.ndarray, second: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Move lines between the groups, and return the second group and the log-odds for it."""
    odds = np.zeros(len(judged))
    for _ in range(_ROUNDS):
        odds = _group_odds(own, whole, second)
        before, second = second, judged & (odds > _MARGIN)
        if (second == before).all():
            break
    return second, odds


def _is_language(second: np.ndarray, odds: np.ndarray, judged: np.ndarray) -> bool:
    """Return whether the second group has enough lines, and few lines are between the groups.

    Many are if the lines of the second group have the language of the others and another topic.
    """
    size = second.sum()
    between = (judged & ~second & (odds > 0)).sum()
    return bool(_LEAST_GROUP <= size <= judged.sum() / 2 and between <= _MOST_BETWEEN * size)


def _is_topic(other_side: NGrams, whole: np.ndarray, beside: np.ndarray) -> bool:
    """Return whether the lines beside the second group differ from the rest of their side, too.

    A line in a wrong language stands beside any line. If both sides of a group differ from the
    rest, they are another kind of text, such as dates among sentences.

    Args:
        other_side: The lines of the other side.
        whole: Their histogram.
        beside: For each of these lines, whether it stands beside a line of the second group.
    """
    beside = beside & (other_side.lengths >= LEAST_NGRAMS)
    if beside.sum() < _LEAST_GROUP:
        return False
    odds = _group_odds(other_side, whole, beside)
    return bool((odds[beside] > _MARGIN).mean() > _MOST_DISTINCT)


def _group_odds(own: NGrams, whole: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the mean log-odds of each line for the second group, without the line itself."""
    theirs = own.histogram(second)
    ours = whole - theirs
    return np.where(
        second,
        own.means(_log_share(theirs, 1) - _log_share(ours)),
        own.means(_log_share(theirs) - _log_share(ours, 1)),
    )


def _log_share(counts: np.ndarray, own: int = 0) -> np.ndarray:
    """Return the log-probability of each n-gram, without `own` occurrences of it in the line."""
    total = counts.sum() + _SMOOTHING * len(counts)
    return np.asarray(np.log((np.maximum(counts - own, 0) + _SMOOTHING) / total))


def _letters(line: str) -> str:
    """Return the words of a line in lower case, without digits and punctuation."""
    return _NO_LETTERS.sub(" ", line.lower()).strip()


def _block(lines: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the hashed n-grams of some lines, and their number in each line."""
    padded = "".join(f" {_letters(line)} \n" for line in lines)
    letters = np.frombuffer(padded.encode("utf-32-le"), np.uint32).astype(np.uint64)
    is_end = letters == ord("\n")
    count = max(len(letters) - _ORDER + 1, 0)
    mixed = np.zeros(count, np.uint64)
    crosses = np.zeros(count, bool)
    for place in range(_ORDER):
        mixed = (mixed + letters[place : place + count]) * np.uint64(_FACTOR)
        crosses |= is_end[place : place + count]
    hashes = (mixed >> np.uint64(64 - _BITS)).astype(np.uint16)
    line = np.cumsum(is_end)[:count]
    counts = np.bincount(line[~crosses], minlength=len(lines))
    return hashes[~crosses], counts[: len(lines)]
