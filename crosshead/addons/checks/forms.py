"""Pairs that a model should not learn from, by the form, the length or the numbers of their sides.

A side may be empty, the same as the opposite side, without words, damaged by a wrong encoding, in
an unusual Unicode form, or the only one with mark-up.

The distance of the lengths of a pair is |log(ratio) - log(usual ratio)|. The ratio is that of the
lengths of both sides. Short sentences vary more, so the distance is divided by a scale that falls
with the length. The tail of the distances is fitted by an exponential distribution. So freer
translations need larger distances. Damaged pairs must not widen the fit that is to find them. So
the fit begins with the pairs near the median, and is repeated with the pairs inside its bound. It
stays good with 20 % damaged pairs.
"""

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from ftfy import fix_encoding
from ftfy.badness import is_bad

from crosshead.addons.checks.suspects import Suspect
from crosshead.text.profile import loses_number, numbers
from crosshead.text.scripts import UNSPACED, letters_by_script, split_words

TAG = re.compile(
    r"</?[a-z][\w:-]*(?:\s+[\w:.-]+\s*=\s*(?:\"[^\"<>]*\"|'[^'<>]*'|[^\s\"'<>]+))*\s*/?>"
    r"|&(?:[A-Za-z]{2,}\d*|#\d+|#[Xx][0-9A-Fa-f]+);"
)
"""A tag of HTML or XML in small letters, because <Enter> is the name of a key, or a character
reference. A reference has at least two letters, because R&D; has none."""

_BROKEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufffd\ufffe\uffff]")
"""Control characters, separators of lines, and the character that replaces undecodable bytes."""

_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_MOSTLY_ASCII = 1.25
"""The largest number of bytes for each character of a line in UTF-8 that is mostly ASCII."""

_INVISIBLE = re.compile(r"[\u00ad\u200b\u202a-\u202e\u2060\u2066-\u2069\ufeff]")
"""A soft hyphen, zero-width space, word joiner, byte order mark, or a mark that sets the direction
of text. The zero-width joiner and non-joiner are left out, because Persian and Indic scripts need
them."""

_LINE_BREAKS = "\u200b\u2060"
"""The invisible characters that allow or forbid a new line between words. Khmer, Thai and other
scripts without spaces need them."""

_DIRECTIONS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""The invisible characters that set the direction of text. Arabic and Hebrew text needs them."""

_SHOWN = 20
"""The largest number of characters of a line in a description."""

URL = re.compile(r"\b\w+://\S+|\bwww\.\S+")
"""A URL, also without its scheme."""

_SEVERAL = 5
"""The smallest number of words of a text that no number, sign or URL can translate."""

_WORDLESS = re.compile(rf"(?:(?>{URL.pattern})|[\W\d_])++")
"""A line of numbers, signs and URLs. It does not backtrack, because that may take very long."""

_SIGN = re.compile(r"[^\w\s]")


def empty_or_identical(source: Sequence[str], target: Sequence[str]) -> list[Suspect]:
    """Return the pairs with an empty side, and the pairs with letters whose sides are identical.

    The score is 1.
    """
    suspects = []
    for row, (left, right) in enumerate(zip(source, target, strict=True)):
        left, right = left.strip(), right.strip()
        if not (left and right):
            side = "both sides are" if not (left or right) else "the source is"
            side = "the target is" if left else side
            suspects.append(Suspect(row, "empty", 1.0, f"{side} empty"))
        elif left == right and any(map(str.isalpha, left)):
            suspects.append(Suspect(row, "identical", 1.0, "both sides are the same"))
    return suspects


def without_words(lines: Sequence[str], others: Sequence[str], side: str) -> list[Suspect]:
    """Return the lines without words, such as `12`, `-` or a URL, opposite a text of several words.

    None is suspect if most lines are so: then the text may be about dates or numbers. The score
    approaches 1 with the number of words of the text.
    """
    suspects = []
    for row, line in enumerate(lines):
        if not _WORDLESS.fullmatch(line) or not line.strip():
            continue
        if (words := _count_words(others[row])) >= _SEVERAL:
            reason = f"the {side} has no words, but the opposite side has {words:,}"
            suspects.append(Suspect(row, "placeholder", 1 - 1 / words, reason))
    return suspects if 2 * len(suspects) <= len(lines) else []


def damaged(lines: Sequence[str], side: str) -> list[Suspect]:
    """Return the lines with characters that a wrong encoding has damaged. The score is 1."""
    return [
        Suspect(row, "encoding", 1.0, f"the {side} has {found}")
        for row, line in enumerate(lines)
        if (found := _damage(line))
    ]


def _damage(line: str) -> str:
    """Return a description of the damage in a line, or ""."""
    if broken := _BROKEN.search(line):
        return f"the character U+{ord(broken[0]):04X}"
    if line.isascii():
        return ""
    if hidden := _invisible(line):
        return f"the invisible character U+{ord(hidden[0]):04X}"
    if not _looks_bad(line) or (right := fix_encoding(line)) == line:
        return ""
    start = next((at for at, one in enumerate(right) if one != line[at]), 0)
    shown = slice(start, start + _SHOWN)
    return f"{line[shown]!r}, probably {right[shown]!r} in a wrong encoding"


def _looks_bad(line: str) -> bool:
    """Return what `is_bad` does. It is faster for lines that are mostly ASCII.

    Damage shows in characters that are not ASCII and two more on each side. In such lines the same
    ones occur many times.
    """
    if len(line.encode()) > _MOSTLY_ASCII * len(line):
        return is_bad(line)
    parts = (line[max(0, at.start() - 2) : at.end() + 2] for at in _NOT_ASCII.finditer(line))
    return any(map(_part_is_bad, parts))


_part_is_bad = lru_cache(1 << 14)(is_bad)


def _invisible(line: str) -> list[str]:
    """Return the invisible characters that do not belong into a line."""
    found = _INVISIBLE.findall(line)
    if found and not UNSPACED.isdisjoint(letters_by_script([line])):
        found = [each for each in found if each not in _LINE_BREAKS]
    if found and any(unicodedata.bidirectional(each) in {"R", "AL"} for each in line):
        found = [each for each in found if each not in _DIRECTIONS]
    return found


def decomposed(lines: Sequence[str], side: str) -> list[Suspect]:
    """Return the lines that are not in the Unicode form NFC. The score is 1."""
    return [
        Suspect(row, "unicode", 1.0, f"the {side} is not in the Unicode form NFC")
        for row, line in enumerate(lines)
        if not line.isascii() and not unicodedata.is_normalized("NFC", line)
    ]


def mark_up(source: Sequence[str], target: Sequence[str]) -> list[Suspect]:
    """Return the pairs with tags on one side only. The score is 1."""
    suspects = []
    for row, pair in enumerate(zip(source, target, strict=True)):
        left, right = map(TAG.search, pair)
        if (left is None) != (right is None):
            side, tag = ("source", left) if left else ("target", right)
            suspects.append(Suspect(row, "mark-up", 1.0, f"only the {side} has {tag and tag[0]!r}"))
    return suspects


def _count_words(line: str) -> int:
    """Return the number of words with letters, outside URLs."""
    # The vowel signs of Indic scripts do not end a word.
    words = split_words(_SIGN.sub("", URL.sub(" ", line)))
    return sum(any(map(str.isalpha, word)) for word in words)


LEAST_PAIRS = 100
"""The smallest number of pairs that the usual ratio of lengths is fitted to."""

_MOST_FITTED = 250_000
"""The largest number of pairs that the usual ratio is fitted to, and compared at a time."""

_SCALE = 0.2
"""The scale of a pair is this number plus 1 / sqrt(length).

It is not fitted: damaged pairs look shorter or longer than they were, and would bend it.
"""
_NEAR = 4.0
"""The first fit is to the pairs within this many times the median distance."""
_FITS = 2
"""The number of fits. With more fits, many damaged pairs may widen the bound a little each time."""
_BULK, _TAIL = 0.5, 0.2
"""The tail is fitted through two distances; these are the shares of pairs beyond each."""
_RARE = 7e-4
"""The probability, by the fitted tail, below which a distance is suspect."""
_LEAST_FACTOR = 1.5
"""A pair is suspect only if its ratio is this many times the usual ratio, or more."""
_LEAST_CHARACTERS = 12
"""A pair is suspect only if it has more characters than this too many or too few.

In lines of two or three words, single words decide about the ratio.
"""

_MOST_CHANGED = 0.2
"""If a larger share of the pairs with numbers have a number that differs, the two languages write
numbers differently, as in dates of other calendars."""


def odd_lengths(source: Sequence[str], target: Sequence[str], rows: np.ndarray) -> list[Suspect]:
    """Return the pairs whose ratio of lengths is far from the usual ratio.

    The score approaches 1 with the distance.
    """
    if len(rows) < LEAST_PAIRS:
        return []
    lengths = np.stack([
        np.fromiter((max(len(side[row].strip()), 1) for row in rows), np.int32)
        for side in (source, target)
    ])  # fmt: skip
    fitted = lengths[:, np.random.default_rng(1).permutation(len(rows))[:_MOST_FITTED]]
    near = np.full(fitted.shape[1], True)
    for fit in range(_FITS + 1):
        usual = float(np.exp(np.median(np.log(fitted[1] / fitted[0])[near])))
        scaled, _ = _distances(fitted, usual)
        bound = _NEAR * float(np.median(scaled)) if fit == 0 else _tail_bound(scaled[near])
        near = scaled <= bound
    suspects = []
    for first in range(0, len(rows), _MOST_FITTED):
        scaled, differs = _distances(lengths[:, first : first + _MOST_FITTED], usual)
        for place in np.flatnonzero((scaled > bound) & differs):
            left, right = lengths[:, first + place]
            reason = f"{left:,} and {right:,} characters, usual are {left:,} and "
            reason += f"{round(left * usual):,}"
            score = float(1 - bound / (2 * scaled[place]))
            suspects.append(Suspect(int(rows[first + place]), "length", score, reason))
    return suspects


def _distances(lengths: np.ndarray, usual: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the scaled distance of the lengths of each pair, and whether they differ enough."""
    # Both lengths are counted in characters of the side that usually has more of them.
    one, other = lengths[0] * max(usual, 1.0), lengths[1] * max(1 / usual, 1.0)
    distance = np.abs(np.log(other / one))
    # The longer side tells the length: if a side is cut, the opposite side is not.
    scaled = distance / (_SCALE + 1 / np.sqrt(np.maximum(one, other)))
    return scaled, (distance > np.log(_LEAST_FACTOR)) & (np.abs(one - other) > _LEAST_CHARACTERS)


def _tail_bound(distances: np.ndarray) -> float:
    """Return the distance that an exponential tail exceeds with the probability `_RARE`."""
    inner, outer = np.quantile(distances, [1 - _BULK, 1 - _TAIL])
    return float(outer + (outer - inner) * np.log(_TAIL / _RARE) / np.log(_BULK / _TAIL))


def changed_numbers(source: Sequence[str], target: Sequence[str]) -> list[Suspect]:
    """Return the pairs with equally many numbers on both sides, but not the same numbers.

    Numbers of one digit do not count. Pairs with more numbers on one side do not count either: the
    opposite side may have words for them, such as the name of a month.
    """
    compared, changed = 0, []
    for row, (left, right) in enumerate(zip(source, target, strict=True)):
        if (one := numbers(left)) and len(one) == len(other := numbers(right)):
            compared += 1
            if one != other and (loses_number(left, right) or loses_number(right, left)):
                changed.append(row)
    if len(changed) > _MOST_CHANGED * compared:
        return []
    return [
        Suspect(row, "number", 1 - len(changed) / compared, "a number differs between the sides")
        for row in changed
    ]
