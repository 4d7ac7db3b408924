from itertools import product

import pytest
import torch

from crosshead.addons.series.models.column_forecasters import LinearForecasterConfig
from crosshead.config import validate
from crosshead.errors import ConfigError
from tests.addons.series.small_forecasters import SHAPE, SIZES, inputs, small


@pytest.mark.parametrize(("architecture", "quantiles"), [*product(SIZES, ([], [0.1, 0.5, 0.9]))])
def test_every_forecaster_gives_its_quantiles_with_and_without_a_target(
    architecture: str, quantiles: list[float]
) -> None:
    model = small(architecture, quantiles=quantiles)
    context, known, target = inputs()
    for given in (None, target):
        found = model(context, known, given)
        assert found.shape == (3, SHAPE.horizon, SHAPE.columns, max(1, len(quantiles)))
        assert found.dtype == torch.float32 and found.isfinite().all()
    assert model.config.architecture == architecture and "\n" not in model.config.shape()


@pytest.mark.parametrize("architecture", SIZES)
def test_every_weight_gets_a_gradient(architecture: str) -> None:
    model = small(architecture).train()
    context, known, target = inputs()
    (model(context, known, target)[..., 0] - target).square().mean().backward()
    for name, weight in model.named_parameters():
        assert weight.grad is not None and weight.grad.isfinite().all(), name
        assert weight.grad.abs().sum() > 0, name


@pytest.mark.parametrize("architecture", SIZES)
def test_forecasts_do_not_depend_on_the_rest_of_the_batch(architecture: str) -> None:
    model = small(architecture)
    context, known, _ = inputs()
    whole = model(context, known)
    for row in range(3):
        alone = model(context[row : row + 1], known[row : row + 1])
        torch.testing.assert_close(alone[0], whole[row], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("architecture", "normalize"), [*product(SIZES, ("instance", "last"))])
def test_a_moved_window_has_a_moved_forecast(architecture: str, normalize: str) -> None:
    """The inverse of RevIN, Kim et al. 2022, Eq. 3; NLinear moves too, but does not stretch."""
    model = small(architecture, normalize=normalize)
    context, known, _ = inputs()
    offset = torch.tensor([5.0, -2.0])
    factor = torch.tensor([3.0, 0.5]) if normalize == "instance" else torch.ones(2)
    found = model(context * factor + offset, known)[..., 0]
    expected = model(context, known)[..., 0] * factor + offset
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)


def test_normalisation_is_that_of_the_window() -> None:
    context, _, _ = inputs()
    for normalize, mean, deviation in (
        ("none", torch.zeros(3, 1, 2), torch.ones(3, 1, 2)),
        ("last", context[:, -1:], torch.ones(3, 1, 2)),
        (
            "instance",
            context.mean(1, keepdim=True),
            (context.var(1, keepdim=True, correction=0) + 1e-5).sqrt(),
        ),
    ):
        centre, scale = small("dlinear", normalize=normalize).statistics(context)
        torch.testing.assert_close(centre, mean)
        torch.testing.assert_close(scale, deviation)


def test_a_constant_window_has_a_finite_forecast_and_gradient() -> None:
    model = small("patchtst").train()
    context, known, target = inputs()
    (model(torch.ones_like(context), known, target) ** 2).sum().backward()
    assert all(weight.grad.isfinite().all() for weight in model.parameters())  # type: ignore[union-attr]


@pytest.mark.parametrize("given", [[0.1, 0.9], [0.5, 0.1], [0.0, 0.5], [0.5, 1.0], [0.5, 0.5]])
def test_quantiles_rise_and_have_a_median(given: list[float]) -> None:
    with pytest.raises(ConfigError, match=r"^quantiles: expected rising numbers between 0 and 1"):
        validate(LinearForecasterConfig, {"quantiles": given})
