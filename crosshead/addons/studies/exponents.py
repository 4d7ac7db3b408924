"""Powers by which a quantity grows: a line through logarithms, with its interval."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

Z = 1.959964
"""Half width of the central 95 % of a normal distribution, in standard deviations."""


class Exponent(NamedTuple):
    """A power, and half the width of its interval of 95 %; NaN if no measurement is left for it."""

    value: float
    margin: float

    def __str__(self) -> str:
        margin = "" if math.isnan(self.margin) else f" ± {self.margin:.2f}"
        return f"{self.value:.2f}{margin}"


def exponents(sizes: Sequence[Sequence[float]], values: Sequence[float]) -> list[Exponent]:
    """Return the powers p of `value = c size_1^p_1 size_2^p_2 ...`, one for each column of `sizes`.

    They are fitted by least squares on the logarithms. The intervals come from linear regression:
    they measure the distance from a power law, not the distance to another machine.
    """
    columns = np.log(np.asarray(sizes, dtype=np.float64))
    design = np.column_stack([np.ones(len(columns)), columns])
    logs = np.log(np.asarray(values, dtype=np.float64))
    inverse = np.linalg.pinv(design)
    found = inverse @ logs
    free = len(logs) - design.shape[1]
    if free < 1:
        margins = np.full(len(found), np.nan)
    else:
        variance = np.square(logs - design @ found).sum() / free
        margins = student(free) * np.sqrt(variance * np.diag(inverse @ inverse.T))
    return [Exponent(float(p), float(m)) for p, m in zip(found[1:], margins[1:], strict=True)]


def student(free: int) -> float:
    """Return the number of standard errors around the mean that hold 95 %, by degrees of freedom.

    It is the normal distribution's number, corrected (Abramowitz and Stegun 1964, 26.7.5): within a
    hundredth from 3 degrees of freedom on, and exact for one and two.
    """
    if free < 3:
        return {1: 12.7062, 2: 4.30265}[free]
    corrections = (
        (Z**3 + Z) / 4,
        (5 * Z**5 + 16 * Z**3 + 3 * Z) / 96,
        (3 * Z**7 + 19 * Z**5 + 17 * Z**3 - 15 * Z) / 384,
        (79 * Z**9 + 776 * Z**7 + 1482 * Z**5 - 1920 * Z**3 - 945 * Z) / 92160,
    )
    return float(Z + sum(each / free**power for power, each in enumerate(corrections, 1)))
