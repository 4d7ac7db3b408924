"""Minimum Bayes risk: choose the sample that is most like all samples."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from crosshead.errors import ConfigError

Utility = Callable[[str, str], float]
"""A function of a candidate and a reference: how good the candidate is if the reference is
right."""


@dataclass(frozen=True)
class MinimumRisk:
    """Settings of a search for the output with the lowest Bayes risk.

    Attributes:
        samples: The number of samples that are drawn for each source.
        utility: The function that compares two texts. Larger values are better.

    Raises:
        ConfigError: If `samples` is below 1.
    """

    samples: int
    utility: Utility

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise ConfigError(f"samples: expected 1 or more, found {self.samples}; draw 32 or more")


class Ranked(NamedTuple):
    """A candidate's place in a list, and its mean utility."""

    place: int
    utility: float


def rank_by_utility(
    candidates: Sequence[str], weights: Sequence[float], utility: Utility
) -> list[Ranked]:
    """Return the candidates by their mean utility, the best first.

    The mean is over all candidates as references, the candidate itself included, as in the
    reference. It estimates the
    expected utility if the candidates are the different samples of a model and the weights say how
    often each was drawn. The first of equally good candidates comes first. The order of the
    candidates changes nothing else, to the bit.

    Reference:
        Eikema and Aziz 2020.
    """
    references = list(zip(candidates, weights, strict=True))
    total = math.fsum(weights)
    means = [
        math.fsum(weight * utility(candidate, reference) for reference, weight in references)
        / total
        for candidate in candidates
    ]
    ranked = [Ranked(place, mean) for place, mean in enumerate(means)]
    return sorted(ranked, key=lambda each: each.utility, reverse=True)
