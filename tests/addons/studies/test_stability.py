import numpy as np
import pytest
import torch

from crosshead.addons.studies.gradients import NEAREST, WIDTH, factor
from crosshead.addons.studies.stability import (
    FACTOR,
    GROWING,
    LOOKING,
    LOST,
    REACH,
    SHRINKING,
    USUAL,
    body,
    by_distance,
    judged,
)

ALL = (SHRINKING, GROWING, USUAL, LOOKING)


@pytest.mark.parametrize("name", ALL)
def test_no_output_sees_a_later_input(name: str) -> None:
    torch.manual_seed(0)
    model, x = body(name), torch.randn(1, 9, WIDTH)
    later = x.clone()
    later[:, 5:] = torch.randn(1, 4, WIDTH)
    torch.testing.assert_close(model(x)[:, :5], model(later)[:, :5])


def test_the_matrices_are_those_of_their_names() -> None:
    torch.manual_seed(0)
    values = torch.linalg.svdvals(body(SHRINKING).get_parameter("cell.weight_hh_l0"))
    torch.testing.assert_close(values, torch.full_like(values, 0.9))
    matrix = body(GROWING).get_parameter("cell.weight_hh_l0").detach()
    assert 1.7 < float(torch.linalg.eigvals(matrix).abs().max()) < 2.4


def test_a_bounded_matrix_bounds_the_factor() -> None:
    norms = by_distance(SHRINKING, 60, 1, torch.float64)
    assert len(norms) == 60
    assert factor(norms) <= 0.9
    assert norms[NEAREST] > norms[-1] > 0


def test_the_quantities_are_means_and_the_largest_gradient_that_is_left() -> None:
    falls, rises = 0.5 ** np.arange(20.0), 1.5 ** np.arange(20.0)
    exact = {SHRINKING: [falls, falls], GROWING: [rises, rises]}
    single = {USUAL: [np.zeros(20), np.full(20, 1e-40)], LOOKING: [np.ones(20), 4 * falls**0]}
    found = judged(exact, single, {"x": 1.0})
    assert found[FACTOR.format(SHRINKING)] == pytest.approx(0.5)
    assert found[FACTOR.format(GROWING)] == pytest.approx(1.5)
    assert (found[LOST], found[REACH], found["x"]) == (1e-40, pytest.approx(1), 1.0)
