"""Signs of a bad translation in its text: repetition, copies of the source, and lost numbers."""

import re
from collections.abc import Sequence

from crosshead.data.text.scripts import NO_LETTERS

_LETTER = re.compile(r"[^\W\d_]")
_NUMBER = re.compile(r"\d{2,}")
_ONE_NUMBER = re.compile(
    r"(?<!\d)(?:\d{1,3}([^\w\n:/–-])\d{3}(?:\1\d{3})*|\d{1,2}([^\w\n:/–-])(?:\d{2}\2)+\d{3})"
    r"(?!\d)|\d+"
)
"""One number: digits with one separator before every three, as in 1,000,000, or in the places of
Indian numbers, as in 10,00,000; or digits alone."""
_PLAIN = re.compile(r"\d+")
_GROUP = re.compile(r"\d+(?:[^\w\n]\d+)*")
"""Numbers with single characters between them, as in 1.000, 1 000 or 12:30."""

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
    """Return whether `size` items are repeated so many times in a row.

    Args:
        items: Words or characters.
        size: The number of items that are repeated together.
        times: The least number of times, if one of the items has a letter.
        times_without_letters: The least number of times for other items.
    """
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

    Args:
        source: The source.
        output: The output.
    """
    words = NO_LETTERS.sub(" ", source.casefold()).split()
    if len(words) < _LEAST_WORDS or sum(map(len, words)) < _LEAST_LETTERS:
        return False
    return words == NO_LETTERS.sub(" ", output.casefold()).split()


def numbers(text: str) -> list[str]:
    """Return the numbers of two or more digits in a text, such as `12`, `1,000` or `2019`.

    Args:
        text: The text.
    """
    return [found[0] for found in _ONE_NUMBER.finditer(text) if len(found[0]) > 1]


def loses_number(source: str, output: str) -> bool:
    """Return whether a source has a number that an output lacks.

    Numbers of one digit do not count, because they are often written as words. Zeros before a
    number do not count, as in `5` for `05`. Single characters between digits do not count either,
    as in `1.000` for `1000`. The numbers of such a group may stand in another order, as in a date.
    Each number may lack its separators: `12500` and `13500` match `12,500-13,500`. Years may be
    shortened, as in `2019-20`.

    Args:
        source: The source.
        output: The output.
    """
    if not _NUMBER.search(source):
        return False
    groups = _GROUP.findall(output)
    written = {form for group in groups for form in _forms(group)}
    years = {part[-2:] for group in groups for part in _PLAIN.findall(group) if len(part) == 4}
    short = {part for group in groups for part in _short_years(group)}
    return any(
        _is_missing(number[0], written)
        and not (len(number[0]) == 4 and number[0][-2:] in short)
        and not (number[0] in years and number[0] in _short_years(group))
        for group in _GROUP.findall(source)
        if _digits(group) not in written
        for number in _ONE_NUMBER.finditer(group)
    )


def _is_missing(number: str, written: set[str]) -> bool:
    """Return whether a number is not among those of an output.

    A number with separators may be written in its parts. Millions may be written as a word, as in
    `2 million` for `2,000,000`.

    Args:
        number: The number, with its separators.
        written: The digits of the output, in all of their forms.
    """
    if _digits(number) in written:
        return False
    parts = [_digits(part) for part in _PLAIN.findall(number)]
    if len(parts) == 1:
        return len(parts[0]) > 1
    zeros = parts.count("")
    return zeros == 1 or not written.issuperset(filter(None, parts))


def _short_years(group: str) -> set[str]:
    """Return the numbers of a group that may be years of two digits, as in 2019-20 or 27/11/26."""
    parts = _PLAIN.findall(group)
    has_years = len(parts) == 3 or any(len(part) == 4 for part in parts)
    return {part for part in parts if len(part) == 2} if has_years else set()


def _forms(group: str) -> set[str]:
    """Return the digits of a group of numbers: all together, of each number, and of each part."""
    numbers = [number[0] for number in _ONE_NUMBER.finditer(group)]
    return {_digits(each) for each in (group, *numbers, *_PLAIN.findall(group))}


def _digits(text: str) -> str:
    """Return the digits of a text in ASCII, without zeros at the front."""
    return "".join(str(int(each)) for each in text if each.isdecimal()).lstrip("0")
