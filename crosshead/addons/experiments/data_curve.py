"""The data curve, scores over the amount of data: runs on halves of the pairs, and a power law."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from crosshead.addons.experiments.subsets import Experiment, Outcome, Report, Subset
from crosshead.recipe.recipe import Recipe
from crosshead.tasks.translation.task import BLEU
from crosshead.tasks.usability import LOW_BLEU

SHARES = {"half": 1 / 2, "quarter": 1 / 4}
"""The shares of the training pairs, besides all of them. Smaller ones would mislead the law: scores
of very few pairs often rise more slowly than by a power law."""

LEAST_PAIRS = 400
"""A quarter of fewer pairs is too small to train on."""

DRAWS = 2000
"""The number of times that the scores are drawn anew from their intervals."""

LARGEST = 100.0
"""The largest score of BLEU and chrF."""

SEED = 12345
"""The seed of the draws."""

_EXPONENTS = np.geomspace(0.02, 2.0, 60)
"""The exponents that are tried."""

_MISFIT = 3.84
"""The largest sum of squared errors, in standard deviations, of a law that fits the scores. It is
the 95 % quantile of chi-squared with one degree of freedom. If any exponent were allowed, some law
would go through three rising or falling scores. The exponents are bounded, so all laws may miss."""

_LEAST_DEVIATION = 0.05
"""The least standard deviation of a score. Scores are per cent; a score of 0 has no interval."""

_WIDTH = 2 * 1.959964
"""The width of a 95 % interval in standard deviations."""


@dataclass(frozen=True)
class ScoreOfPairs:
    """A score of a model that was trained on a number of pairs, with its 95 % interval."""

    pairs: int
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class PowerLaw:
    """Power laws `limit - factor * pairs ** -exponent`: the fitted one, and those of the draws."""

    limits: np.ndarray
    """The limit of each law, "N"; the first law fits the measured scores."""
    factors: np.ndarray
    exponents: np.ndarray
    fits: bool
    """False if the fitted law misses the scores by more than their intervals explain."""

    def values(self, pairs: float) -> np.ndarray:
        """Return the score of each law, "N"; at most 100, the largest score."""
        return np.minimum(self.limits - self.factors * pairs**-self.exponents, LARGEST)


@dataclass(frozen=True)
class Gain:
    """The change of a score from more data, with its 95 % interval."""

    value: float
    low: float
    high: float
    fits: bool
    """True if the law fits the scores."""

    @property
    def is_certain(self) -> bool:
        """True if the law fits, and the interval excludes that more data change nothing."""
        return self.fits and (self.low > 0 or self.high < 0)


def fit_power_law(measured: Sequence[ScoreOfPairs]) -> PowerLaw:
    """Fit power laws to scores, and to scores drawn anew from their intervals.

    For each exponent, limit and factor are a weighted least-squares fit; the exponent with the
    smallest error is taken.

    Reference:
        Kolachina et al. 2012, Table 1 (Pow3).
    """
    measured = sorted(measured, key=lambda each: each.pairs)
    pairs = np.array([each.pairs for each in measured], float)
    values = np.array([each.value for each in measured])
    deviations = np.array([(each.high - each.low) / _WIDTH for each in measured])
    deviations = np.maximum(deviations, _LEAST_DEVIATION)
    noise = np.random.default_rng(SEED).standard_normal((DRAWS, len(measured)))
    scores = np.concatenate([values[None], values + noise * deviations])
    best = np.full(len(scores), np.inf)
    limits, factors, exponents = (np.zeros(len(scores)) for _ in range(3))
    for exponent in _EXPONENTS:
        # Relative to the largest set, so that the columns have similar sizes.
        columns = np.stack([np.ones_like(pairs), -((pairs / pairs.max()) ** -exponent)], axis=1)
        weighted = columns / deviations[:, None]
        solution = scores / deviations @ np.linalg.pinv(weighted).T
        errors = (((scores - solution @ columns.T) / deviations) ** 2).sum(axis=1)
        better = errors < best
        best[better] = errors[better]
        limits[better] = solution[better, 0]
        factors[better] = solution[better, 1] * pairs.max() ** exponent
        exponents[better] = exponent
    return PowerLaw(limits, factors, exponents, fits=bool(best[0] <= _MISFIT))


def gain(law: PowerLaw, now: ScoreOfPairs, times: float = 2.0) -> Gain:
    """Return what more data would bring by a power law.

    A law may be below the measured score. So the gain is also limited to what this score lacks of
    the largest one.
    """
    room = max(0.0, LARGEST - now.value)  # rounding makes a BLEU of 100 slightly larger
    gains = np.minimum(law.values(times * now.pairs) - law.values(now.pairs), room)
    low, high = np.quantile(gains[1:], [0.025, 0.975])
    return Gain(float(gains[0]), float(low), float(high), law.fits)


@dataclass(frozen=True)
class MetricCurve:
    """The scores of one metric by the number of training pairs."""

    metric: str
    measured: Sequence[ScoreOfPairs]
    """The scores, by rising number of pairs."""
    law: PowerLaw
    is_too_low: bool = False
    """True if the models are not usable, so that their scores say nothing about more data."""

    def sentence(self) -> str:
        """Return what twice the data would likely bring."""
        found = gain(self.law, self.measured[-1])
        data = f"twice the data ({2 * self.measured[-1].pairs:,} pairs)"
        if self.is_too_low:
            why = f"all of these runs have a BLEU below {LOW_BLEU:g}"
        elif not found.fits:
            why = "no power law fits these scores"
        elif found.high < 0:
            why = "the model of all pairs is worse than one of fewer pairs"
        else:
            change = f"{found.value:+.1f} (95 %: {found.low:+.1f} to {found.high:+.1f})"
            unclear = "" if found.is_certain else ", so these runs do not show that it would help"
            return f"T{data[1:]} would likely change {self.metric} by {change}{unclear}."
        return f"What {data} would bring in {self.metric} cannot be told: {why}; train for longer."


def curve_subsets(recipe: Recipe) -> list[Subset]:
    """Return the subsets of the pairs of a recipe."""
    given = getattr(recipe.data, "share", 1.0)
    return [
        Subset(name, f"curve, a {name} of the pairs", {"share": given * share})
        for name, share in SHARES.items()
    ]


def curve_report(whole: Outcome, found: dict[str, Outcome]) -> Report:
    """Fit a law through the scores."""
    outcomes = dict(reversed(found.items())) | {"all": whole}
    return Report(outcomes, [each.sentence() for each in metric_curves(outcomes)])


CURVE = Experiment("curve", "curve", len(SHARES), LEAST_PAIRS, curve_subsets, curve_report)
"""The experiment of the data curve."""


def metric_curves(outcomes: Mapping[str, Outcome]) -> list[MetricCurve]:
    """Return the curve of each metric, with the law through its scores, given the smallest first.

    If BLEU is low in all runs, no curve says anything. A BLEU of 0 in all runs may come from texts
    that are too short for it, so the other metrics keep their curves.
    """
    measured = {
        scores[0].metric: [
            ScoreOfPairs(each.pairs, score.value, score.low or 0.0, score.high or 0.0)
            for each, score in zip(outcomes.values(), scores, strict=True)
        ]
        for scores in zip(*(each.scores for each in outcomes.values()), strict=True)
    }
    best = max((each.value for each in measured.get(BLEU.label, ())), default=LOW_BLEU)
    is_too_low = best < LOW_BLEU
    return [
        MetricCurve(
            metric, scores, fit_power_law(scores), is_too_low and (best > 0 or metric == BLEU.label)
        )
        for metric, scores in measured.items()
    ]
