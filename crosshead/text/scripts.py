"""Scripts of a text, such as LATIN, CYRILLIC or CJK, and its words in lower case."""

import re
import unicodedata
from collections import Counter
from collections.abc import Container, Iterable
from functools import cache
from itertools import islice

_LETTER = re.compile(r"[^\W\d_]")
NOT_LATIN = re.compile("[\u0250-\u1dff\u2c00-\U0010ffff]")
"""Characters after the Latin blocks."""
NO_LETTERS = re.compile(r"[\W\d_]+")
"""Whatever stands between runs of letters."""

UNSPACED_RANGES = {
    "THAI": "\u0e00-\u0e7f",
    "LAO": "\u0e80-\u0eff",
    "TIBETAN": "\u0f00\u0f40-\u0fbc",
    "MYANMAR": "\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f",
    "KHMER": "\u1780-\u17ff",
    "TAI": "\u1950-\u197f\u1a20-\u1aaf\uaa80-\uaadf",
    "NEW": "\u1980-\u19df",
    "BALINESE": "\u1b00-\u1b7f",
    "JAVANESE": "\ua980-\ua9df",
    "CJK": "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff",
    "HIRAGANA": "\u3040-\u309f\U0001b000-\U0001b16f",
    "HENTAIGANA": "\U0001b002-\U0001b11e",
    "KATAKANA": "\u30a0-\u30ff\u31f0-\u31ff\U0001aff0-\U0001afff",
}
"""Scripts without spaces between words, by the names that `script` returns, with their characters
as ranges of a regular expression. NEW stands for New Tai Lue."""
UNSPACED = frozenset(UNSPACED_RANGES)


@cache
def script(character: str) -> str:
    """Return the script of a letter, or an empty string for any other character.

    The script is the first word of the letter's Unicode name, because Python's `unicodedata` has
    no property of that name.
    """
    if not character.isalpha():
        return ""
    return unicodedata.name(character, "UNNAMED").partition(" ")[0].partition("-")[0]


def is_spaced(letter: str) -> bool:
    """Return whether spaces stand between words in the script of a letter."""
    return script(letter) not in UNSPACED


def letters_by_script(texts: Iterable[str]) -> Counter[str]:
    """Return the number of letters of each script."""
    counts: Counter[str] = Counter()
    for text in texts:
        if NOT_LATIN.search(text):
            counts.update(map(script, text))
        else:  # most text, and much faster
            counts["LATIN"] += len(_LETTER.findall(text))
    return Counter({name: count for name, count in counts.items() if name and count})


def foreign_share(text: str, known: Container[str]) -> float:
    """Return the share of a text's letters whose scripts are not known."""
    counts = letters_by_script([text])
    foreign = sum(count for name, count in counts.items() if name not in known)
    return foreign / max(1, counts.total())


_UNSPACED = "".join(UNSPACED_RANGES.values())
_LETTER_OR_DIGIT = re.compile(r"[^\W_]")
_UNSPACED_LETTER = re.compile(rf"(?=[{_UNSPACED}])[^\W\d_]")
_WORD = re.compile(rf"[{_UNSPACED}][\u0300-\u036f]*|[^\W{_UNSPACED}]+")
_WORD_OR_END = re.compile(rf"{_WORD.pattern}|\n")

LEAST_SOURCE_WORDS = 3
"""Pairs whose source has this many words or more are alike if their sources are. Shorter sources,
such as `Yes.` or `Don't worry.`, are frequent and may have many translations."""


def split_words(line: str) -> list[str]:
    """Return the words of a line in lower case. A letter of an unspaced script is a word."""
    return _WORD.findall(line.lower())


def split_lines(lines: Iterable[str]) -> list[str]:
    """Return the words of lines, with a line break after those of each line.

    It is much faster than `split_words` on each line.
    """
    return _WORD_OR_END.findall("".join([line.replace("\n", " ") + "\n" for line in lines]).lower())


def is_long_source(source: str) -> bool:
    """Return whether a source has `LEAST_SOURCE_WORDS` words or more.

    A word stands between spaces and has a letter or a digit. Two letters of an unspaced script
    count as one word; vowel signs and tone marks do not count.
    """
    letters = _UNSPACED_LETTER.findall(source) if NOT_LATIN.search(source) else []
    spaced = _UNSPACED_LETTER.sub(" ", source) if letters else source
    words = [*islice(filter(_LETTER_OR_DIGIT.search, spaced.split()), LEAST_SOURCE_WORDS)]
    return len(words) + len(letters) // 2 >= LEAST_SOURCE_WORDS
