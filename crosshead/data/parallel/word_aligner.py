"""Which source tokens a target token translates, learned from pairs of token ids.

The model is IBM model 1 (`crosshead.data.text.word_translation`) with probabilities of positions: a
target token rather translates a source token at about the same place in its sentence. Guided
alignment trains a head of a model's attention with it (Chen et al. 2016; Garg et al. 2019).
"""

import numpy as np

from crosshead.data.parallel.examples import Examples, Side
from crosshead.data.text.word_translation import Links, Translations, WordIds, learn
from crosshead.vocabulary import EOS, PAD

MOST_LINKS = 16_000_000
"""The largest number of links, pairs of tokens of a row, that are learned from. A corpus with more
is learned from every second row, or from fewer."""

_FEW_LINKS = 1_000_000
"""The number of links that the precision of positions is learned from."""

_ROUNDS = 2
"""The number of rounds in which it is learned. In more rounds it would grow without end."""

_MOST_PRECISE = 8.0
"""The largest precision of positions."""

_LEAST = 1e-4
"""Translations with a smaller probability are forgotten, so that the others are found faster."""

_NONE = 0.08
"""The probability that a target token translates no source token (Dyer et al. 2013: p_0)."""


class WordAligner:
    """Alignments of target tokens to source tokens.

    Args:
        examples: The pairs to learn from.
        vocabulary: A number larger than all ids of both sides.

    Attributes:
        precision: The precision of positions: the probability of a link falls by exp(-precision)
            over the length of the sentence. It is 0 if the order of the tokens tells nothing.

    Reference:
        Brown et al. 1993, section 4.2; Dyer et al. 2013, "A Simple, Fast, and Effective
        Reparameterization of IBM Model 2", section 2.
    """

    def __init__(self, examples: Examples, vocabulary: int) -> None:
        self._size = vocabulary
        self.precision = _Sample(examples, vocabulary, _FEW_LINKS).fitted_precision()
        sample = _Sample(examples, vocabulary, MOST_LINKS)
        found = sample.learned(sample.likely(self.precision))
        kept = found.probabilities >= _LEAST
        self._pairs = sample.pairs[kept]
        self._probabilities = found.probabilities[kept].astype(np.float32)
        self._frequency = found.frequency.astype(np.float32)

    def align(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Return the probability that a target token translates a source token.

        Two tokens that hardly ever translate each other have the probability 0.

        Args:
            source: Source ids, each row with its end and padding, "B S".
            target: Target ids, likewise, "B T".

        Returns:
            Probabilities, "B T S" in float32. Those of a target token add up to 1 at most; the rest
            is the probability that it translates none. Those of padding are 0.
        """
        inside, known = source != PAD, target != PAD
        places = [
            (np.arange(ids.shape[1], dtype=np.float32) + 0.5) / ids.sum(axis=1, keepdims=True)
            for ids in (inside, known)
        ]
        distance = np.abs(places[0][:, None, :] - places[1][:, :, None])
        likely = np.exp(-self.precision * distance) * inside[:, None, :]
        likely *= (1 - _NONE) / likely.sum(axis=2, keepdims=True)
        numbers = _numbers(source[:, None, :], target[:, :, None], self._size)
        index = np.minimum(np.searchsorted(self._pairs, numbers), len(self._pairs) - 1)
        weight = likely * np.where(self._pairs[index] == numbers, self._probabilities[index], 0)
        none = _NONE * self._frequency[target][:, :, None]
        found = weight / (weight.sum(axis=2, keepdims=True) + none) * known[:, :, None]
        return np.asarray(found, np.float32)


class _Sample:
    """Evenly spaced rows of a corpus and their links, at most about `most` links."""

    def __init__(self, examples: Examples, vocabulary: int, most: int) -> None:
        links_of_row = (examples.lengths.astype(np.int64) + 1).prod(axis=1)
        rows = np.arange(0, len(examples), -(-int(links_of_row.sum()) // most))
        source = _ended(examples.source, rows, vocabulary)
        self.target = _ended(examples.target, rows, vocabulary)
        links = Links(source, self.target)
        self.distance = np.abs(_places(source)[links.source] - _places(self.target)[links.target])
        self.target_places = links.target
        numbers = _numbers(source.ids[links.source], self.target.ids[links.target], vocabulary)
        self.pairs, index = np.unique(numbers, return_inverse=True)
        self.index = index.astype(np.int32)

    def likely(self, precision: float) -> np.ndarray:
        """Return the probability of each link by the places of its tokens."""
        near = np.exp(-precision * self.distance)
        return np.asarray((1 - _NONE) * near / self._of_target_token(near))

    def learned(self, likely: np.ndarray) -> Translations:
        """Return the probabilities of translations."""
        a, b = np.divmod(self.pairs, self.target.size)
        return learn(
            a, b, self.index, self.target_places, self.target, self.target.size, likely=likely,
            none=_NONE,
        )  # fmt: skip

    def fitted_precision(self) -> float:
        """Return the precision at which the links have the mean distance that they have here."""
        precision = 0.0
        for _ in range(_ROUNDS):
            likely = self.likely(precision)
            found = self.learned(likely)
            weight = likely * found.probabilities[self.index]
            none = (_NONE * found.frequency[self.target.ids])[self.target_places]
            linked = weight / (self._of_target_token(weight) + none)
            share, distance = self._of_target_token(linked), np.vdot(linked, self.distance)
            low, high = 0.0, _MOST_PRECISE
            for _ in range(10):  # the mean distance falls with the precision
                precision = (low + high) / 2
                expected = np.vdot(self.likely(precision) / (1 - _NONE) * share, self.distance)
                low, high = (precision, high) if expected > distance else (low, precision)
        return precision

    def _of_target_token(self, values: np.ndarray) -> np.ndarray:
        """Return, for each link, the sum of the values of all links of its target token."""
        return np.asarray(np.bincount(self.target_places, values)[self.target_places])


def _numbers(source: np.ndarray, target: np.ndarray, size: int) -> np.ndarray:
    """Return the number of each pair of tokens."""
    return np.asarray(source.astype(np.int64) * size + target)


def _ended(side: Side, rows: np.ndarray, size: int) -> WordIds:
    """Return the ids of some rows, each row with the end token."""
    ids, ends, _ = WordIds(side.ids, side.ends, size).some(rows)
    longer = ends + np.arange(1, len(ends) + 1)
    return WordIds(np.insert(ids.astype(np.int64), ends, EOS), longer, size)


def _places(words: WordIds) -> np.ndarray:
    """Return the place of each word in its row, from 0 to 1."""
    lengths = np.repeat(words.lengths, words.lengths)
    within = np.arange(len(words.ids)) - np.repeat(words.ends - words.lengths, words.lengths)
    return np.asarray((within + 0.5) / lengths, np.float32)
