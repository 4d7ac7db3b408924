"""Pairs that a model should not learn from, by the form of one side or of both.

A side may be empty, the same as the opposite side, a repetition loop, the only one with mark-up, or
in an unusual Unicode form.
"""

import re
import unicodedata
from collections.abc import Sequence

from crosshead.addons.checks.suspects import Suspect
from crosshead.text.signs import repeats_itself

TAG = re.compile(
    r"</?[a-z][\w:-]*(?:\s+[\w:.-]+\s*=\s*(?:\"[^\"<>]*\"|'[^'<>]*'|[^\s\"'<>]+))*\s*/?>"
    r"|&(?:[A-Za-z]{2,}\d*|#\d+|#[Xx][0-9A-Fa-f]+);"
)
"""A tag of HTML or XML in small letters, because <Enter> is the name of a key, or a character
reference. A reference has at least two letters, because R&D; has none."""


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


def looped(source: Sequence[str], target: Sequence[str]) -> list[Suspect]:
    """Return the pairs of which only one side is a repetition loop. The score is 1."""
    suspects = []
    for row, (left, right) in enumerate(zip(source, target, strict=True)):
        if (loops := repeats_itself(left)) != repeats_itself(right):
            side = "source" if loops else "target"
            suspects.append(Suspect(row, "doubled", 1.0, f"the {side} repeats a phrase many times"))
    return suspects


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
