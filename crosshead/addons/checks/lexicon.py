"""A lexicon of word translations learned from pairs, and scores of pairs by it.

It is IBM model 1 in both directions (`crosshead.text.parallel.word_aligner`): each word of one side
translates a word of the opposite side, or none, all with the same probability.
"""

from collections.abc import Iterator

import numpy as np

from crosshead.text.parallel.word_aligner import (
    Direction,
    Links,
    Translations,
    WordIds,
    WordPairs,
    learn,
)

_LINKS = 2_000_000
"""The number of links, pairs of words of a row, that are scored at a time."""


class Lexicon:
    """Translations of words in both directions, learned from pairs."""

    def __init__(self, source: WordIds, target: WordIds) -> None:
        links = Links(source, target)
        words = source.ids[links.source], target.ids[links.target]
        self._pairs = pairs = WordPairs(*words, target.size)
        self._forward = learn(
            Direction(pairs.source, pairs.target, pairs.of_link, links.target, target, source.size)
        )
        self._backward = learn(
            Direction(pairs.target, pairs.source, pairs.of_link, links.source, source, target.size)
        )

    def scores(self, source: WordIds, target: WordIds) -> np.ndarray:
        """Return two scores for each pair: one for each direction.

        A score is the mean, over the words of a side, of the logarithm of the probability of the
        word given the opposite side, divided by its frequency.
        """
        found = np.zeros((len(source.ends), 2))
        for rows in _blocks(source.lengths * target.lengths):
            found[rows] = self._scored(source.some(rows), target.some(rows))
        return found

    def _scored(self, source: WordIds, target: WordIds) -> np.ndarray:
        links = Links(source, target)
        index, known = self._pairs.find(source.ids[links.source], target.ids[links.target])
        left, right = (links.source, source), (links.target, target)
        return np.stack(
            [
                _direction_scores(self._forward, index, known, *left, *right),
                _direction_scores(self._backward, index, known, *right, *left),
            ],
            axis=1,
        )


def _direction_scores(
    model: Translations,
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
