"""Pairs that are no text to learn from: empty, identical, doubled, damaged characters, mark-up."""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from itertools import chain, pairwise

from crosshead.data.checks.suspects import Suspect
from crosshead.data.checks.words import split_words

_LEAD = "".join(map(chr, range(0xC2, 0xF5)))
_CONTINUATION = "".join(
    bytes([number]).decode("cp1252", "ignore") + chr(number) for number in range(0x80, 0xC0)
)
_MISREAD = re.compile(f"[{re.escape(_LEAD)}][{re.escape(_CONTINUATION)}]{{1,3}}")
"""Characters that are UTF-8 read as windows-1252 or latin-1, such as Ã¼ for ü."""

_BROKEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ufffd\ufffe\uffff]")
"""Control characters, and the character that replaces undecodable bytes."""

_INVISIBLE = re.compile(r"[\u00ad\u200b\u2060\ufeff]")
"""A soft hyphen, zero-width space, word joiner or byte order mark. The zero-width joiner and
non-joiner are left out, because Persian and Indic scripts need them."""

_NO_BREAK = re.compile(r"\b[^\W\d_]{2,}(?:[\u00a0\u202f][^\W\d_]{2,})+\b")
"""Letters with no-break spaces between them. Elsewhere many languages need these: beside numbers,
marks, dashes and quotes, and behind words of one letter."""

_LOST = re.compile(r"[^\W\d_]\?[^\W\d_]")
"""A question mark between letters, as in M?nchen."""

_URL = re.compile(r"\w+://\S+|\bwww\.\S+")
_TAG = re.compile(r"</?[A-Za-z][^<>]*>|&(?:[A-Za-z]+|#\d+|#x[0-9A-Fa-f]+);|\{\{|\}\}|\[\[|\]\]")
"""A tag of HTML or XML, a character reference, or brackets of wiki text."""

_LEAST_DOUBLED = 3
"""The smallest number of words of a text that stands twice. Fewer are often meant: "no, no"."""

_MOST_MARK_UP = 0.3
"""The largest share of a side's characters in tags that is not suspect."""


def empty_or_identical(source: Sequence[str], target: Sequence[str]) -> list[Suspect]:
    """Return the pairs with an empty side, and the pairs with letters whose sides are identical.

    The score is 1.

    Args:
        source: All sources.
        target: All targets.
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


def doubled(source: Sequence[str], target: Sequence[str]) -> list[Suspect]:
    """Return the pairs of which only one side is a text of 3 or more words twice. The score is 1.

    Args:
        source: All sources.
        target: All targets.
    """
    suspects = []
    for row, (left, right) in enumerate(zip(source, target, strict=True)):
        twice = _is_doubled(left), _is_doubled(right)
        if twice[0] != twice[1]:
            side = "source" if twice[0] else "target"
            suspects.append(Suspect(row, "doubled", 1.0, f"the {side} is one text twice"))
    return suspects


def _is_doubled(line: str) -> bool:
    text = line.strip()
    half = len(text) // 2
    first = text[:half].strip()
    return first == text[-half:].strip() and len(split_words(first)) >= _LEAST_DOUBLED


def damaged(lines: Sequence[str], side: str) -> list[Suspect]:
    """Return the lines with characters that a wrong encoding has damaged.

    The score is 1 for characters that never stand in text, and 0.5 for a question mark between
    letters.

    Args:
        lines: All lines of the side.
        side: The name of the side, for the reason.
    """
    letters = Counter(character for line in lines if not line.isascii() for character in set(line))
    divided = _divided_words(lines)
    suspects = []
    for row, line in enumerate(lines):
        found, score = _damage(line, letters)
        if not found and row in divided:
            found, score = divided[row], 1.0
        if found:
            reason = f"the {side} has {found}"
            suspects.append(Suspect(row, "encoding", score, reason))
    return suspects


def _divided_words(lines: Sequence[str]) -> dict[int, str]:
    """Return the damage in words, by row, for lines with a no-break space inside a word.

    The space is inside a word, and not between two words, if the word stands in other lines without
    it, and the two parts do not both stand there as words.
    """
    found = {
        row: spots
        for row, line in enumerate(lines)
        if not line.isascii() and (spots := _NO_BREAK.findall(line))
    }
    if not found:
        return {}
    words = {
        word
        for row, line in enumerate(lines)
        for word in split_words(_NO_BREAK.sub("", line) if row in found else line)
    }
    divided: dict[int, str] = {}
    for row, spots in found.items():
        for left, right in chain.from_iterable(pairwise(spot.split()) for spot in spots):
            if (left + right).lower() in words and not {left.lower(), right.lower()} <= words:
                divided.setdefault(row, f"a no-break space inside {left + right!r}")
    return divided


def _damage(line: str, letters: Counter[str]) -> tuple[str, float]:
    """Return the damage in a line in words, or "", and the score."""
    if line.isascii() and line.isprintable() and "?" not in line:
        return "", 0.0
    if broken := _BROKEN.search(line):
        return f"the character U+{ord(broken[0]):04X}", 1.0
    if hidden := _INVISIBLE.search(line):
        return f"the invisible character U+{ord(hidden[0]):04X}", 1.0
    if "?" in line and (lost := _LOST.search(_URL.sub(" ", line))):
        return f"{lost[0]!r}, probably a lost letter", 0.5
    if line.isascii():
        return "", 0.0
    for found in _MISREAD.findall(line):
        meant = _as_utf8(found)
        # A sequence such as É» may be meant. It is damage if the line has the same again, or if
        # other lines of the side contain the letter that it stands for.
        if meant and (letters[meant] or line.count(found[0]) > 1):
            return f"{found!r}, probably {meant!r} in a wrong encoding", 1.0
    return "", 0.0


def _as_utf8(text: str) -> str:
    """Return the first character that was read in a wrong encoding, or ""."""
    raw = b"".join(_byte(character) for character in text)
    for length in range(len(raw), 1, -1):
        try:
            return raw[:length].decode("utf-8")
        except UnicodeDecodeError:
            continue
    return ""


def _byte(character: str) -> bytes:
    """Return the byte of a character in windows-1252, or in latin-1 if it has none there."""
    try:
        return character.encode("cp1252")
    except UnicodeEncodeError:
        return character.encode("latin-1")


def decomposed(lines: Sequence[str], side: str) -> list[Suspect]:
    """Return the lines that are not in the Unicode form NFC. The score is 1.

    Args:
        lines: All lines of the side.
        side: The name of the side, for the reason.
    """
    return [
        Suspect(row, "unicode", 1.0, f"the {side} is not in the Unicode form NFC")
        for row, line in enumerate(lines)
        if not line.isascii() and not unicodedata.is_normalized("NFC", line)
    ]


def mark_up(source: Sequence[str], target: Sequence[str]) -> list[Suspect]:
    """Return the pairs with tags on one side only, or in more than 30 % of a side's characters.

    The score is the share of the characters in tags, or 1 for tags on one side only.

    Args:
        source: All sources.
        target: All targets.
    """
    suspects = []
    for row, pair in enumerate(zip(source, target, strict=True)):
        found = [_TAG.findall(side) for side in pair]
        if not any(found):
            continue
        share = max(
            sum(map(len, tags)) / max(1, len(side)) for tags, side in zip(found, pair, strict=True)
        )
        first = (found[0] or found[1])[0]
        if not all(found):
            side = "source" if found[0] else "target"
            suspects.append(Suspect(row, "mark-up", 1.0, f"only the {side} has {first!r}"))
        elif share > _MOST_MARK_UP:
            reason = f"{share:.0%} of a side is mark-up such as {first!r}"
            suspects.append(Suspect(row, "mark-up", share, reason))
    return suspects
