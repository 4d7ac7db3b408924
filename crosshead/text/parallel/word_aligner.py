"""Which source tokens a target token translates, learned from pairs of token ids.

In IBM model 1 (Brown et al. 1993, section 4.2), each word of one side is the translation of a word
of the other side, or of none. `learn` estimates one direction by expectation maximisation; the
checks of parallel text score pairs by it. `WordAligner` adds probabilities of positions: a
target token is more likely to translate a source token at about the same place in its sentence.
Guided alignment trains a head of a model's attention with it (Chen et al. 2016; Garg et al. 2019).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from crosshead.text.parallel.examples import Examples, Measured, Side
from crosshead.vocabulary import EOS, PAD

ITERATIONS = 4
"""The number of iterations of expectation maximisation."""

PRIOR = 3.0
"""The number of occurrences by which the translations of a word lean to the frequency of words.
So a word with few occurrences translates into nothing in particular."""


@dataclass(frozen=True)
class WordIds(Side):
    """The words of many lines, as numbers."""

    size: int
    """The number of words in the vocabulary."""


def links(one: WordIds, other: WordIds) -> tuple[np.ndarray, np.ndarray]:
    """Return the places, in both sides, of all pairs of words in the same row.

    They are grouped by the words of `one`, because nearby pairs of words are found faster.
    """
    order = np.argsort(one.ids, kind="stable").astype(np.int32)
    row = np.repeat(np.arange(len(one.ends)), one.lengths)[order]
    count = other.lengths[row]
    # 32 bits are enough, because callers limit the links to far fewer than 2^31.
    ahead = (other.ends[row] - np.cumsum(count)).astype(np.int32)
    return np.repeat(order, count), np.repeat(ahead, count) + np.arange(count.sum(), dtype=np.int32)


class WordPairs:
    """Different pairs of a source word and a target word, numbered from 0.

    Attributes:
        words: The source word of each pair, and its target word.
        first: The number of the first link of each pair, among links sorted by their pairs.
        places: The places of the source word and of the target word of each of these links.
    """

    def __init__(self, sides: tuple[WordIds, WordIds], width: int) -> None:
        self._width = width
        target, source = links(sides[1], sides[0])
        # Small numbers are sorted by their digits, in a third of the time of `np.unique`.
        words = sides[0].ids[source].astype(np.min_scalar_type(sides[0].size))
        order = np.argsort(words, kind="stable")
        self.places = source[order], target[order]
        keys = self._key(*(side.ids[place] for side, place in zip(sides, self.places, strict=True)))
        self.first = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])[: len(keys)])
        self._keys = keys[self.first]
        self.words = np.divmod(self._keys, width)

    def of_links(self, values: np.ndarray) -> np.ndarray:
        """Return, for each link, the value of its pair."""
        return np.repeat(values, np.diff(self.first, append=len(self.places[0])))

    def find(self, source: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers of pairs, and whether they are known. Unknown ones have any number."""
        keys = self._key(source, target)
        index = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return index, self._keys[index] == keys

    def forget(self, kept: np.ndarray) -> None:
        """Keep only some pairs, which are numbered anew. Their links are forgotten."""
        self._keys, self.words = self._keys[kept], (self.words[0][kept], self.words[1][kept])
        self.first = self.first[:0]
        self.places = self.places[0][:0], self.places[1][:0]

    def _key(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        return np.asarray(source.astype(np.int64) * self._width + target)


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
    pairs: WordPairs, sides: tuple[WordIds, WordIds], said: int, *,
    likely: np.ndarray | float = 1.0, none: float = 1.0,
) -> Translations:  # fmt: skip
    """Learn how the words of a side, `said`, translate those of the other: 1 is the target."""
    a, b = pairs.words[1 - said], pairs.words[said]
    place, ids, size = pairs.places[said], sides[said].ids, sides[said].size
    # One is added to each count, because a word may be absent from the rows that are learned from.
    frequency = (np.bincount(ids, minlength=size) + 1) / (len(ids) + size)
    probability = frequency[b]
    for _ in range(ITERATIONS):
        weight = pairs.of_links(probability) * likely
        sums = np.bincount(place, weight, minlength=len(ids)) + none * frequency[ids]
        counts = np.add.reduceat(weight / sums[place], pairs.first)
        totals = np.bincount(a, counts, minlength=sides[1 - said].size)
        probability = counts / totals[a]
    unknown = PRIOR / (totals + PRIOR)
    smoothed = counts / (totals + PRIOR)[a] + unknown[a] * frequency[b]
    return Translations(smoothed, unknown, frequency)


MOST_LINKS = 16_000_000
"""The largest number of links, pairs of tokens of a row, that translations are learned from."""

FEW_LINKS = 1_000_000
"""The largest number of links that the precision of positions is learned from."""

MOST_OF_A_ROW = 250_000
"""Rows with more links, as of two sides with 500 tokens each, are not learned from."""

_ROUNDS = 2
"""The number of rounds in which the precision is learned. Each round begins with the precision of
the round before, and nearly always finds a larger one. Four rounds align captions with a known
reordering worse (docs/guided_alignment.md)."""

_MOST_PRECISE = 14.0
"""The largest precision of positions, as in fast_align."""

_LEAST = 1e-4
"""Translations with a smaller probability are forgotten, so that the others are found faster."""

_NONE = 0.08
"""The probability that a target token translates no source token (Dyer et al. 2013: p_0)."""

_SEED = 1


class WordAligner:
    """Alignments of target tokens to source tokens.

    Args:
        examples: The pairs to learn from. Random rows of a large corpus are read.
        vocabulary: A number larger than all ids of both sides.
        check: A function that is called every few seconds, and may raise an exception to stop.

    Attributes:
        precision: The precision of positions: the probability of a link falls by exp(-precision)
            over the length of the sentence. It is about 0 if the order of the tokens is reversed.

    Reference:
        Brown et al. 1993, section 4.2; Dyer et al. 2013, "A Simple, Fast, and Effective
        Reparameterization of IBM Model 2", section 2.
    """

    def __init__(
        self, examples: Measured, vocabulary: int, check: Callable[[], None] = lambda: None
    ) -> None:
        self.precision = _fitted_precision(_Sample(examples, vocabulary, FEW_LINKS), check)
        sample = _Sample(examples, vocabulary, MOST_LINKS)
        check()
        found = sample.learned(sample.likely(self.precision))
        kept = found.probabilities >= _LEAST
        self._pairs = sample.pairs
        self._pairs.forget(kept)
        self._probabilities = found.probabilities[kept].astype(np.float32)
        self._frequency = found.frequency.astype(np.float32)
        check()

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
        source_tokens, target_tokens = source != PAD, target != PAD
        places = [
            (np.arange(tokens.shape[1], dtype=np.float32) + 0.5) / tokens.sum(axis=1, keepdims=True)
            for tokens in (source_tokens, target_tokens)
        ]
        near = _near(places[0][:, None, :], places[1][:, :, None], self.precision)
        near *= source_tokens[:, None, :]
        likely = (1 - _NONE) * near / near.sum(axis=2, keepdims=True)
        index, known = self._pairs.find(source[:, None, :], target[:, :, None])
        weight = likely * np.where(known, self._probabilities[index], 0)
        none = _NONE * self._frequency[target][:, :, None]
        return np.asarray(weight / (weight.sum(axis=2, keepdims=True) + none), np.float32)


class _Sample:
    """Random rows of a corpus, with `most` links or fewer, and their links.

    An empty pair is added, so that there is at least the link of two ends.
    """

    def __init__(self, examples: Measured, vocabulary: int, most: int) -> None:
        rows = _some(examples, _random_rows(examples.lengths, most))
        self._sides = sides = _ended(rows.source, vocabulary), _ended(rows.target, vocabulary)
        self.pairs = WordPairs(sides, vocabulary)
        source, self.target_place = self.pairs.places
        self.places = _places(sides[0])[source], _places(sides[1])[self.target_place]

    def likely(self, precision: float) -> np.ndarray:
        """Return the probability of each link by the places of its tokens."""
        near = _near(*self.places, precision)
        return np.asarray((1 - _NONE) * near / self.of_target_token(near))

    def learned(self, likely: np.ndarray) -> Translations:
        """Return the probabilities of translations."""
        return learn(self.pairs, self._sides, 1, likely=likely, none=_NONE)

    def linked(self, likely: np.ndarray) -> np.ndarray:
        """Return the probability of each link by its tokens and their places."""
        found = self.learned(likely)
        weight = likely * self.pairs.of_links(found.probabilities)
        none = _NONE * found.frequency[self._sides[1].ids][self.target_place]
        return np.asarray(weight / (self.of_target_token(weight) + none))

    def of_target_token(self, values: np.ndarray) -> np.ndarray:
        """Return, for each link, the sum of the values of all links of its target token."""
        return np.asarray(np.bincount(self.target_place, values)[self.target_place])


def _some(examples: Measured, rows: np.ndarray) -> Examples:
    """Return some rows of a corpus as arrays."""
    if not isinstance(examples, Examples):
        return Examples.of(examples[int(row)] for row in rows)
    return Examples(examples.source.some(rows), examples.target.some(rows))


def _random_rows(lengths: np.ndarray, most: int) -> np.ndarray:
    """Return random rows that together have `most` links or fewer, in order."""
    links = (lengths.astype(np.int64) + 1).prod(axis=1)
    order = np.random.default_rng(_SEED).permutation(len(links))
    order = order[links[order] <= MOST_OF_A_ROW]
    return np.sort(order[np.cumsum(links[order]) <= most])


def _fitted_precision(sample: _Sample, check: Callable[[], None]) -> float:
    """Return the precision of positions.

    Linked tokens have a mean distance. It is compared with the mean distance that positions alone
    would give, which falls with the precision.
    """
    distance = np.abs(sample.places[0] - sample.places[1])
    precision = 0.0
    for _ in range(_ROUNDS):
        check()
        linked = sample.linked(sample.likely(precision))
        found, share = np.vdot(linked, distance), sample.of_target_token(linked)
        low, high = 0.0, _MOST_PRECISE
        for _ in range(10):
            precision = (low + high) / 2
            expected = np.vdot(sample.likely(precision) / (1 - _NONE) * share, distance)
            low, high = (precision, high) if expected > found else (low, precision)
    return precision


def _near(source: np.ndarray, target: np.ndarray, precision: float) -> np.ndarray:
    """Return how probable links are by the places of their tokens, up to a factor."""
    return np.asarray(np.exp(-precision * np.abs(source - target)))


def _ended(side: Side, size: int) -> WordIds:
    """Return the ids of all rows, each with the end token, and an empty row."""
    ends = np.append(side.ends, len(side.ids))
    ids = np.insert(side.ids.astype(np.int64), ends, EOS)
    return WordIds(ids, ends + np.arange(1, len(ends) + 1), size)


def _places(words: WordIds) -> np.ndarray:
    """Return the place of each word in its row, from 0 to 1."""
    lengths = np.repeat(words.lengths, words.lengths)
    within = np.arange(len(words.ids)) - np.repeat(words.ends - words.lengths, words.lengths)
    return np.asarray((within + 0.5) / lengths, np.float32)
