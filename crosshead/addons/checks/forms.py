"""Pairs that a model should not learn from, by the form of one side or of both.

A side may be empty, the same as the opposite side, a repetition, mark-up, or in an unusual Unicode
form.
"""

import re
import unicodedata
from collections.abc import Sequence

from crosshead.addons.checks.suspects import Suspect
from crosshead.text.signs import repeats_itself
from crosshead.text.words import split_words

TAG = re.compile(
    r"</?(?:[a-z][\w:-]*|(?i:a|b|big|blockquote|body|br|center|code|dd|div|dl|dt|em|font|h[1-6]"
    r"|head|hr|html|i|img|li|ol|p|pre|script|small|span|strong|style|sub|sup|table|tbody|td|th|thead"
    r"|title|tr|tt|u|ul))"
    r"(?:\s+[\w:.-]+\s*=\s*(?:\"[^\"<>]*\"|'[^'<>]*'|[^\s\"'<>]+))*\s*/?>"
    r"|&(?:[A-Za-z]{2,}\d*|#\d+|#[Xx][0-9A-Fa-f]+);|\{\{|\}\}|\[\[|\]\]"
)
"""A tag of HTML or XML, a character reference, or brackets of wiki text. Names of tags in capitals
are those of HTML, because <Enter> is the name of a key. A reference has at least two letters,
because R&D; has none."""

_LEAST_DOUBLED = 3
"""The smallest number of words of a text that stands twice. Fewer are often meant: "no, no"."""

_MOST_MARK_UP = 0.3
"""The largest share of a side's characters in tags that is not suspect."""
_MOST_SHARED_MARK_UP = 0.75
"""This is the share for pairs with the same tags on both sides, as in the messages of programs."""


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


def doubled(source: Sequence[str], target: Sequence[str]) -> list[Suspect]:
    """Return the pairs of which only one side repeats itself.

    Such a side is a text of 3 or more words twice, or a repetition loop as `repeats_itself` defines
    it. The opposite side may then be a text of any length twice. The score is 1.
    """
    suspects = []
    for row, (left, right) in enumerate(zip(source, target, strict=True)):
        words = _words_twice(left), _words_twice(right)
        if min(words) == 0 and max(words) >= _LEAST_DOUBLED:
            side = "source" if words[0] else "target"
            suspects.append(Suspect(row, "doubled", 1.0, f"the {side} is one text twice"))
        elif (loops := repeats_itself(left)) != repeats_itself(right):
            side = "source" if loops else "target"
            suspects.append(Suspect(row, "doubled", 1.0, f"the {side} repeats a phrase many times"))
    return suspects


def _words_twice(line: str) -> int:
    """Return the number of words of the text that makes up a line twice, or 0."""
    text = line.strip()
    half = len(text) // 2
    first = text[:half].strip()
    return len(split_words(first)) if first == text[-half:].strip() else 0


def decomposed(lines: Sequence[str], side: str) -> list[Suspect]:
    """Return the lines that are not in the Unicode form NFC. The score is 1."""
    return [
        Suspect(row, "unicode", 1.0, f"the {side} is not in the Unicode form NFC")
        for row, line in enumerate(lines)
        if not line.isascii() and not unicodedata.is_normalized("NFC", line)
    ]


def mark_up(source: Sequence[str], target: Sequence[str]) -> list[Suspect]:
    """Return the pairs with tags on one side only, or in many of a side's characters.

    Many are more than 30 %, or more than 75 % if both sides have the same tags.

    The score is the share of the characters in tags, or 1 for tags on one side only.
    """
    suspects = []
    for row, pair in enumerate(zip(source, target, strict=True)):
        found = [TAG.findall(side) for side in pair]
        if not any(found):
            continue
        share = max(
            sum(map(len, tags)) / max(1, len(side)) for tags, side in zip(found, pair, strict=True)
        )
        first = (found[0] or found[1])[0]
        shared = _names(found[0]) == _names(found[1])
        most = _MOST_SHARED_MARK_UP if shared else _MOST_MARK_UP
        if not all(found):
            side = "source" if found[0] else "target"
            suspects.append(Suspect(row, "mark-up", 1.0, f"only the {side} has {first!r}"))
        elif share > most:
            reason = f"{share:.0%} of a side is mark-up such as {first!r}"
            suspects.append(Suspect(row, "mark-up", share, reason))
    return suspects


def _names(tags: Sequence[str]) -> list[str]:
    """Return the sorted names of tags, because attributes and the order may be translated."""
    return sorted(tag.split()[0].strip("/>") for tag in tags)
