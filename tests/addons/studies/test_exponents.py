import math
from itertools import product

import numpy as np
import pytest

from crosshead.addons.studies.exponents import exponents, student


def test_a_power_law_is_found_without_doubt() -> None:
    sizes = list(product((1, 2, 5), (3, 7)))
    found = exponents(sizes, [4 * n**2 * d**0.5 for n, d in sizes])
    assert [each.value for each in found] == pytest.approx([2, 0.5])
    assert all(each.margin < 1e-12 for each in found)


def test_intervals_hold_the_power_as_often_as_they_say() -> None:
    random = np.random.default_rng(1)
    sizes = [[n] for n in (1, 2, 4, 8, 16)]
    held = 0
    for _ in range(1000):
        noise = np.exp(0.1 * random.standard_normal(len(sizes)))
        [found] = exponents(sizes, [n**1.5 * e for (n,), e in zip(sizes, noise, strict=True)])
        held += abs(found.value - 1.5) <= found.margin
    assert held / 1000 == pytest.approx(0.95, abs=0.02)


def test_two_sizes_leave_no_interval() -> None:
    [found] = exponents([[1], [2]], [3, 12])
    assert found.value == pytest.approx(2) and math.isnan(found.margin)
    assert str(found) == "2.00" and str(found._replace(margin=0.125)) == "2.00 ± 0.12"


@pytest.mark.parametrize(
    ("free", "bound"), [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (10, 2.228), (60, 2.000)]
)
def test_bounds_are_those_of_the_tables(free: int, bound: float) -> None:
    assert student(free) == pytest.approx(bound, abs=0.01)
