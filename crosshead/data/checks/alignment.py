"""Pairs whose sides do not translate each other, one by one and in shifted stretches.

A lexicon scores every pair, and the same sources with the targets of other rows. The scores of such
random pairs are those of misaligned pairs. So the distribution of all scores is a mixture of a
known part, the misaligned pairs, and of the aligned pairs. A logistic regression gives each pair
one value. The share of misaligned pairs is twice the fraction of pairs above the median of the
random pairs. The odds come from the ratio of both distributions, made monotone. A hidden Markov
model then takes neighbours into account, because a line that is missing on one side shifts all
lines after it.

Shifted pairs teach the lexicon wrong translations. So if stretches are shifted, or the text as a
whole, the lexicon is learned again from the repaired pairs, and all pairs are scored again.
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
_LEAST_SHARE, _LARGEST_SHARE = 1e-3, 0.95
"""The smallest and the largest share of misaligned pairs that is assumed."""
_LARGEST_ODDS = 8.0
"""The largest log-odds that one row contributes, because no model of a row is perfect."""
_BEGIN, _STAY = 1e-4, 0.98
"""The probabilities that a stretch of misaligned pairs begins at a row, and that it continues."""
_SHIFTS = (-1, 1, -2, 2, -3, 3)
_SHORTEST_STRETCH, GAP = 4, 3
"""The smallest number of rows of a stretch, and the largest distance between two of them."""
_UNFIT = -4.0
"""The smallest log-odds that a row of a stretch contributes, because a stretch may contain
misaligned pairs."""
_MOST_REPAIRS = 2
"""The largest number of times that the lexicon is learned again from repaired pairs."""
_MOST_TRIED = 3_000
"""The largest number of pairs by which shifts of the whole text are compared."""
MOST_MISALIGNED = 0.2
"""The share of misaligned pairs from which the sides probably do not belong together. Clean
Multi30k has an estimated share of 0.001, even if there are only 500 pairs to learn from. With 10 %
of random pairs it is 0.06 to 0.1."""
_CLEARLY_LESS = 0.25
"""The difference of the misaligned share from which another shift of the whole text is better.
Random pairs differ by 0.1 between shifts, by chance."""


class Alignment(NamedTuple):
    """The misaligned pairs of a text, and two facts about the text as a whole."""

    suspects: list[Suspect]
    share: float
    """The estimated share of misaligned pairs. It includes pairs that cannot be told one by one."""
    shift: int
    """The shift of most pairs, or 0. A shift of 1 means that the target of row n translates the
    source of row n + 1."""


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


class _Mixture(NamedTuple):
    """The distributions of the values of aligned and misaligned pairs."""

    mean: np.ndarray
    spread: np.ndarray
    weights: np.ndarray
    """The weights of the standardised features, whose sum is the value of a pair."""
    median: float
    """The median value of misaligned pairs."""
    edges: np.ndarray
    """The bounds of the bins of values."""
    odds: np.ndarray
    """The log-odds of each bin, misaligned to aligned. They do not contain the share."""

    def values(self, features: np.ndarray) -> np.ndarray:
        return np.asarray((features - self.mean) / self.spread @ self.weights)

    def share(self, values: np.ndarray) -> float:
        """Return the share of misaligned pairs.

        Half of the misaligned pairs are above their median, and no aligned pairs.
        """
        found = 2 * float((values > self.median).mean())
        return min(max(found, _LEAST_SHARE), _LARGEST_SHARE)


class _Model:
    """Lexicons learned from pairs of places, and the distributions of the scores by them.

    There are several lexicons, each learned from a part of the pairs. If a lexicon scored the pairs
    that it was learned from, misaligned pairs would seem aligned.

    Args:
        sides: The words of both sides.
        left: The source of each pair.
        right: The target of each pair.
    """

    def __init__(self, sides: _Sides, left: np.ndarray, right: np.ndarray) -> None:
        self.sides = sides
        number = _FOLDS if len(right) < _MANY_ROWS else _FOLDS_OF_MANY
        fold = np.arange(len(right)) % number
        self._fold = np.zeros(len(sides.target.ends), np.int8)
        """The lexicon that is not learned from a target."""
        self._fold[right] = fold
        self._lexicons = []
        for each in range(number):
            others = np.flatnonzero(fold != each)
            chosen = others[:: len(others) // MOST_LEARNED + 1]
            words = sides.source.some(left[chosen]), sides.target.some(right[chosen])
            self._lexicons.append(Lexicon(*words))
        random = []
        for each in range(number):
            shuffled = np.random.default_rng(_SEED).permutation(right[fold == each])[:MOST_LEARNED]
            random.append(self.sides.features(self._lexicons[each], shuffled, np.roll(shuffled, 1)))
        self.mixture = _mixture(self.features(left, right), np.concatenate(random))

    def features(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return the features of pairs, by the lexicons that are not learned from their targets."""
        found = np.empty((len(right), _FEATURES))
        for number, lexicon in enumerate(self._lexicons):
            rows = np.flatnonzero(self._fold[right] == number)
            found[rows] = self.sides.features(lexicon, left[rows], right[rows])
        return found

    def judged(self, left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the log-odds of each pair, misaligned to aligned, and the misaligned share."""
        values = self.mixture.values(self.features(left, right))
        odds = self.mixture.odds[np.searchsorted(self.mixture.edges, values)]
        empty = (self.sides.source.lengths[left] == 0) | (self.sides.target.lengths[right] == 0)
        odds[empty] = 0.0
        return odds, self.mixture.share(values)


def misaligned(source: Sequence[str], target: Sequence[str], rows: np.ndarray) -> Alignment:
    """Return the pairs whose sides probably do not translate each other.

    The score of a pair is the probability that its sides do not belong together.

    Args:
        source: All sources.
        target: All targets.
        rows: The sorted rows to compare. Other rows were already reported by other checks.

    Returns:
        The suspect pairs. There are none if there are fewer than `LEAST_ROWS` rows to compare.
    """
    if len(rows) < LEAST_ROWS:
        return Alignment([], 0.0, 0)
    sides = _Sides(
        *(
            stemmed_words((side[row] for row in rows.tolist()), _LEAST_COUNT)
            for side in (source, target)
        )
    )
    places = np.arange(len(rows))
    model = _Model(sides, places, places)
    odds, share = model.judged(places, places)
    shift, labels = 0, np.zeros(len(rows), np.int64)
    if share > MOST_MISALIGNED and (shift := _whole_shift(sides, rows)):
        labels[:] = shift
        model = _repaired(sides, rows, labels)
        odds, share = model.judged(places, places)
    for repairs in range(_MOST_REPAIRS + 1):
        probability = _smoothed(odds, share)
        found = np.flatnonzero(probability > 0.5)
        before, labels = labels, _shifts(model, rows, found, odds)
        if repairs == _MOST_REPAIRS or (labels == before).all():
            break
        model = _repaired(sides, rows, labels)
        odds, share = model.judged(places, places)
    suspects = [
        Suspect(
            int(rows[place]),
            "misaligned",
            float(probability[place]),
            shift_reason(int(labels[place])),
        )
        for place in found
    ]
    return Alignment(suspects, share, shift)


def _repaired(sides: _Sides, rows: np.ndarray, shifts: np.ndarray) -> _Model:
    """Return the model that is learned from the pairs after the shifts are repaired."""
    left = _moved(rows, np.arange(len(rows)), shifts)
    right = np.flatnonzero(left >= 0)
    return _Model(sides, left[right], right)


def _moved(rows: np.ndarray, places: np.ndarray, shift: np.ndarray | int) -> np.ndarray:
    """Return the place of the row that is `shift` rows below each place, or -1 for none."""
    wanted = rows[places] + shift
    found = np.minimum(np.searchsorted(rows, wanted), len(rows) - 1)
    return np.where(rows[found] == wanted, found, -1)


def _whole_shift(sides: _Sides, rows: np.ndarray) -> int:
    """Return the shift that repairs most pairs of the text, or 0."""
    tried = np.arange(len(rows))[:: len(rows) // _MOST_TRIED + 1]
    shares = {}
    for shift in (0, *_SHIFTS):
        left = _moved(rows, tried, shift)
        left, right = left[left >= 0], tried[left >= 0]
        shares[shift] = _Model(sides, left, right).judged(left, right)[1]
    best = min(shares, key=lambda shift: shares[shift])
    return best if shares[best] < shares[0] - _CLEARLY_LESS else 0


def _mixture(real: np.ndarray, random: np.ndarray) -> _Mixture:
    """Return the distributions of the values of pairs.

    Args:
        real: The features of real pairs, most of them aligned, "N F".
        random: The features of random pairs, "M F".
    """
    mean, spread = real.mean(0), real.std(0) + 1e-9
    mean[0], spread[0] = 0.0, 1.0
    weights = _regression((random - mean) / spread, (real - mean) / spread)
    nothing = np.zeros(0)
    mixture = _Mixture(mean, spread, weights, 0.0, nothing, nothing)
    value, random_value = mixture.values(real), mixture.values(random)
    mixture = mixture._replace(median=float(np.median(random_value)))
    share = mixture.share(value)
    edges = np.quantile(np.concatenate([value, random_value]), np.linspace(0, 1, _BINS + 1)[1:-1])
    place, random_place = np.searchsorted(edges, value), np.searchsorted(edges, random_value)
    real_share = np.bincount(place, minlength=_BINS) / len(value)
    random_share = np.bincount(random_place, minlength=_BINS) / len(random_value)
    both = real_share + random_share
    rising, there = np.zeros(_BINS), both > 0  # equal values leave bins empty
    rising[there] = _rising(random_share[there] / both[there], both[there])
    rising = np.clip(rising, 1e-9, 1 - 1e-9)
    aligned = np.maximum((1 - rising) / rising - share, 1e-9) / (1 - share)
    return mixture._replace(edges=edges, odds=-np.log(aligned))


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


def _shifts(model: _Model, rows: np.ndarray, found: np.ndarray, odds: np.ndarray) -> np.ndarray:
    """Return the shift of each place: 0, or the one that repairs the stretch of a found place.

    Args:
        model: The model of the scores.
        rows: The rows of all places.
        found: The places of misaligned pairs.
        odds: The log-odds of all places, misaligned to aligned, without a shift.
    """
    runs = np.split(found, np.flatnonzero(np.diff(found) > GAP) + 1)
    runs = [run for run in runs if len(run) >= _SHORTEST_STRETCH]
    shifts = np.zeros(len(odds), np.int64)
    if not runs:
        return shifts
    long = np.concatenate(runs)
    evidence = np.zeros((len(odds), len(_SHIFTS) + 1))
    evidence[long, 0] = np.clip(-odds[long], 0, _LARGEST_ODDS)
    for state, shift in enumerate(_SHIFTS, 1):
        left = _moved(rows, long, shift)
        places, left = long[left >= 0], left[left >= 0]
        evidence[places, state] = np.clip(-model.judged(left, places)[0], _UNFIT, _LARGEST_ODDS)
    states = (0, *_SHIFTS)
    for run in runs:
        path = _best_path(evidence[run])
        for part in np.split(np.arange(len(run)), np.flatnonzero(np.diff(path)) + 1):
            if len(part) >= _SHORTEST_STRETCH:
                shifts[run[part]] = states[path[part[0]]]
    return shifts


def _best_path(evidence: np.ndarray) -> np.ndarray:
    """Return the most probable state of each row, by the Viterbi algorithm.

    State 0 is no shift, and the text begins and ends with it. A change of the state has the
    probability `_BEGIN`.

    Args:
        evidence: The log-likelihood of each row in each state, "N S".
    """
    change = np.log(_BEGIN)
    score = np.full(evidence.shape[1], change)
    score[0] = 0.0
    came = np.empty(evidence.shape, np.int64)
    for row, each in enumerate(evidence):
        best = int(np.argmax(score))
        stays = score >= score[best] + change
        came[row] = np.where(stays, np.arange(len(score)), best)
        score = np.where(stays, score, score[best] + change) + each
    score[1:] += change
    path = np.empty(len(evidence), np.int64)
    state = int(np.argmax(score))
    for row in range(len(evidence) - 1, -1, -1):
        path[row] = state
        state = int(came[row, state])
    return path


def shift_reason(shift: int) -> str:
    """Return the reason for a misaligned pair in a stretch with a shift, or 0 for none."""
    if not shift:
        return APART
    where = "below" if shift > 0 else "above"
    lines = "line" if abs(shift) == 1 else "lines"
    return f"the target translates the source {abs(shift)} {lines} {where}"
