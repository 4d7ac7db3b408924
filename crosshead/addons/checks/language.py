"""Lines in another language than the rest of their side, by character n-grams.

The lines of a side are divided into two groups: its language, and another one. The lines with the
rarest n-grams begin the second group. Then each line moves to the group whose n-grams predict it
better, until no line moves. The n-grams of the line itself do not count, so a line that is like no
other line stays in the first group.

The second group may have the same language and another topic. It is rejected if many lines lie
between the groups, or if most lines opposite it are unusual for their side, too. A side with many
n-grams that occur only once, such as Chinese, has no second group.

If many pairs have exchanged sides, both sides of the text hold the same two languages, and neither
side has a language of its own. So each pair is read in one of its two directions, and the n-grams
of all sides in one language are counted together. The direction of a pair is the one that fits the
others, in turns until no pair changes.

N-grams are counted by their hash. All functions take the letters of lines, from `letters_of`.
"""

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import accumulate

import numpy as np

from crosshead.addons.checks.forms import TAG, URL
from crosshead.addons.checks.suspects import Suspect
from crosshead.text.scripts import NOT_LATIN, blanked, blocks

LEAST_NGRAMS = 10
"""The smallest number of n-grams of a line that is judged."""

LEAST_LINES = 100
"""The smallest number of different lines to judge in a side."""

LEAST_WORDS = 150
"""The smallest number of different words to judge in a side. With fewer, as in a list of dates, the
lines of one word differ from the rest as those of another language do."""

_MOST_LETTERS = 500
"""The largest number of letters of a line that are counted. With all letters, one very long line
would outweigh the other lines of its side."""

_ORDER = 3
_BITS = 16
"""N-grams are counted by this number of bits of their hash."""
_FACTOR = 0x9E3779B97F4A7C15
"""An odd factor that spreads numbers over 64 bits (Knuth's multiplicative hashing)."""
_SMOOTHING = 0.01
_BLOCK = 1_000
"""The number of lines in a block. Its numbers stay in the cache of the processor."""
_LATIN = re.compile("[a-z\u00aa-\u024f\u1e00-\u1eff]")
_CODE = re.compile(rf"{URL.pattern}|{TAG.pattern}|%\(\w+\)[a-z]?|%[a-z]\b|\{{\w*\}}")
"""URLs, tags, and marks of interfaces that a program fills in, such as %s, %(name)s or {name}."""
_SIGN_OF_CODE = re.compile("[<&%{/]")


class NGrams(list[tuple[np.ndarray, np.ndarray]]):
    """Blocks of lines: their hashed character n-grams, and the number of n-grams of each line."""

    @cached_property
    def lengths(self) -> np.ndarray:
        """The number of n-grams of each line."""
        return np.concatenate([np.zeros(0, np.int64), *(counts for _, counts in self)])

    @cached_property
    def histogram(self) -> np.ndarray:
        """The number of times that each n-gram occurs."""
        total = np.zeros(1 << _BITS)
        for hashes, _ in self:
            total += np.bincount(hashes, minlength=1 << _BITS)
        return total

    def some(self, chosen: np.ndarray) -> "NGrams":
        """Return the chosen lines."""
        blocks = np.split(chosen, np.cumsum([len(counts) for _, counts in self])[:-1])
        return NGrams(
            (hashes[np.repeat(kept, counts)], counts[kept])
            for (hashes, counts), kept in zip(self, blocks, strict=False)
        )

    def means(self, values: np.ndarray) -> np.ndarray:
        """Return the mean of the values of each line's n-grams, given the value of each n-gram."""
        found = [np.zeros(0)]
        for hashes, counts in self:
            sums = np.add.reduceat(np.append(values.take(hashes), 0), np.cumsum(counts) - counts)
            found.append(np.where(counts, sums, 0))
        return np.asarray(np.concatenate(found) / np.maximum(self.lengths, 1))


def ngrams(lines: Sequence[str]) -> NGrams:
    """Return the character n-grams of lines, within words and across the spaces between them.

    Only the first `_MOST_LETTERS` of a line count.
    """
    return NGrams(_block(lines[at : at + _BLOCK]) for at in range(0, len(lines), _BLOCK))


def has_enough(lines: Sequence[str], judged: np.ndarray) -> bool:
    """Return whether lines suffice to learn their language."""
    if judged.sum() < LEAST_LINES:
        return False
    words = accumulate(lines, lambda known, line: known.union(line.split()), initial=set[str]())
    return any(len(known) >= LEAST_WORDS for known in words)


def log_share(counts: np.ndarray, own: int = 0) -> np.ndarray:
    """Return the log-probability of each n-gram."""
    total = counts.sum() + _SMOOTHING * len(counts)
    return np.asarray(np.log((np.maximum(counts - own, 0) + _SMOOTHING) / total))


def letters_of(lines: Iterable[str]) -> list[str]:
    """Return the words of each line in lower case, without digits, punctuation and code.

    Latin letters are left out if most letters of the line are of another script: they are names,
    and say nothing about the language of the line.
    """
    found: list[str] = []
    for block in blocks(line.lower() for line in lines):
        coded = (_CODE.sub(" ", each) if _SIGN_OF_CODE.search(each) else each for each in block)
        text = blanked("\n".join(coded), r"[^\W\d_]|\n")
        found += (" ".join(_own_script(line).split()) for line in text.split("\n"))
    return found


def _own_script(letters: str) -> str:
    """Return letters without the Latin ones, if most are of another script."""
    if letters.isascii() or not NOT_LATIN.search(letters):
        return letters
    without = _LATIN.sub(" ", letters)
    of_all, of_others = (len(each) - each.count(" ") for each in (letters, without))
    return without if 2 * of_others > of_all else letters


def _block(lines: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the hashed n-grams of some lines, and their number in each line."""
    used = [line[:_MOST_LETTERS] for line in lines]
    padded = "".join(f" {line} \n" for line in used) + "  "
    letters = np.frombuffer(padded.encode("utf-32-le"), np.uint32).astype(np.uint64)
    mixed = np.zeros(len(letters) - _ORDER + 1, np.uint64)
    for place in range(_ORDER):
        mixed += letters[place : place + len(mixed)]
        mixed *= np.uint64(_FACTOR)
    counts = np.fromiter(map(len, used), np.int64)  # one begins before each letter
    chosen = np.full(len(mixed), True)
    for place in range(1, _ORDER + 1):
        chosen[np.cumsum(counts + _ORDER) - place] = False
    return (mixed >> np.uint64(64 - _BITS)).astype(np.uint16)[chosen], counts


_LEAST_GROUP = 5
"""The smallest number of lines in the second group. Fewer lines are odd by chance."""
_RAREST = (0.02, 0.1, 0.3)
"""The shares of lines that begin a second group."""
_ROUNDS = 20
"""The largest number of rounds; hardly any line moves after the first few."""
_MARGIN = 0.6
"""The mean log-odds of an n-gram, in nats, from which a line belongs to the second group."""
_MOST_UNIQUE = 0.1
"""The largest share of a side's n-grams that occur once. With more, as in Chinese and in texts of
few words, the rest is too little to tell a language from chance."""
_MOST_BETWEEN = 0.12
"""The largest number of lines with log-odds from 0 to the margin, as a share of the second group.
It was at most 0.1 for another language in Multi30k, and mostly more for chance groups in the
messages of programs."""
_MOST_DISTINCT = 0.5
"""The largest share of lines opposite the second group that differ from the rest of their side as
much as the second group does from its own."""
_LEAST_CLEAR = 0.5
"""The smallest share of pairs that are clearly exchanged among those that fit better exchanged. It
is near 0 if both sides have the same language."""


def foreign(lines: Sequence[str], others: Sequence[str], side: str) -> list[Suspect] | None:
    """Return the lines of a side that are in another language than most of its lines.

    The score approaches 1 with the mean log-odds of the line's n-grams.
    """
    # Each line counts once, whatever its digits and punctuation: otherwise the copies of an odd
    # line would confirm one another.
    unique = list(dict.fromkeys(lines))
    own = ngrams(unique)
    judged = own.lengths >= LEAST_NGRAMS
    if not has_enough(unique, judged):
        return None
    second, odds = _second_group(own, judged)
    members = {unique[row] for row in np.flatnonzero(second)}
    opposite: dict[str, bool] = {}
    for line, other in zip(lines, others, strict=True):
        opposite[other] = opposite.get(other, False) or line in members
    opposite_side = ngrams(list(opposite))
    if _is_topic(opposite_side, np.array(list(opposite.values()), bool)):
        second = np.zeros_like(second)
    ours = own.some(~second).histogram
    across = own.means(log_share(opposite_side.histogram) - log_share(ours, 1))
    swapped = judged & (across > np.where(second, np.maximum(odds, _MARGIN), _MARGIN))
    reasons = {
        True: f"the {side} is in the language of the opposite side",
        False: f"the {side} is in another language than the other {side}s",
    }
    found = {
        unique[row]: (float(1 - np.exp(-max(across[row], odds[row]))), reasons[bool(swapped[row])])
        for row in np.flatnonzero(second | swapped)
    }
    return [
        Suspect(row, "language", *found[line]) for row, line in enumerate(lines) if line in found
    ]


def _second_group(own: NGrams, judged: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return which lines are in the second group, and the mean log-odds for it of each line.

    Few foreign lines are the rarest ones, and many are not rare. So several shares of the rarest
    lines begin a group, and the group that is predicted best counts.
    """
    whole = own.histogram
    none = np.zeros(len(judged), bool), np.zeros(len(judged))
    if (whole == 1).sum() > _MOST_UNIQUE * whole.sum():
        return none
    rarity = own.means(-log_share(whole, 1))
    best, gain = none, 0.0
    moves: dict[bytes, np.ndarray] = {}
    for share in _RAREST:
        rarest = judged & (rarity >= np.quantile(rarity[judged], 1 - share))
        second, odds = _settled(own, judged, rarest, moves)
        if _is_language(second, odds, judged) and (odds * own.lengths)[second].sum() > gain:
            best, gain = (second, odds), float((odds * own.lengths)[second].sum())
    return best


def _settled(
    own: NGrams, judged: np.ndarray, second: np.ndarray, moves: dict[bytes, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Move lines between the groups, and return the second group and the log-odds for it.

    `moves` has the group that follows each group, because several beginnings often meet.
    """
    for _ in range(_ROUNDS):
        before, key = second, np.packbits(second).tobytes()
        if key not in moves:
            moves[key] = judged & (_group_odds(own, second) > _MARGIN)
        second = moves[key]
        if (second == before).all():
            break
    return second, _group_odds(own, before)


def _is_language(second: np.ndarray, odds: np.ndarray, judged: np.ndarray) -> bool:
    """Return whether the second group has enough lines, and few lines are between the groups.

    Many are if the lines of the second group have the language of the others and another topic.
    """
    size = second.sum()
    between = (judged & ~second & (odds > 0)).sum()
    return bool(_LEAST_GROUP <= size <= judged.sum() / 2 and between <= _MOST_BETWEEN * size)


def _is_topic(opposite_side: NGrams, opposite: np.ndarray) -> bool:
    """Return whether the lines opposite the second group differ from the rest of their side, too.

    A line in a wrong language stands opposite any line. If both sides of a group differ from the
    rest, they are another kind of text, such as dates among sentences.
    """
    opposite = opposite & (opposite_side.lengths >= LEAST_NGRAMS)
    if opposite.sum() < _LEAST_GROUP:
        return False
    odds = _group_odds(opposite_side, opposite)
    return bool((odds[opposite] > _MARGIN).mean() > _MOST_DISTINCT)


def _group_odds(own: NGrams, second: np.ndarray) -> np.ndarray:
    """Return the mean log-odds of each line for the second group, without the line itself."""
    group = own.some(second)
    theirs, ours = group.histogram, own.histogram - group.histogram
    odds = own.means(log_share(theirs) - log_share(ours, 1))
    odds[second] = group.means(log_share(theirs, 1) - log_share(ours))
    return odds


def exchanged(
    source: Sequence[str], target: Sequence[str], usual: np.ndarray | None = None
) -> tuple[list[Suspect] | None, np.ndarray | None]:
    """Return the pairs with exchanged sides, and the log-odds of n-grams for the source's language.

    They are at most half of the text. In a further part of a text, `usual` has the log-odds of an
    earlier part, so that all parts have the same direction. The score of a pair approaches 1 with
    the mean log-odds of the n-grams of the less clear side.
    """
    unique = {pair: row for row, pair in enumerate(dict.fromkeys(zip(source, target, strict=True)))}
    lefts, rights = [left for left, _ in unique], [right for _, right in unique]
    left, right = ngrams(lefts), ngrams(rights)
    judged = (left.lengths >= LEAST_NGRAMS) & (right.lengths >= LEAST_NGRAMS)
    if not has_enough(lefts, judged) or not has_enough(rights, judged):
        return None, usual
    swap = np.zeros(len(unique), bool)
    values = _log_odds(left, right, swap) if usual is None else usual
    for _ in range(_ROUNDS):
        odds = np.stack([left.means(values), right.means(values)])
        before, swap = swap, judged & (odds[1] > odds[0])
        if (swap == before).all():
            break
        values = _log_odds(left, right, swap)
    if usual is None and 2 * swap.sum() > judged.sum():
        swap, odds, values = judged & ~swap, odds[::-1], -values
    clear = np.minimum(-odds[0], odds[1])
    found = swap & (clear > _MARGIN)
    if found.sum() < max(_LEAST_GROUP, _LEAST_CLEAR * swap.sum()):
        return [], values
    return [
        Suspect(
            row, "exchanged", float(1 - np.exp(-clear[unique[pair]])),
            "each side is in the language of the opposite side",
        )
        for row, pair in enumerate(zip(source, target, strict=True))
        if found[unique[pair]]
    ], values  # fmt: skip


def _log_odds(left: NGrams, right: NGrams, swap: np.ndarray) -> np.ndarray:
    """Return the log-odds of each n-gram for the first language, if these pairs are exchanged."""
    second = right.histogram - right.some(swap).histogram + left.some(swap).histogram
    first = left.histogram + right.histogram - second
    return np.asarray(log_share(first) - log_share(second))
