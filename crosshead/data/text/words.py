"""Lines of text as words: lower-case, without punctuation."""

import re
from itertools import islice

from crosshead.data.text.scripts import UNSPACED_RANGES

_UNSPACED = "".join(UNSPACED_RANGES.values())
_WORD = re.compile(rf"[{_UNSPACED}][\u0300-\u036f]*|[^\W{_UNSPACED}]+")


LEAST_SOURCE_WORDS = 3
"""Pairs whose source has this many words or more are alike if their sources are. Shorter sources,
such as `Yes.`, are frequent and may have many translations."""


def split_words(line: str) -> list[str]:
    """Return the words of a line in lower case. A letter of an unspaced script is a word.

    Args:
        line: The line.
    """
    return _WORD.findall(line.lower())


def is_long_source(source: str) -> bool:
    """Return whether a source has `LEAST_SOURCE_WORDS` words or more.

    Args:
        source: The source.
    """
    words = islice(_WORD.finditer(source), LEAST_SOURCE_WORDS)
    return sum(1 for _ in words) == LEAST_SOURCE_WORDS
