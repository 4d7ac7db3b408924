"""Lines of text as numbered words, in flat arrays."""

from collections.abc import Iterable
from itertools import chain

import numpy as np

from crosshead.text.parallel.word_aligner import WordIds
from crosshead.text.scripts import split_words

MOST_WORDS = 80
"""The largest number of words of a line that are compared; the rest of the line is ignored."""

_STEM = 6
"""The number of letters of a word that count. So most inflected forms of a word are one word."""


def stemmed_words(lines: Iterable[str], least: int) -> WordIds:
    """Return the first `MOST_WORDS` words of each line, each cut to its first letters."""
    vocabulary: dict[str, int] = {}
    lengths: list[int] = []

    def numbers(line: str) -> list[int]:
        found = [word[:_STEM] for word in split_words(line)[:MOST_WORDS]]
        lengths.append(len(found))
        return [vocabulary.setdefault(word, len(vocabulary)) for word in found]

    ids = np.fromiter(chain.from_iterable(map(numbers, lines)), np.int32)
    ends = np.cumsum(lengths, dtype=np.int64)
    counts = np.bincount(ids, minlength=len(vocabulary))
    kept = counts[ids] >= least
    before = np.concatenate([[0], np.cumsum(kept)])
    numbers_of_kept = np.cumsum(counts >= least, dtype=np.int32) - 1
    return WordIds(numbers_of_kept[ids[kept]], before[ends], int((counts >= least).sum()))
