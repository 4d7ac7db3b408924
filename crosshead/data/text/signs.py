"""Signs of a bad translation in its text: repetition, and copies of the source."""

import re

_PHRASES = re.compile(r"(?:^|(?<=\s))((?=\S*[^\W\d_])\S+(?:\s+\S+){0,3}?)(?:\s+\1){3,}(?=\s|$)")
_LETTERS = re.compile(r"([^\W\d_]\S{0,7}?)\1{5,}|(\S)\2{15,}")
_NO_WORD = re.compile(r"[\W\d_]+")

_LEAST_WORDS = 3
"""A copy has at least this many words. Shorter ones are often names."""

_LEAST_LETTERS = 10
"""A copy has at least this many letters, for scripts without spaces."""


def repeats_itself(text: str) -> bool:
    """Return whether a text repeats a phrase of up to four words four times in a row.

    Some letters six times in a row, for scripts without spaces, or any character sixteen times in a
    row count too.
    """
    return bool(_PHRASES.search(text) or _LETTERS.search(text))


def is_copy(source: str, output: str) -> bool:
    """Return whether an output has the words of its source, in the same order.

    Case, digits and punctuation do not count. Texts of fewer than three words or ten letters are no
    copies, because names stay the same in many languages.

    Args:
        source: The source.
        output: The output.
    """
    words = _NO_WORD.sub(" ", source.casefold()).split()
    if len(words) < _LEAST_WORDS or sum(map(len, words)) < _LEAST_LETTERS:
        return False
    return words == _NO_WORD.sub(" ", output.casefold()).split()
