"""Lines of text as words: lower-case, without punctuation."""

import re

_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
"""Letters of scripts without spaces between words: Thai, Lao, Burmese, Khmer, kana and Han."""

_WORD = re.compile(rf"[{_UNSPACED}][\u0300-\u036f]*|[^\W{_UNSPACED}]+")


def split_words(line: str) -> list[str]:
    """Return the words of a line in lower case. A letter of an unspaced script is a word.

    Args:
        line: The line.
    """
    return _WORD.findall(line.lower())
