"""The odds of pairs of texts to be misaligned, by the words that translate each other.

A lexicon scores every pair, and random pairs: the same sources with the targets of other rows.
Misaligned pairs have the same distribution of scores as random pairs. A logistic regression that
tells random pairs from real ones turns the scores of a pair into one value. The share of misaligned
pairs is twice the fraction of real pairs whose value is above the median of the random pairs. The
odds of a pair come from the ratio of both distributions at its value. They are made to rise with
the value.

The lexicon is IBM model 1 in both directions (`text/parallel/word_aligner.py`): each word of one
side translates a word of the opposite side, or none, all with the same probability.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from crosshead.text.parallel.examples import scrambled
from crosshead.text.parallel.spooled import spooled
from crosshead.text.parallel.word_aligner import WordIds, WordPairs, learn, links
from crosshead.text.scripts import blocks, word_hashes

MOST_LEARNED, _MOST_LINKS = 20_000, 8_000_000
"""The largest number of pairs, and about the largest number of links, that a lexicon is learned
from. Pairs of 20 words have 8 million links."""

MOST_WORDS = 80
"""The largest number of words of a line that are compared; the rest of the line is ignored."""

_STEM = 6
"""The number of letters of a word that count. So most inflected forms of a word are one word."""

_STEMS = 1 << 22
"""Words are counted by this many values of their hash, so that any text needs the same memory. Two
words with one value count as one: few do, unless a text has about a million different words."""

_LINKS = 1_000_000
"""The number of links, pairs of words of a row, that are scored at a time."""

_LINES = 1_000
"""The number of lines whose rare words are left out at a time."""

_MOST_FITTED = 250_000
"""The largest number of pairs that the distributions are fitted to, and judged at a time."""

_SEED = 1
_FEATURES = 5
_STEPS, _BINS = 10, 200
_MANY_ROWS, _FOLDS, _FOLDS_OF_MANY = 9_000, 5, 2
_LEAST_SHARE, _LARGEST_SHARE = 1e-3, 0.95
"""The smallest and the largest share of misaligned pairs that is assumed."""


def stemmed_words(lines: Iterable[str], least: int) -> WordIds:
    """Return the first `MOST_WORDS` words of each line, each cut to its first letters."""
    lengths = [np.zeros(0, np.int64)]

    def all_words() -> Iterator[bytes]:
        for block in blocks(lines):
            stems, row = word_hashes(block, _STEM)
            size = np.bincount(row, minlength=len(block))
            place = np.arange(len(row)) - (np.cumsum(size) - size)[row]
            lengths.append(np.minimum(size, MOST_WORDS))
            kept = scrambled(stems[place < MOST_WORDS]) % _STEMS
            yield kept.astype(np.int32).tobytes()

    ids = spooled(all_words(), np.int32)
    ends, counts = np.cumsum(np.concatenate(lengths)), np.zeros(_STEMS, np.int64)
    for first in range(0, len(ids), _LINKS):
        counts += np.bincount(ids[first : first + _LINKS], minlength=_STEMS)
    is_known = counts >= least
    known = np.cumsum(is_known, dtype=np.int32) - 1

    def known_words() -> Iterator[bytes]:
        begin = total = 0
        for first in range(0, len(ends), _LINES):
            of_lines = ends[first : first + _LINES]
            words = ids[begin : of_lines[-1]]
            before = np.concatenate([[0], np.cumsum(is_known[words])])
            begin, of_lines[:] = int(of_lines[-1]), total + before[of_lines - begin]
            total += int(before[-1])
            yield known[words[is_known[words]]].tobytes()

    return WordIds(spooled(known_words(), np.int32), ends, int(is_known.sum()))


class Lexicon:
    """Translations of words in both directions, learned from pairs."""

    def __init__(self, source: WordIds, target: WordIds) -> None:
        sides = source, target
        self._pairs = pairs = WordPairs(sides, target.size)
        self._backward, self._forward = (learn(pairs, sides, said) for said in (0, 1))
        pairs.forget(np.arange(len(pairs.words[0])))  # their links

    def scores(self, source: WordIds, target: WordIds) -> np.ndarray:
        """Return two scores for each pair: one for each direction.

        A score is the mean, over the words of a side, of the logarithm of the probability of the
        word given the opposite side, divided by its frequency.
        """
        places = links(source, target)
        index, known = self._pairs.find(source.ids[places[0]], target.ids[places[1]])
        unseen = np.flatnonzero(~known)
        left, right = (source, places[0]), (target, places[1])
        found = []
        for model, (given, given_places), (said, said_places) in (
            (self._forward, left, right), (self._backward, right, left),
        ):  # fmt: skip
            frequency = model.frequency[said.ids]
            probability = model.probabilities[index]
            unknown = model.unknown[given.ids[given_places[unseen]]]
            probability[unseen] = unknown * frequency[said_places[unseen]]
            mixed = np.bincount(said_places, probability, minlength=len(said.ids)) + frequency
            row = np.repeat(np.arange(len(said.ends)), said.lengths)
            gain = np.log(mixed / (given.lengths[row] + 1) / frequency)
            total = np.bincount(row, gain, minlength=len(said.ends))
            found.append(total / np.maximum(said.lengths, 1))
        return np.stack(found, axis=1)


def _blocks(links: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the rows in blocks of about `_LINKS` links."""
    number = np.cumsum(links) // _LINKS
    for block in np.split(np.arange(len(links)), np.flatnonzero(np.diff(number)) + 1):
        if len(block):
            yield block


class SideWords(NamedTuple):
    """The words of both sides."""

    source: WordIds
    target: WordIds

    def features(self, lexicon: Lexicon, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return the features of pairs, "P F"."""
        found = np.empty((len(left), _FEATURES))
        for rows in _blocks(
            self.source.lengths[left].astype(np.int64) * self.target.lengths[right]
        ):
            source, target = self.source.some(left[rows]), self.target.some(right[rows])
            scores = lexicon.scores(source, target)
            size = np.log1p(np.minimum(source.lengths, target.lengths))
            each = [np.ones(len(rows)), *scores.T, size, scores.sum(1) * size]
            found[rows] = np.stack(each, axis=1)
        return found


class Mixture:
    """The distributions of the values of aligned and misaligned pairs."""

    def __init__(self, real: np.ndarray, random: np.ndarray) -> None:
        self.mean, self.spread = real.mean(0), real.std(0) + 1e-9
        self.mean[0], self.spread[0] = 0.0, 1.0
        self.weights = _regression(*((each - self.mean) / self.spread for each in (random, real)))
        value, random_value = self.values(real), self.values(random)
        self.median = float(np.median(random_value))
        share = self.share(value)
        both = np.concatenate([value, random_value])
        self.edges = np.quantile(both, np.linspace(0, 1, _BINS + 1)[1:-1])
        real_share, random_share = (
            np.bincount(np.searchsorted(self.edges, each), minlength=_BINS) / len(each)
            for each in (value, random_value)
        )
        total = real_share + random_share
        rising, there = np.zeros(_BINS), total > 0  # equal values leave bins empty
        rising[there] = _rising(random_share[there] / total[there], total[there])
        rising = np.clip(rising, 1e-9, 1 - 1e-9)
        aligned = np.maximum((1 - rising) / rising - share, 1e-9) / (1 - share)
        self.odds = -np.log(aligned)
        """The log-odds of each bin, misaligned to aligned. They do not contain the share."""

    def values(self, features: np.ndarray) -> np.ndarray:
        """Return the value of each pair: the weighted sum of its standardised features."""
        return np.asarray((features - self.mean) / self.spread @ self.weights)

    def share(self, values: np.ndarray) -> float:
        """Return the share of misaligned pairs.

        Half of the misaligned pairs lie above the median of random pairs, and no aligned pair does.
        """
        found = 2 * float((values > self.median).mean())
        return min(max(found, _LEAST_SHARE), _LARGEST_SHARE)


class PairOdds:
    """The odds of pairs to be misaligned, by lexicons learned from pairs of places.

    There are several lexicons, each learned from a part of the pairs. If a lexicon scored the pairs
    that it was learned from, misaligned pairs would seem aligned.
    """

    def __init__(self, sides: SideWords, left: np.ndarray, right: np.ndarray) -> None:
        self.sides = sides
        number = _FOLDS if len(right) < _MANY_ROWS else _FOLDS_OF_MANY
        # Drawn at random, because a text may hold two kinds of pairs in turns.
        fold = np.random.default_rng(_SEED).permutation(len(right)).astype(np.int32) % number
        self._fold = np.zeros(len(sides.target.ends), np.int8)
        """The lexicon that is not learned from a target."""
        self._fold[right] = fold
        self._lexicons = []
        for each in range(number):
            others = np.flatnonzero(fold != each)
            lengths = sides.source.lengths[left[others]].astype(np.int64)
            links = int(lengths @ sides.target.lengths[right[others]])
            chosen = others[:: max(len(others) // MOST_LEARNED, links // _MOST_LINKS) + 1]
            words = sides.source.some(left[chosen]), sides.target.some(right[chosen])
            self._lexicons.append(Lexicon(*words))
        random = []
        for each in range(number):
            places = np.flatnonzero(fold == each)
            places = np.random.default_rng(_SEED).permutation(places)[:MOST_LEARNED]
            apart = left[places], right[np.roll(places, 1)]
            random.append(self.sides.features(self._lexicons[each], *apart))
        chosen = np.sort(np.random.default_rng(_SEED).permutation(len(right))[:_MOST_FITTED])
        left, right = left[chosen], right[chosen]
        self._scored = left, right, self._features(left, right)
        self.mixture = Mixture(self._scored[2], np.concatenate(random))

    def _features(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return the features of pairs, "P F", by the lexicons not learned from their targets."""
        found = np.empty((len(right), _FEATURES))
        for number, lexicon in enumerate(self._lexicons):
            rows = np.flatnonzero(self._fold[right] == number)
            found[rows] = self.sides.features(lexicon, left[rows], right[rows])
        return found

    def judged(self, left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the log-odds of each pair, misaligned to aligned, and the misaligned share."""
        values = np.empty(len(right))
        for first in range(0, len(right), _MOST_FITTED):
            part = slice(first, first + _MOST_FITTED)
            scored = all(map(np.array_equal, self._scored[:2], (left[part], right[part])))
            features = self._scored[2] if scored else self._features(left[part], right[part])
            values[part] = self.mixture.values(features)
        odds = self.mixture.odds[np.searchsorted(self.mixture.edges, values)]
        empty = (self.sides.source.lengths[left] == 0) | (self.sides.target.lengths[right] == 0)
        odds[empty] = 0.0
        return odds, self.mixture.share(values)


def _rising(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the rising sequence nearest to `values`, by pooling neighbours that fall."""
    pools: list[tuple[float, float, int]] = []
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        pool = (value, weight, 1)
        while pools and pools[-1][0] >= pool[0]:
            before = pools.pop()
            both = before[1] + pool[1]
            mean = (before[0] * before[1] + pool[0] * pool[1]) / both
            pool = (mean, both, before[2] + pool[2])
        pools.append(pool)
    return np.repeat([pool[0] for pool in pools], [pool[2] for pool in pools])


def _regression(random: np.ndarray, real: np.ndarray) -> np.ndarray:
    """Return weights that tell random pairs from real ones, by Newton's method."""
    features = np.concatenate([random, real])
    label = np.repeat([1.0, 0.0], [len(random), len(real)])
    ridge = np.eye(features.shape[1])
    weights = np.zeros(features.shape[1])
    for _ in range(_STEPS):
        probability = _sigmoid(features @ weights)
        gradient = features.T @ (label - probability) - weights
        curvature = probability * (1 - probability)
        weights = weights + np.linalg.solve(
            (features * curvature[:, None]).T @ features + ridge, gradient
        )
    return weights


def _sigmoid(odds: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-np.clip(odds, -50, 50))))
