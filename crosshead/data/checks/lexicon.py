"""IBM model 1: a lexicon of word translations learned from pairs, and scores of pairs by it.

The model is that of Brown et al. 1993, section 4.2: each word of one side is the translation of a
word of the other side, or of none, all with the same probability. It is learned in both directions.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from crosshead.data.checks.words import WordIds

_ITERATIONS = 4
_PRIOR = 3.0
"""The number of occurrences by which the translations of a word lean to the frequency of words.
So a word with few occurrences translates into nothing in particular."""

_LINKS = 2_000_000
"""The number of links, pairs of words of a row, that are scored at a time."""


class _Direction(NamedTuple):
    """One direction of the model: words `b` as translations of words `a`."""

    probabilities: np.ndarray
    """The probability of `b` given `a`, for each known pair of words."""
    unknown: np.ndarray
    """For each word `a`, the factor of the frequency of `b` that is the probability of a pair of
    words that was not seen."""
    frequency: np.ndarray
    """The share of each word `b` among all words of its side."""


class Lexicon:
    """Translations of words in both directions, learned from pairs.

    Args:
        source: The words of the sources.
        target: The words of the targets.
    """

    def __init__(self, source: WordIds, target: WordIds) -> None:
        self._width = target.size
        links = _Links(source, target)
        keys = self._keys(source, target, links)
        self._pairs, index = np.unique(keys, return_inverse=True)
        index = index.astype(np.int32)
        a, b = np.divmod(self._pairs, self._width)
        self._forward = _learned(a, b, index, links.target, target, source.size)
        self._backward = _learned(b, a, index, links.source, source, target.size)

    def scores(self, source: WordIds, target: WordIds) -> np.ndarray:
        """Return two scores for each pair: one for each direction.

        A score is the mean, over the words of a side, of the logarithm of the probability of the
        word given the other side, divided by its frequency.

        Args:
            source: The words of the sources.
            target: The words of the targets.

        Returns:
            The scores of "N" pairs, "N 2". A pair with a side without words has the scores 0.
        """
        found = np.zeros((len(source.ends), 2))
        for rows in _blocks(source.lengths * target.lengths):
            found[rows] = self._scored(source.some(rows), target.some(rows))
        return found

    def _scored(self, source: WordIds, target: WordIds) -> np.ndarray:
        links = _Links(source, target)
        keys = self._keys(source, target, links)
        index = np.minimum(np.searchsorted(self._pairs, keys), len(self._pairs) - 1)
        known = self._pairs[index] == keys
        left, right = (links.source, source), (links.target, target)
        return np.stack(
            [
                _direction_scores(self._forward, index, known, *left, *right),
                _direction_scores(self._backward, index, known, *right, *left),
            ],
            axis=1,
        )

    def _keys(self, source: WordIds, target: WordIds, links: "_Links") -> np.ndarray:
        """Return the number of each linked pair of words."""
        left = source.ids[links.source].astype(np.int64)
        return np.asarray(left * self._width + target.ids[links.target])


class _Links:
    """All pairs of a source word and a target word in the same row."""

    def __init__(self, source: WordIds, target: WordIds) -> None:
        left, right = source.lengths, target.lengths
        count = left * right
        self.row = np.repeat(np.arange(len(count)), count)
        within = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
        after, before = np.divmod(within, np.maximum(left, 1)[self.row])
        self.source = (source.ends - left)[self.row] + before
        """The place of the source word in `source.ids`."""
        self.target = (target.ends - right)[self.row] + after
        """The place of the target word in `target.ids`."""


def _learned(
    a: np.ndarray,
    b: np.ndarray,
    index: np.ndarray,
    places: np.ndarray,
    said: WordIds,
    given_size: int,
) -> _Direction:
    """Learn one direction by expectation maximisation.

    Args:
        a: The given word of each pair of words.
        b: The translation of each pair of words.
        index: The pair of words of each link.
        places: The place of the translation of each link, in `said.ids`.
        said: The words of the side of the translations.
        given_size: The number of words in the vocabulary of the other side.
    """
    ids = said.ids
    # One is added to each count, because a word may be absent from the rows that are learned from.
    frequency = (np.bincount(ids, minlength=said.size) + 1) / (len(ids) + said.size)
    probability = frequency[b]
    for _ in range(_ITERATIONS):
        weight = probability[index]
        sums = np.bincount(places, weight, minlength=len(ids)) + frequency[ids]
        counts = np.bincount(index, weight / sums[places], minlength=len(b))
        totals = np.bincount(a, counts, minlength=given_size)
        probability = counts / totals[a]
    unknown = _PRIOR / (totals + _PRIOR)
    return _Direction(counts / (totals + _PRIOR)[a] + unknown[a] * frequency[b], unknown, frequency)


def _direction_scores(
    model: _Direction,
    index: np.ndarray,
    known: np.ndarray,
    given_places: np.ndarray,
    given: WordIds,
    said_places: np.ndarray,
    said: WordIds,
) -> np.ndarray:
    """Return the scores of the rows in one direction; see `Lexicon.scores`."""
    frequency = model.frequency[said.ids]
    unseen = model.unknown[given.ids][given_places] * frequency[said_places]
    probability = np.where(known, model.probabilities[index], unseen)
    mixed = np.bincount(said_places, probability, minlength=len(said.ids)) + frequency
    row = np.repeat(np.arange(len(said.ends)), said.lengths)
    gain = np.log(mixed / (given.lengths[row] + 1) / frequency)
    total = np.bincount(row, gain, minlength=len(said.ends))
    return np.asarray(total / np.maximum(said.lengths, 1))


def _blocks(links: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the rows in blocks of about `_LINKS` links."""
    number = np.cumsum(links) // _LINKS
    for block in np.split(np.arange(len(links)), np.flatnonzero(np.diff(number)) + 1):
        if len(block):
            yield block
