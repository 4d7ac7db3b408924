"""Lines of text as words: lower-case, without punctuation."""

import re

from crosshead.data.text.scripts import UNSPACED_RANGES

_UNSPACED = "".join(UNSPACED_RANGES.values())
_WORD = re.compile(rf"[{_UNSPACED}][\u0300-\u036f]*|[^\W{_UNSPACED}]+")


def split_words(line: str) -> list[str]:
    """Return the words of a line in lower case. A letter of an unspaced script is a word.

    Args:
        line: The line.
    """
    return _WORD.findall(line.lower())
