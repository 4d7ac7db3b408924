"""Scripts of a text, such as LATIN, CYRILLIC or CJK, and its words in lower case."""

import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Container, Iterable, Iterator
from functools import cache
from itertools import islice

import numpy as np

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
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+")
_LAST = 0x40000
"""A code point after all letters of Unicode."""
_BLOCK = 1 << 17
"""The number of characters that are read at a time. Their numbers stay in the processor's cache."""
_BASE = 0x9E3779B97F4A7C15
"""The odd number of the 64-bit hashes of words."""

LEAST_SOURCE_WORDS = 3
"""Pairs whose source has this many words or more are alike if their sources are. Shorter sources,
such as `Yes.` or `Don't worry.`, are frequent and may have many translations."""


def split_words(line: str) -> list[str]:
    """Return the words of a line in lower case. A letter of an unspaced script is a word."""
    return _WORD.findall(line.lower())


def blocks(lines: Iterable[str]) -> Iterator[list[str]]:
    """Yield lines in lists of about `_BLOCK` characters, with spaces for line breaks."""
    found, size = list[str](), 0
    for line in lines:
        found.append(line.replace("\n", " "))
        size += len(line)
        if size > _BLOCK:
            yield found
            found, size = [], 0
    if found:
        yield found


def word_hashes(lines: Iterable[str], letters: int = sys.maxsize) -> tuple[np.ndarray, np.ndarray]:
    """Return a hash of each word of lines, or of its first letters, and the row of its line.

    The words are those of `split_words`. This is much faster than it is on each line.
    """
    first, hashes, rows = 0, [np.zeros(0, np.uint64)], [np.zeros(0, np.int64)]
    for block in blocks(lines):
        text = _codes("\n".join(["", *block, ""]).lower())
        codes = _blanks(rf"[\w{_UNSPACED}]").take(text, mode="clip")
        is_word = codes > ord(" ")
        alone = _blanks(f"[{_UNSPACED}]").take(codes, mode="clip") > ord(" ")
        edge = np.flatnonzero((is_word[1:] != is_word[:-1]) | alone[1:] | alone[:-1]) + 1
        begin = np.flatnonzero(is_word[edge])
        begins, ends = edge[begin], edge[begin + 1]
        # The hash is a polynomial in an odd number. Its powers have inverses modulo 2**64.
        bases = _BASE, pow(_BASE, -1, 1 << 64)
        powers, inverses = (np.cumprod(np.full(len(codes), each, np.uint64)) for each in bases)
        sums = np.cumsum(powers * codes)
        last = np.minimum(ends - begins, letters) + begins - 1
        hashes.append((sums[last] - sums[begins - 1]) * inverses[begins])
        rows.append(np.cumsum(text == ord("\n"))[begins] - 1 + first)
        first += len(block)
    return np.concatenate(hashes), np.concatenate(rows)


def blanked(text: str, kept: str) -> str:
    """Return a text with spaces for the characters that do not match the regular expression `kept`.

    It is much faster than `re.sub`.
    """
    codes = _blanks(kept).take(_codes(text), mode="clip")
    return codes.tobytes().decode("utf-32-le", "surrogatepass")


def _codes(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)


@cache
def _blanks(kept: str) -> np.ndarray:
    """Return what `blanked` has in place of each character."""
    return _codes(re.sub(f"(?!{kept})(?s:.)", " ", "".join(map(chr, range(_LAST + 1)))))


def is_long_source(source: str) -> bool:
    """Return whether a source has `LEAST_SOURCE_WORDS` words or more.

    A word stands between spaces and has a letter or a digit. Two letters of an unspaced script
    count as one word; vowel signs and tone marks do not count.
    """
    letters = _UNSPACED_LETTER.findall(source) if NOT_LATIN.search(source) else []
    spaced = _UNSPACED_LETTER.sub(" ", source) if letters else source
    words = [*islice(filter(_LETTER_OR_DIGIT.search, spaced.split()), LEAST_SOURCE_WORDS)]
    return len(words) + len(letters) // 2 >= LEAST_SOURCE_WORDS
