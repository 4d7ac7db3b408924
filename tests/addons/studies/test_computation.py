import math
from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from crosshead.addons.studies.computation import (
    bytes_kept,
    layers_until_reached,
    powers,
    products_in_sequence,
)


def test_products_count_where_one_waits_for_another() -> None:
    x = torch.randn(3, 3, requires_grad=True)
    assert products_in_sequence(x @ x + x @ x) == 1
    assert products_in_sequence((x @ x).tanh() @ x + x) == 2


def test_products_count_from_a_leaf_alone_where_one_is_named() -> None:
    x, y = (torch.randn(3, 3, requires_grad=True) for _ in range(2))
    both = x @ x @ x @ x + y @ x
    assert products_in_sequence(both) == products_in_sequence(both, x) == 3
    assert products_in_sequence(both, y) == 1
    with pytest.raises(ValueError, match="does not depend"):
        products_in_sequence(x @ x, y)


def test_layers_count_from_the_first_that_reaches() -> None:
    def outputs(x: Tensor) -> Iterator[Tensor]:
        while True:
            x = x + nn.functional.pad(x, (0, 0, 2, 0))[:, :-2]  # looks two positions back
            yield x

    x = torch.randn(1, 9, 2, requires_grad=True)
    assert layers_until_reached(outputs(x), x) == 4


def test_what_is_kept_counts_once_and_without_weights() -> None:
    x = torch.randn(1, 8, 16, requires_grad=True)
    layer = nn.Sequential(nn.Linear(16, 16), nn.Tanh())
    # The input of the linear layer, and the output of the tanh.
    assert bytes_kept(layer, x) == 2 * 8 * 16 * 4


def test_a_power_law_is_found_without_doubt() -> None:
    sizes = list(product((1, 2, 5), (3, 7)))
    found = powers(sizes, [4 * n**2 * d**0.5 for n, d in sizes])
    assert [each.value for each in found] == pytest.approx([2, 0.5])
    assert all(each.error < 1e-12 for each in found)


def test_errors_are_the_deviations_of_repeated_fits() -> None:
    random = np.random.default_rng(1)
    sizes = [[n] for n in (1, 2, 4, 8, 16)]
    found = []
    for _ in range(1000):
        noise = np.exp(0.1 * random.standard_normal(len(sizes)))
        found += powers(sizes, [n**1.5 * e for (n,), e in zip(sizes, noise, strict=True)])
    deviation = np.std([each.value for each in found])
    assert np.sqrt(np.mean([each.error**2 for each in found])) == pytest.approx(deviation, rel=0.1)


def test_two_sizes_leave_no_error() -> None:
    [found] = powers([[1], [2]], [3, 12])
    assert found.value == pytest.approx(2) and math.isnan(found.error)
    assert str(found) == "2.00" and str(found._replace(error=0.125)) == "2.00 ± 0.12"
