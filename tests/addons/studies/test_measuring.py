import math
import time
from collections.abc import Iterator
from functools import partial
from itertools import product

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from crosshead.addons.studies.measuring import (
    FORWARD,
    TRAINING,
    bytes_kept,
    in_standard_errors,
    in_turns,
    layers_until_reached,
    milliseconds,
    of_layer,
    powers,
    products_in_sequence,
    ratios,
)
from tests.addons.studies.trials import full, quick


def test_computations_take_turns_behind_a_first_call_each() -> None:
    said: list[str] = []
    calls = {name: partial(said.append, name) for name in "abc"}
    found = in_turns(quick(), calls)
    assert "".join(said) == "abc" + "abc" + "cba"
    assert {name: len(each) for name, each in found.items()} == {"a": 2, "b": 2, "c": 2}


def test_a_time_is_that_of_one_call() -> None:
    calls = {"short": lambda: None, "long": partial(time.sleep, 0.02)}
    found = in_turns(full(), calls, rounds=2, seconds=0.05)
    assert all(0.02 <= each < 1 for each in found["long"])
    assert max(found["short"]) < 0.02


def test_only_training_has_gradients_and_they_do_not_add_up() -> None:
    layer, x = torch.nn.Linear(3, 2), torch.randn(4, 3)
    of_layer(layer, x, FORWARD)()
    assert layer.weight.grad is None
    for _ in range(2):
        of_layer(layer, x, TRAINING)()
        torch.testing.assert_close(layer.weight.grad, x.sum(dim=0).expand(2, 3))
    assert x.grad is None


def test_ratios_are_those_of_rounds() -> None:
    assert ratios([2.0, 9.0, 3.0], [1.0, 1.0, 2.0]) == pytest.approx([2, 9, 1.5])
    assert milliseconds([0.5, 0.25]) == 250


def test_products_count_where_one_waits_for_another() -> None:
    x = torch.randn(3, 3, requires_grad=True)
    assert products_in_sequence(x @ x + x @ x) == 1
    assert products_in_sequence((x @ x).tanh() @ x + x) == 2


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


def test_a_difference_is_told_in_standard_errors() -> None:
    # Means 5 and 2, variances 1 and 4 over 4 and 4: the error is sqrt(5/4).
    first, second = [4.0, 5.0, 5.0, 6.0], [0.0, 2.0, 2.0, 4.0]
    variance = (2 / 3 + 8 / 3) / 4
    assert in_standard_errors(first, second) == pytest.approx(3 / variance**0.5)
