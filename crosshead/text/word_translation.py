"""IBM model 1: the probabilities of word translations, learned from pairs of sentences.

In the model of Brown et al. 1993, section 4.2, each word of one side is the translation of a word
of the other side, or of none. `learn` estimates one direction by expectation maximisation. The
checks of parallel text score pairs by it (`addons/checks/lexicon.py`). Guided alignment learns
from it which source token belongs to a target token (`crosshead.text.parallel.word_aligner`).
"""

from typing import NamedTuple

import numpy as np

ITERATIONS = 4
"""The number of iterations of expectation maximisation."""

PRIOR = 3.0
"""The number of occurrences by which the translations of a word lean to the frequency of words.
So a word with few occurrences translates into nothing in particular."""


class WordIds(NamedTuple):
    """The words of many lines, as numbers."""

    ids: np.ndarray
    """The numbers of all words, line by line."""
    ends: np.ndarray
    """The offset in `ids` after each line."""
    size: int
    """The number of words in the vocabulary."""

    @property
    def lengths(self) -> np.ndarray:
        """The number of words of each line."""
        return np.diff(self.ends, prepend=0)

    def some(self, rows: np.ndarray) -> "WordIds":
        """Return the words of some lines."""
        lengths = self.lengths[rows]
        ends = np.cumsum(lengths)
        places = np.arange(ends[-1] if len(ends) else 0) + np.repeat(
            self.ends[rows] - ends, lengths
        )
        return WordIds(self.ids[places], ends, self.size)


class Links:
    """All pairs of a source word and a target word in the same row.

    Attributes:
        row: The row of each link.
        source: The place of its source word in `source.ids`.
        target: The place of its target word in `target.ids`.
    """

    def __init__(self, source: WordIds, target: WordIds) -> None:
        left, right = source.lengths, target.lengths
        count = left * right
        # 32 bits are enough, because callers limit the links to far fewer than 2^31.
        self.row = np.repeat(np.arange(len(count), dtype=np.int32), count)
        first = (np.cumsum(count) - count).astype(np.int32)
        within = np.arange(len(self.row), dtype=np.int32) - first[self.row]
        after, before = np.divmod(within, np.maximum(left, 1).astype(np.int32)[self.row])
        self.source = (source.ends - left).astype(np.int32)[self.row] + before
        self.target = (target.ends - right).astype(np.int32)[self.row] + after


class WordPairs:
    """Different pairs of a source word and a target word, numbered from 0.

    Attributes:
        source: The source word of each pair.
        target: The target word of each pair.
        of_link: The pair of each link.
    """

    def __init__(self, source: np.ndarray, target: np.ndarray, width: int) -> None:
        self._width = width
        self._keys, index = np.unique(self._key(source, target), return_inverse=True)
        self.source, self.target = np.divmod(self._keys, width)
        self.of_link = index.astype(np.int32)

    def find(self, source: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers of pairs, and whether they are known. Unknown ones have any number."""
        keys = self._key(source, target)
        index = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return index, self._keys[index] == keys

    def forget(self, kept: np.ndarray) -> None:
        """Keep only some pairs, which are numbered anew. Links no longer know their pairs."""
        self._keys, self.source, self.target = (
            self._keys[kept],
            self.source[kept],
            self.target[kept],
        )
        self.of_link = self.of_link[:0]

    def _key(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        return np.asarray(source.astype(np.int64) * self._width + target)


class Direction(NamedTuple):
    """The data of one direction of the model: words `b` as translations of words `a`."""

    a: np.ndarray
    """The given word of each pair of words."""
    b: np.ndarray
    """The translation of each pair of words."""
    pair: np.ndarray
    """The pair of words of each link."""
    place: np.ndarray
    """The place of the translation of each link, in `said.ids`."""
    said: WordIds
    """The words of the side of the translations."""
    given_size: int
    """The number of words in the vocabulary of the other side."""


class Translations(NamedTuple):
    """One direction of the model: words `b` as translations of words `a`."""

    probabilities: np.ndarray
    """The probability of `b` given `a`, for each known pair of words."""
    unknown: np.ndarray
    """For each word `a`, the factor of the frequency of `b` that is the probability of a pair of
    words that was not seen."""
    frequency: np.ndarray
    """The share of each word `b` among all words of its side."""


def learn(
    direction: Direction, *, likely: np.ndarray | float = 1.0, none: float = 1.0
) -> Translations:
    """Learn one direction by expectation maximisation."""
    a, b, pair, place, said, given_size = direction
    ids = said.ids
    # One is added to each count, because a word may be absent from the rows that are learned from.
    frequency = (np.bincount(ids, minlength=said.size) + 1) / (len(ids) + said.size)
    probability = frequency[b]
    for _ in range(ITERATIONS):
        weight = probability[pair] * likely
        sums = np.bincount(place, weight, minlength=len(ids)) + none * frequency[ids]
        counts = np.bincount(pair, weight / sums[place], minlength=len(b))
        totals = np.bincount(a, counts, minlength=given_size)
        probability = counts / totals[a]
    unknown = PRIOR / (totals + PRIOR)
    smoothed = counts / (totals + PRIOR)[a] + unknown[a] * frequency[b]
    return Translations(smoothed, unknown, frequency)
