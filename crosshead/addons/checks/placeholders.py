"""Texts in place of a translation: `TODO`, `See above.`, `#N/A`, bare numbers.

A placeholder stands opposite many texts that have little in common. A text such as "Yes" also
stands opposite many texts, but those resemble one another: they share more words than random lines.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

from crosshead.addons.checks.encoding import URL
from crosshead.addons.checks.suspects import Suspect
from crosshead.text.scripts import split_words

_SEVERAL = 5
"""The smallest number of words of a text that no number, sign or URL can translate."""

_LEAST_PARTNERS = 5
"""The smallest number of different texts of several words that a placeholder stands opposite."""
_LEAST_DIFFERENT = 0.5
"""The smallest share of different texts among all texts opposite a placeholder. Most texts that are
frequent have one translation that is more frequent than the others."""
_MOST_ALIKE = 2.0
"""The largest likeness of the texts opposite a placeholder, as a multiple of that of neighbouring
lines of their side."""

_MOST_COMPARED = 10_000
"""The largest number of neighbouring lines that are compared."""

_WORDLESS = re.compile(rf"(?:(?>{URL.pattern})|[\W\d_])++")
"""A line of numbers, signs and URLs. It does not backtrack, because that may take very long."""

_SIGN = re.compile(r"[^\w\s]")


def placeholders(lines: Sequence[str], others: Sequence[str], side: str) -> list[Suspect]:
    """Return the lines that stand in place of a translation.

    The score approaches 1 with the number of words opposite a line without words, and with the
    number of different texts opposite any other line.
    """
    rows = defaultdict(list)
    for row, line in enumerate(lines):
        rows[line.strip()].append(row)
    usual = None
    suspects = _wordless(lines, others, side)
    for text, found in rows.items():
        if not text or len(found) < _LEAST_PARTNERS:
            continue
        partners = list(dict.fromkeys(others[row].strip() for row in found))
        telling = [each for each in partners if _count_words(each) >= _SEVERAL]
        if len(telling) < _LEAST_PARTNERS or len(partners) < _LEAST_DIFFERENT * len(found):
            continue
        if usual is None:
            usual = _likeness(others[:_MOST_COMPARED])
        if _likeness(telling) <= _MOST_ALIKE * usual:
            score = 1 - 1 / len(partners)
            reason = f"the {side} stands opposite {len(partners):,} different texts"
            suspects += [Suspect(row, "placeholder", score, reason) for row in found]
    return suspects


def _wordless(lines: Sequence[str], others: Sequence[str], side: str) -> list[Suspect]:
    """Return the lines without words, such as `12`, `-` or a URL, opposite a text of several words.

    None is suspect if most lines are so: then the text may be about dates or numbers.
    """
    suspects = []
    for row, line in enumerate(lines):
        if not _WORDLESS.fullmatch(line) or not line.strip():
            continue
        if (words := _count_words(others[row])) >= _SEVERAL:
            reason = f"the {side} has no words, but the opposite side has {words:,}"
            suspects.append(Suspect(row, "placeholder", 1 - 1 / words, reason))
    return suspects if 2 * len(suspects) <= len(lines) else []


def _count_words(line: str) -> int:
    """Return the number of words with letters, outside URLs."""
    # The vowel signs of Indic scripts do not end a word.
    words = split_words(_SIGN.sub("", URL.sub(" ", line)))
    return sum(any(map(str.isalpha, word)) for word in words)


def _likeness(lines: Sequence[str]) -> float:
    """Return the mean share of words that two neighbouring different lines have in common."""
    words = [set(split_words(line)) for line in lines]
    shares = [
        len(left & right) / len(left | right)
        for left, right in pairwise(words)
        if left and right and left != right
    ]
    return sum(shares) / max(len(shares), 1)
