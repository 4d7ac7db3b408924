"""Pairs whose sides do not translate each other, one by one and in shifted stretches.

A lexicon scores every pair, and the same sources with the targets of other rows. The scores of such
random pairs are those of misaligned pairs. So the distribution of all scores is a mixture of a
known part, the misaligned pairs, and of the aligned pairs. A logistic regression gives each pair
one value. The share of misaligned pairs is twice the fraction of pairs above the median of the
random pairs. The odds come from the ratio of both distributions, made monotone. A hidden Markov
model then takes neighbours into account, because a line that is missing on one side shifts all
lines after it.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from crosshead.data.checks.lexicon import Lexicon
from crosshead.data.checks.suspects import Suspect
from crosshead.data.checks.words import WordIds, stemmed_words

LEAST_ROWS = 500
"""The smallest number of pairs from which word translations can be learned."""

MOST_LEARNED = 20_000
"""The largest number of pairs that a lexicon is learned from."""

APART = "the sides do not translate each other"
"""The reason for a misaligned pair outside of shifted stretches."""

_SEED = 1
_FEATURES = 5
_STEPS, _BINS = 10, 200
_MANY_ROWS, _FOLDS, _FOLDS_OF_MANY = 10_000, 5, 2
_LEAST_COUNT = 3
"""The smallest number of times that a word occurs. Rarer words say nothing about alignment."""
_LEAST_SHARE = 1e-3
"""The smallest share of misaligned pairs that is assumed."""
_LARGEST_ODDS = 8.0
"""The largest log-odds that one row contributes, because no model of a row is perfect."""
_BEGIN, _STAY = 1e-4, 0.98
"""The probabilities that a stretch of misaligned pairs begins at a row, and that it continues."""
_SHIFTS = (0, -1, 1, -2, 2, -3, 3)
_SHORTEST_STRETCH, GAP = 4, 3
"""The smallest number of rows of a stretch, and the largest distance between two of them."""
_LEAST_GAIN = 1.0
"""The gain of the median score by which a shift must improve a stretch."""


class _Fold(NamedTuple):
    """Some of the rows, and a lexicon learned from other rows.

    If a lexicon scored the pairs that it was learned from, misaligned pairs would seem aligned.
    """

    rows: np.ndarray
    lexicon: Lexicon


class _Sides(NamedTuple):
    """The words of both sides."""

    source: WordIds
    target: WordIds

    def features(self, lexicon: Lexicon, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return the features of pairs made of the sources `left` and the targets `right`."""
        source, target = self.source.some(left), self.target.some(right)
        scores = lexicon.scores(source, target)
        size = np.log1p(np.minimum(source.lengths, target.lengths))
        return np.stack([np.ones(len(left)), *scores.T, size, scores.sum(1) * size], axis=1)


def misaligned(source: Sequence[str], target: Sequence[str], rows: np.ndarray) -> list[Suspect]:
    """Return the pairs whose sides probably do not translate each other.

    The score of a pair is the probability that its sides do not belong together.

    Args:
        source: All sources.
        target: All targets.
        rows: The sorted rows to compare. Other rows were already reported by other checks.

    Returns:
        The suspect pairs. The list is empty if there are fewer than `LEAST_ROWS` rows to compare.
    """
    if len(rows) < LEAST_ROWS:
        return []
    sides = _Sides(
        *(
            stemmed_words((side[row] for row in rows.tolist()), _LEAST_COUNT)
            for side in (source, target)
        )
    )
    folds = _folds(sides, len(rows))
    real = np.empty((len(rows), _FEATURES))
    random = []
    for fold in folds:
        real[fold.rows] = sides.features(fold.lexicon, fold.rows, fold.rows)
        shuffled = np.random.default_rng(_SEED).permutation(fold.rows)[:MOST_LEARNED]
        random.append(sides.features(fold.lexicon, shuffled, np.roll(shuffled, 1)))
    odds, share = _mixture(real, np.concatenate(random))
    odds[(sides.source.lengths == 0) | (sides.target.lengths == 0)] = 0.0
    probability = _smoothed(odds, share)
    found = np.flatnonzero(probability > 0.5)
    shifts = _shifts(sides, folds[0].lexicon, found)
    return [
        Suspect(int(rows[place]), "misaligned", float(probability[place]), _reason(shift))
        for place, shift in zip(found, shifts, strict=True)
    ]


def _folds(sides: _Sides, count: int) -> list[_Fold]:
    """Return folds of all rows, more of them if there are few rows to learn from."""
    number = _FOLDS if count < _MANY_ROWS else _FOLDS_OF_MANY
    fold = np.arange(count) % number
    folds = []
    for each in range(number):
        others = np.flatnonzero(fold != each)
        chosen = others[:: len(others) // MOST_LEARNED + 1]
        lexicon = Lexicon(sides.source.some(chosen), sides.target.some(chosen))
        folds.append(_Fold(np.flatnonzero(fold == each), lexicon))
    return folds


def _mixture(real: np.ndarray, random: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the log-odds of each real pair, misaligned to aligned, and the misaligned share.

    The odds do not contain the share.

    Args:
        real: The features of the real pairs, "N F".
        random: The features of random pairs, "M F".
    """
    mean, spread = real.mean(0), real.std(0) + 1e-9
    mean[0], spread[0] = 0.0, 1.0
    real, random = (real - mean) / spread, (random - mean) / spread
    weights = _regression(random, real)
    value, random_value = real @ weights, random @ weights
    # Half of the misaligned pairs are above the median of the random pairs, and no aligned pairs.
    share = max(_LEAST_SHARE, 2 * float((value > np.median(random_value)).mean()))
    edges = np.quantile(np.concatenate([value, random_value]), np.linspace(0, 1, _BINS + 1)[1:-1])
    place, random_place = np.searchsorted(edges, value), np.searchsorted(edges, random_value)
    real_share = np.bincount(place, minlength=_BINS) / len(value)
    random_share = np.bincount(random_place, minlength=_BINS) / len(random_value)
    both = real_share + random_share
    rising, there = np.zeros(_BINS), both > 0  # equal values leave bins empty
    rising[there] = _rising(random_share[there] / both[there], both[there])
    rising = np.clip(rising, 1e-9, 1 - 1e-9)
    aligned = np.maximum((1 - rising) / rising - share, 1e-9) / (1 - share)
    return -np.log(aligned)[place], share


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


def _smoothed(odds: np.ndarray, share: float) -> np.ndarray:
    """Return the probability of each row to be misaligned, given all rows.

    The states of a row are aligned, misaligned alone, and misaligned in a stretch. Forward and
    backward passes are those of Rabiner 1989, section III.

    Args:
        odds: The log-odds of each row, misaligned to aligned.
        share: The share of misaligned rows. It is taken for those outside of stretches, although
            it includes the others; this raises the probability of single rows a little.
    """
    likelihood = np.exp(np.clip(odds, -_LARGEST_ODDS, _LARGEST_ODDS)).tolist()
    alone = min(share, 0.5)
    outside = 1 - alone - _BEGIN, alone, _BEGIN
    inside = (1 - _STAY) * (1 - alone), (1 - _STAY) * alone, _STAY
    # Transitions do not depend on whether a row outside of stretches is aligned.
    states, forward = outside, []
    for each in likelihood:
        a, b, c = states[0], states[1] * each, states[2] * each
        total = a + b + c
        forward.append((a / total, b / total, c / total))
        out, in_stretch = (a + b) / total, c / total
        states = (
            out * outside[0] + in_stretch * inside[0],
            out * outside[1] + in_stretch * inside[1],
            out * outside[2] + in_stretch * inside[2],
        )
    probability = np.empty(len(likelihood))
    out = in_stretch = 1.0  # the likelihood of all later rows, by the state of this row
    for place in range(len(likelihood) - 1, -1, -1):
        a, b, c = forward[place]
        a, b, c = a * out, b * out, c * in_stretch
        probability[place] = (b + c) / (a + b + c)
        each = likelihood[place]
        later = out, out * each, in_stretch * each
        out = sum(p * q for p, q in zip(outside, later, strict=True))
        in_stretch = sum(p * q for p, q in zip(inside, later, strict=True))
        total = out + in_stretch
        out, in_stretch = out / total, in_stretch / total
    return probability


def _shifts(sides: _Sides, lexicon: Lexicon, found: np.ndarray) -> list[int]:
    """Return the shift that repairs the stretch of each found row, or 0.

    A shift of 1 means that the target of row n translates the source of row n + 1.
    """
    shifts: list[int] = []
    for run in np.split(found, np.flatnonzero(np.diff(found) > GAP) + 1):
        best = 0
        if len(run) >= _SHORTEST_STRETCH:
            gains = {}
            for shift in _SHIFTS:
                left = np.clip(run + shift, 0, len(sides.source.ends) - 1)
                gains[shift] = float(np.median(lexicon.scores(*_moved(sides, left, run)).sum(1)))
            best = max(gains, key=lambda shift: gains[shift])
            if gains[best] < gains[0] + _LEAST_GAIN:
                best = 0
        shifts += [best] * len(run)
    return shifts


def _moved(sides: _Sides, left: np.ndarray, right: np.ndarray) -> tuple[WordIds, WordIds]:
    return sides.source.some(left), sides.target.some(right)


def _reason(shift: int) -> str:
    """Return the reason for a misaligned pair in a stretch with a shift, or 0 for none."""
    if not shift:
        return APART
    where = "below" if shift > 0 else "above"
    lines = "line" if abs(shift) == 1 else "lines"
    return f"the target translates the source {abs(shift)} {lines} {where}"
