import pytest
import torch
from torch.nn import functional as F

from crosshead.addons.series.models.linear_forecaster import (
    LinearForecaster,
    LinearForecasterConfig,
    moving_average,
)
from crosshead.config import validate
from crosshead.errors import ConfigError
from tests.addons.series.small_forecasters import inputs, small


def test_it_is_dlinear() -> None:
    """Zeng et al. 2023, section 4: decomposition with a moving average, one layer a part."""
    model = small("dlinear")
    assert isinstance(model, LinearForecaster) and model.seasonal is not None
    context, known, _ = inputs()
    expected = torch.zeros(3, 6, 2)
    for batch in range(3):
        for column in range(2):
            x = context[batch, :, column]
            padded = torch.cat([x[:1].repeat(2), x, x[-1:].repeat(2)])
            trend = torch.stack([padded[step : step + 5].mean() for step in range(24)])
            rest = x - trend
            found = F.linear(trend, model.trend.weight, model.trend.bias)
            found = found + F.linear(rest, model.seasonal.weight, model.seasonal.bias)
            expected[batch, :, column] = found
    torch.testing.assert_close(model(context, known)[..., 0], expected)


def test_with_a_kernel_of_1_and_the_last_value_it_is_nlinear() -> None:
    model = small("dlinear", kernel=1, normalize="last")
    assert isinstance(model, LinearForecaster) and model.seasonal is None
    context, known, _ = inputs()
    x = context.transpose(1, 2)
    expected = F.linear(x - x[..., -1:], model.trend.weight, model.trend.bias) + x[..., -1:]
    torch.testing.assert_close(model(context, known)[..., 0], expected.transpose(1, 2))


def test_the_average_of_a_line_is_the_line_but_for_its_ends() -> None:
    x = torch.arange(20.0).view(1, 1, -1)
    found = moving_average(x, 5)
    torch.testing.assert_close(found[..., 2:-2], x[..., 2:-2])
    assert found[0, 0, 0] == pytest.approx((0 + 0 + 0 + 1 + 2) / 5)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"kernel": 4}, "^kernel: expected an odd number, found 4"),
        ({"d_model": 8}, "^d_model: dlinear has no hidden states"),
        ({"dropout": 0.3}, "^dropout: dlinear has no dropout"),
    ],
)
def test_impossible_settings_are_refused(values: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        validate(LinearForecasterConfig, values)
