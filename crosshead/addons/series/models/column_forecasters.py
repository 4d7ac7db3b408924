"""DLinear: trend and seasonal part of a window, each continued by one linear layer."""

from collections.abc import Mapping
from typing import ClassVar, Literal

from jaxtyping import Float
from pydantic import Field, field_validator
from torch import Tensor, nn
from torch.nn import functional as F

from crosshead.addons.series.models.forecaster import Forecaster, ForecasterConfig, ForecasterShape
from crosshead.config import MOST_KERNEL


class LinearForecasterConfig(ForecasterConfig):
    """The settings of DLinear."""

    cannot: ClassVar[Mapping[str, str]] = {
        **ForecasterConfig.cannot,
        "d_model": "dlinear has no hidden states; leave d_model out",
        "dropout": "dlinear has no dropout; leave it out",
    }

    architecture: Literal["dlinear"] = "dlinear"
    """The architecture of the model."""

    normalize: Literal["none", "instance", "last"] = "none"
    """Normalisation of each window and column, as for `patchtst`; the paper's DLinear has none."""

    kernel: int = Field(25, ge=1, le=MOST_KERNEL)
    """Steps of the moving average that separates trend and seasonal part; odd. 1 leaves one linear
    layer without a seasonal part, which is NLinear together with `normalize = "last"`."""

    @field_validator("kernel")
    @classmethod
    def _check_kernel(cls, kernel: int) -> int:
        if kernel % 2 == 0:
            raise ValueError(f"expected an odd number, found {kernel}")
        return kernel

    def shape(self) -> str:
        """Return the moving average and the normalisation, as a clause."""
        return f"moving average of {self.kernel}, normalization {self.normalize}"


class LinearForecaster(Forecaster):
    """DLinear.

    A moving average is the trend, and the rest is the seasonal part. One linear layer continues
    each of them, the same for all columns, and the forecast is the sum.

    Args:
        config: The settings.
        shape: The sizes of the data.

    Reference:
        Zeng et al. 2023, "Are Transformers Effective for Time Series Forecasting?".
    """

    config: LinearForecasterConfig

    def __init__(self, config: LinearForecasterConfig, shape: ForecasterShape) -> None:
        super().__init__(config, shape)
        self.trend = nn.Linear(shape.context, shape.horizon * config.outputs)
        self.seasonal = (
            nn.Linear(shape.context, shape.horizon * config.outputs) if config.kernel > 1 else None
        )

    def predict(
        self,
        context: Float[Tensor, "B S C"],
        known: Float[Tensor, "B _ K"],
        target: Float[Tensor, "B T C"] | None,
    ) -> Float[Tensor, "B T C Q"]:
        """Return the forecasts; calendar and target are not read."""
        x = context.transpose(1, 2)
        trend = moving_average(x, self.config.kernel)
        found = self.trend(trend)
        if self.seasonal is not None:
            found = found + self.seasonal(x - trend)
        found = found.unflatten(-1, (self.shape.horizon, self.config.outputs))
        return found.transpose(1, 2)


def moving_average(x: Float[Tensor, "B C S"], kernel: int) -> Float[Tensor, "B C S"]:
    """Return the mean of the values around each value; both ends are padded with themselves."""
    padded = F.pad(x, (kernel // 2, kernel // 2), mode="replicate")
    return F.avg_pool1d(padded, kernel, stride=1)
