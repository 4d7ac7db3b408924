"""Character n-grams of lines, counted by their hash."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from crosshead.addons.checks.forms import TAG, URL
from crosshead.text.scripts import NO_LETTERS, NOT_LATIN

LEAST_NGRAMS = 10
"""The smallest number of n-grams of a line that is judged."""

LEAST_LINES = 100
"""The smallest number of different lines to judge in a side."""

LEAST_WORDS = 150
"""The smallest number of different words to judge in a side. With fewer, as in a list of dates, the
lines of one word differ from the rest as those of another language do."""

_MOST_LETTERS = 500
"""The largest number of letters of a line that are counted. With all letters, one very long line
would outweigh the other lines of its side."""

_ORDER = 3
_BITS = 16
"""N-grams are counted by this number of bits of their hash."""
_FACTOR = 0x9E3779B97F4A7C15
"""An odd factor that spreads numbers over 64 bits (Knuth's multiplicative hashing)."""
_SMOOTHING = 0.01
_BLOCK = 10_000
_LATIN = re.compile("[a-z\u00aa-\u024f\u1e00-\u1eff]")
_CODE = re.compile(rf"{URL.pattern}|{TAG.pattern}|%\(\w+\)[a-z]?|%[a-z]\b|\{{\w*\}}")
"""URLs, tags, and marks of interfaces that a program fills in, such as %s, %(name)s or {name}."""
_SIGN_OF_CODE = re.compile("[<&%{/]")


@dataclass(frozen=True)
class NGrams:
    """The hashed character n-grams of lines, in blocks of lines."""

    hashes: list[np.ndarray]
    counts: list[np.ndarray]
    """The number of n-grams of each line in a block."""

    @property
    def lengths(self) -> np.ndarray:
        """The number of n-grams of each line."""
        return np.concatenate([np.zeros(0, np.int64), *self.counts])

    def histogram(self, chosen: np.ndarray | None = None) -> np.ndarray:
        """Return the number of times that each n-gram occurs, in all or in the chosen lines."""
        total = np.zeros(1 << _BITS)
        for rows, hashes, counts in self._blocks():
            if chosen is not None:
                hashes = hashes[np.repeat(chosen[rows], counts)]
            total += np.bincount(hashes, minlength=1 << _BITS)
        return total

    def means(self, values: np.ndarray) -> np.ndarray:
        """Return the mean of the values of each line's n-grams, given the value of each n-gram."""
        found = []
        for _, hashes, counts in self._blocks():
            line = np.repeat(np.arange(len(counts)), counts)
            found.append(np.bincount(line, values[hashes], minlength=len(counts)))
        return np.asarray(np.concatenate(found) / np.maximum(self.lengths, 1))

    def _blocks(self) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        first = 0
        for hashes, counts in zip(self.hashes, self.counts, strict=True):
            yield slice(first, first + len(counts)), hashes, counts
            first += len(counts)


def ngrams(lines: Sequence[str]) -> NGrams:
    """Return the character n-grams of lines, within words and across the spaces between them.

    Only the first `_MOST_LETTERS` of a line count.
    """
    blocks = [_block(lines[first : first + _BLOCK]) for first in range(0, len(lines), _BLOCK)]
    return NGrams([hashes for hashes, _ in blocks], [counts for _, counts in blocks])


def has_enough(lines: Sequence[str], judged: np.ndarray) -> bool:
    """Return whether lines suffice to learn their language."""
    if judged.sum() < LEAST_LINES:
        return False
    return len({word for line in lines for word in line.split()}) >= LEAST_WORDS


def log_share(counts: np.ndarray, own: int = 0) -> np.ndarray:
    """Return the log-probability of each n-gram."""
    total = counts.sum() + _SMOOTHING * len(counts)
    return np.asarray(np.log((np.maximum(counts - own, 0) + _SMOOTHING) / total))


def letters_of(line: str) -> str:
    """Return the words of a line in lower case, without digits, punctuation and code.

    Latin letters are left out if most letters of the line are of another script: they are names,
    and say nothing about the language of the line.
    """
    text = line.lower()
    if _SIGN_OF_CODE.search(text):
        text = _CODE.sub(" ", text)
    text = NO_LETTERS.sub(" ", text).strip()
    if NOT_LATIN.search(text):
        without = _LATIN.sub(" ", text).split()
        if 2 * sum(map(len, without)) > len(text) - text.count(" "):
            return " ".join(without)
    return text


def _block(lines: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the hashed n-grams of some lines, and their number in each line."""
    padded = "".join(f" {letters_of(line)[:_MOST_LETTERS]} \n" for line in lines)
    letters = np.frombuffer(padded.encode("utf-32-le"), np.uint32).astype(np.uint64)
    is_end = letters == ord("\n")
    count = max(len(letters) - _ORDER + 1, 0)
    mixed = np.zeros(count, np.uint64)
    crosses = np.zeros(count, bool)
    for place in range(_ORDER):
        mixed = (mixed + letters[place : place + count]) * np.uint64(_FACTOR)
        crosses |= is_end[place : place + count]
    hashes = (mixed >> np.uint64(64 - _BITS)).astype(np.uint16)
    line = np.cumsum(is_end)[:count]
    counts = np.bincount(line[~crosses], minlength=len(lines))
    return hashes[~crosses], counts[: len(lines)]
