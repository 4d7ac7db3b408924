"""Flags for odd translations: by signs in their text, and by statistics of the training pairs."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import Self

import numpy as np
from pydantic import Field

from crosshead.config import MOST, Config
from crosshead.text.scripts import NO_LETTERS, foreign_share, letters_by_script, split_words
from crosshead.text.tokenizers import Tokenizer
from crosshead.vocabulary import UNK

_LETTER = re.compile(r"[^\W\d_]")
_NUMBER = re.compile(r"\d(?:(?<!\d\d)\d{0,2}([^\w\n:/–-])(?:\d{2,3}\1)*\d{3}(?!\d)|\d*)")
"""Digits with one separator between groups, as in 1,000,000 or 10,00,000, or digits alone. Python
finds a pattern that begins with a digit much faster."""
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


MOST_MEASURED = 5000
"""The largest number of training pairs that are measured, spread evenly over all pairs."""

LEAST_MEASURED = 100
"""The smallest number of training pairs that a profile is made from."""

FLAGS = {
    "script": "the source has letters of a script that the training data lack",
    "words": "the source has many words that the training data lack",
    "pieces": "the source falls into many more pieces, or more unknown pieces, than usual",
    "empty": "the translation is empty",
    "repetition": "the translation repeats itself",
    "length": "the translation is much longer or shorter than usual",
    "copy": "the translation is a copy of the source",
    "number": "the translation lacks a number of the source",
    "term": "the translation lacks a term of the glossary",
}
"""The meaning of each flag, in the order in which flags are listed."""

_OUTSIDE = 0.001
"""The share of the training pairs on each side of a usual range."""

_LEAST_PIECES, _LEAST_LENGTH, _LEAST_UNKNOWN = 1.0, 2.5, 1.0
"""The least limits of the deviations of pieces, characters and words, divided by the square root of
the size of a text. They apply if all training pairs are alike."""

MOST_WORDS = 5000
"""The largest number of words that a profile knows, the most frequent ones."""

_MOST_READ, _ONE_IN = 25_000, 5
"""The largest number of sources that words are taken from. One in so many of them is kept apart, to
measure how many new words are usual."""

_FOREIGN = 0.1
"""A source is flagged if more than this share of its letters has an unknown script."""

_RARE = 0.001
"""A script with a smaller share of the training letters is not known: a few symbols are no text."""

_USUAL = 0.01
"""If at least this share of the training pairs are copies, copies are not flagged. The same holds
for lost numbers."""

_DIGITS = 4


class Usual(Config):
    """The usual range of an amount that grows with the size of a text.

    The amount is about `rate` times the size. Its deviation grows with the square root of the size,
    because a text is a sum of many words.
    """

    rate: float
    low: float
    high: float
    """The limits of the deviation, divided by the square root of the size."""

    @classmethod
    def of(cls, amounts: Sequence[int], sizes: Sequence[int], least: float) -> Self:
        """Return the range between the 0.1 % and the 99.9 % quantile, and at least +-`least`."""
        measured, size = np.array(amounts, float), np.maximum(1.0, np.array(sizes, float))
        rate = round(float(measured.sum() / size.sum()), _DIGITS)
        found = (measured - rate * size) / np.sqrt(size)
        low, high = np.quantile(found, [_OUTSIDE, 1 - _OUTSIDE])
        low, high = min(low, -least), max(high, least)
        return cls(rate=rate, low=round(low, _DIGITS), high=round(high, _DIGITS))

    def deviation(self, amount: int, size: int) -> float:
        """Return the deviation from the usual amount, divided by the square root of the size."""
        return (amount - self.rate * size) / math.sqrt(max(1, size))

    def above(self, amount: int, size: int) -> bool:
        """Return whether an amount is above the range."""
        return self.deviation(amount, size) > self.high

    def below(self, amount: int, size: int) -> bool:
        """Return whether an amount is below the range."""
        return self.deviation(amount, size) < self.low


class KnownWords(Config):
    """The frequent words of the training sources, and the usual number of other words."""

    known: str
    """The words in lower case, with spaces between them, the most frequent ones first."""

    others: Usual
    """The words of a source that are not known, by all of its words."""

    @classmethod
    def of(cls, sources: Sequence[str]) -> Self:
        """Return the words of training sources."""
        texts = [_words(text) for text in sources]
        counts = Counter(word for row, text in enumerate(texts) if row % _ONE_IN for word in text)
        known = dict(counts.most_common(MOST_WORDS))
        apart = texts[::_ONE_IN]
        others = [sum(word not in known for word in text) for text in apart]
        usual = Usual.of(others, list(map(len, apart)), _LEAST_UNKNOWN)
        return cls(known=" ".join(known), others=usual)

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.known.split(" "))

    def has_many_unknown(self, text: str) -> bool:
        """Return whether a text has more unknown words than usual."""
        words = _words(text)
        return self.others.above(sum(word not in self._known for word in words), len(words))


class TextProfile(Config):
    """Statistics of the training pairs of a translation model."""

    pairs: int = Field(ge=1, le=MOST)
    """The number of pairs that were measured."""

    scripts: dict[str, float]
    """The share of each script among the letters of the sources."""

    pieces: Usual
    """The pieces of a source, by its characters."""

    unknown: Usual
    """The unknown pieces of a source, by its pieces."""

    length: Usual
    """The characters of a target, by the characters of its source."""

    copies: float = Field(ge=0, le=1)
    """The share of pairs whose target is a copy of the source."""

    lost_numbers: float | None = Field(default=None, ge=0, le=1)
    """The share of pairs whose target lacks a number of the source; older bundles have none."""

    words: KnownWords | None = None
    """The words of the sources; older bundles have none."""

    @classmethod
    def of(
        cls,
        examples: Sequence[tuple[Sequence[int], Sequence[int]]],
        source: Tokenizer,
        target: Tokenizer,
        tags: Sequence[list[int]] = (),
    ) -> Self | None:
        """Return the profile of training pairs, or None if there are too few."""
        if len(examples) < LEAST_MEASURED:
            return None
        count = min(len(examples), MOST_MEASURED)
        rows = np.linspace(0, len(examples) - 1, count).astype(int).tolist()
        ids = [_without(tags, examples[row][0]) for row in rows]
        sources = [_text(source, each) for each in ids]
        targets = [_text(target, examples[row][1]) for row in rows]
        spread = np.linspace(0, len(examples) - 1, min(len(examples), _MOST_READ)).astype(int)
        read = [_text(source, _without(tags, examples[row][0])) for row in spread.tolist()]
        letters = letters_by_script(sources)
        shares = {name: round(n / letters.total(), _DIGITS) for name, n in letters.most_common()}
        sizes = list(map(_size, sources))
        return cls(
            pairs=count,
            scripts={name: share for name, share in shares.items() if share >= _RARE},
            pieces=Usual.of(list(map(len, ids)), sizes, _LEAST_PIECES),
            unknown=Usual.of([each.count(UNK) for each in ids], list(map(len, ids)), _LEAST_PIECES),
            words=KnownWords.of(read),
            length=Usual.of(list(map(_size, targets)), sizes, _LEAST_LENGTH),
            copies=round(sum(map(is_copy, sources, targets)) / count, _DIGITS),
            lost_numbers=round(sum(map(loses_number, sources, targets)) / count, _DIGITS),
        )

    def source_flags(self, source: str, ids: Sequence[int]) -> list[str]:
        """Return the flags of a source."""
        flags = []
        if self.scripts and foreign_share(source, self.scripts) > _FOREIGN:
            flags.append("script")
        if self.words is not None and self.words.has_many_unknown(source):
            flags.append("words")
        unknown = sum(each == UNK for each in ids)
        if self.pieces.above(len(ids), _size(source)) or self.unknown.above(unknown, len(ids)):
            flags.append("pieces")
        return flags

    def output_flags(self, source: str, output: str) -> list[str]:
        """Return the flags of a translation, apart from repetition."""
        flags = []
        size, length = _size(source), _size(output)
        if not length or self.length.above(length, size) or self.length.below(length, size):
            flags.append("length")
        if self.copies < _USUAL and is_copy(source, output):
            flags.append("copy")
        keeps_numbers = self.lost_numbers is not None and self.lost_numbers < _USUAL
        if keeps_numbers and loses_number(source, output):
            flags.append("number")
        return flags


def flags_of(
    profile: TextProfile | None, source: str, ids: Sequence[int], output: str
) -> tuple[str, ...]:
    """Return the flags of a translation: names from `FLAGS`, in their order."""
    if not source.strip():
        return ()
    found = [] if profile is None else profile.source_flags(source, ids)
    if profile is not None:
        found += profile.output_flags(source, output)
    if not output.strip() and _LETTER.search(source):
        found.append("empty")
    if repeats_itself(output) and not repeats_itself(source):
        found.append("repetition")
    return tuple(sorted(found, key=list(FLAGS).index))


def _size(text: str) -> int:
    """Return the number of characters without white space."""
    return sum(map(len, text.split()))


def _words(text: str) -> list[str]:
    """Return the words of a text without those that have a digit."""
    return [word for word in split_words(text) if not any(map(str.isdigit, word))]


def _without(tags: Sequence[list[int]], ids: Sequence[int]) -> list[int]:
    """Return ids without the tag at their beginning, if they have one."""
    found = list(ids)
    return next((found[len(tag) :] for tag in tags if found[: len(tag)] == tag), found)


def _text(tokenizer: Tokenizer, ids: Sequence[int]) -> str:
    """Return the text of ids without unknown symbols."""
    return tokenizer.decode([each for each in ids if each != UNK])
