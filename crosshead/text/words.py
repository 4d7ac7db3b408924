"""Lines of text as words: lower-case, without punctuation."""

import re

from crosshead.text.scripts import UNSPACED_RANGES

_UNSPACED = "".join(UNSPACED_RANGES.values())
_LETTER_OR_DIGIT = re.compile(r"[^\W_]")
_UNSPACED_LETTER = re.compile(rf"(?=[{_UNSPACED}])[^\W\d_]")
_WORD = re.compile(rf"[{_UNSPACED}][\u0300-\u036f]*|[^\W{_UNSPACED}]+")

LEAST_SOURCE_WORDS = 3
"""Pairs whose source has this many words or more are alike if their sources are. Shorter sources,
such as `Yes.` or `Don't worry.`, are frequent and may have many translations."""


def split_words(line: str) -> list[str]:
    """Return the words of a line in lower case. A letter of an unspaced script is a word."""
    return _WORD.findall(line.lower())


def is_long_source(source: str) -> bool:
    """Return whether a source has `LEAST_SOURCE_WORDS` words or more.

    A word stands between spaces and has a letter or a digit. Two letters of an unspaced script
    count as one word; vowel signs and tone marks do not count.
    """
    letters = _UNSPACED_LETTER.findall(source)
    spaced = _UNSPACED_LETTER.sub(" ", source) if letters else source
    words = [word for word in spaced.split() if _LETTER_OR_DIGIT.search(word)]
    return len(words) + len(letters) // 2 >= LEAST_SOURCE_WORDS
