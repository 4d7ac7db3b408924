"""Scores over a test set, and their intervals by bootstrap over its parts."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

RESAMPLES = 1000
"""The number of bootstrap resamples. The signature contains it."""

SEED = 12345
"""The seed of the bootstrap, sacreBLEU's default. The signature contains it."""


@dataclass(frozen=True)
class CorpusScore:
    """A score over a test set, with its 95 % bootstrap interval and its signature.

    The signature of translation metrics is sacreBLEU's. Other metrics have a signature of the same
    form.
    """

    metric: str
    value: float
    low: float
    high: float
    signature: str


def bootstrapped(
    metric: str,
    parts: Sequence[tuple[float, int, int]],
    value: Callable[[Any, Any, Any], float],
    signature: str,
    shown: Callable[[float], float] = float,
) -> CorpusScore:
    """Return a score with its interval, computed from sums over the parts of a test set.

    The ends of the interval are found before `shown` is applied, because they lie between two
    resamples, and one may be infinite afterwards.
    """
    columns = [np.array(column) for column in zip(*parts, strict=True)]
    rng = np.random.default_rng(SEED)
    resamples = (rng.integers(len(parts), size=len(parts)) for _ in range(RESAMPLES))
    drawn = [value(*(column[rows].sum() for column in columns)) for rows in resamples]
    low, high = map(float, np.percentile(drawn, [2.5, 97.5]))
    whole = float(value(math.fsum(columns[0]), *(column.sum() for column in columns[1:])))
    return CorpusScore(metric, shown(whole), shown(low), shown(high), signature)


def accuracy(nats: float, cases: int, hits: int) -> float:
    """Return the share of hits in per cent, from the sums that `bootstrapped` gives."""
    return 100 * hits / cases
