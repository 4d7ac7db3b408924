"""Signs of a bad translation in its text: repetition, copies of the source, and lost numbers."""

import re
from collections.abc import Sequence

from crosshead.text.scripts import NO_LETTERS

_LETTER = re.compile(r"[^\W\d_]")
_NUMBER = re.compile(r"(?<!\d)\d{1,3}([^\w\n:/–-])(?:\d{2,3}\1)*\d{3}(?!\d)|\d+")
"""Digits with one separator between groups, as in 1,000,000 or 10,00,000, or digits alone."""
_PART = re.compile(r"\d+")

_SHORT_PHRASE = 4
"""A phrase of at most this many words is short: people repeat it more often than a long one."""

_LONG_PHRASE = 10
"""The most words of a phrase. This limits the time of a search."""

_SHORT_SEQUENCE = 8
"""A sequence of at most this many characters is short."""

_LONG_SEQUENCE = 30
"""The most characters of a sequence: about as long as a phrase of ten words in Chinese."""

_LEAST_WORDS = 3
"""A copy has at least this many words. Shorter ones are often names."""

_LEAST_LETTERS = 10
"""A copy has at least this many letters, for scripts without spaces."""


def repeats_itself(text: str) -> bool:
    """Return whether a text is a repetition loop.

    A loop repeats a phrase of up to four words four times in a row, or a phrase of five to ten
    words three times. For scripts without spaces, a sequence of characters within a word counts
    too: up to eight characters six times in a row, or nine to thirty characters four times.

    Tables and separators repeat numbers and punctuation. Without letters, a phrase therefore needs
    three times as many repeats, and a sequence of characters sixteen.
    """
    words = text.split()
    for size in range(1, min(_LONG_PHRASE, len(words) // 3) + 1):
        times = 4 if size <= _SHORT_PHRASE else 3
        if _has_loop(words, size, times, 3 * times):
            return True
    for word in words:
        for size in range(1, min(_LONG_SEQUENCE, len(word) // 4) + 1):
            times = 6 if size <= _SHORT_SEQUENCE else 4
            if _has_loop(word, size, times, 16):
                return True
    return False


def _has_loop(items: Sequence[str], size: int, times: int, times_without_letters: int) -> bool:
    """Return whether `size` items are repeated so many times in a row."""
    shifted = items[size:]
    least = size * (times - 1)
    # A loop has a run of at least `least` places whose item comes again `size` places later. One of
    # every `least` places is therefore tested, and a run is followed both ways from there.
    for place in range(least - 1, len(shifted), least):
        if items[place] != shifted[place]:
            continue
        start, end = place, place + 1
        while start and items[start - 1] == shifted[start - 1]:
            start -= 1
        while end < len(shifted) and items[end] == shifted[end]:
            end += 1
        if end - start < least:
            continue
        if end - start >= size * (times_without_letters - 1):
            return True
        if _LETTER.search("".join(items[start : start + size])):
            return True
    return False


def is_copy(source: str, output: str) -> bool:
    """Return whether an output has the words of its source, in the same order.

    Case, digits and punctuation do not count. Texts of fewer than three words or ten letters are no
    copies, because names stay the same in many languages.
    """
    words = NO_LETTERS.sub(" ", source.casefold()).split()
    if len(words) < _LEAST_WORDS or sum(map(len, words)) < _LEAST_LETTERS:
        return False
    return words == NO_LETTERS.sub(" ", output.casefold()).split()


def numbers(text: str) -> list[str]:
    """Return the numbers of two or more digits in a text, such as `12`, `1,000` or `2019`."""
    return [found[0] for found in _NUMBER.finditer(text) if len(found[0]) > 1]


def loses_number(source: str, output: str) -> bool:
    """Return whether a source has a number that an output lacks.

    Numbers of one digit do not count, because they are often written as words. Zeros before a
    number and the separators in it do not count either, as in `5` for `05` and `1.000` for `1000`.
    """
    written = {
        _digits(text)
        for found in _NUMBER.finditer(output)
        for text in (found[0], *_PART.findall(found[0]))
    }
    return any(
        _digits(number) not in written
        and not written.issuperset(map(_digits, _PART.findall(number)))
        for number in numbers(source)
    )


def _digits(text: str) -> str:
    """Return the digits of a text in ASCII, without zeros at the front."""
    return "".join(str(int(each)) for each in text if each.isdecimal()).lstrip("0")
