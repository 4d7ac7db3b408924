"""Forecasters: models that continue a series of numbers; their common base.

Axes: `B` windows, `S` context steps, `T` steps of the horizon, `I` columns that are read, the
`C` columns to forecast first, `K` features known ahead, `Q` quantiles (1 for a point forecast).
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import ClassVar, Literal, NamedTuple

import torch
from jaxtyping import Float
from pydantic import Field, field_validator
from torch import Tensor, nn

from crosshead.models.base import Model, ModelConfig
from crosshead.models.registry import MODELS
from crosshead.models.stack import StackConfig

NO_PATTERNS = "forecasters attend to all positions; leave pattern and its settings out"

EPSILON = 1e-5
"""Added to the variance of a window (Kim et al. 2022)."""


class ForecasterShape(NamedTuple):
    """The sizes of the data that a forecaster is built for."""

    context: int
    horizon: int
    columns: int
    """The number of columns to forecast."""
    known: int
    """The number of features that are known ahead: the calendar, and columns of the file."""
    inputs: int = 0
    """The number of further columns, which are read and not forecast."""


class ForecasterConfig(ModelConfig):
    """The settings of every forecaster."""

    task: ClassVar[str] = "forecasting"
    vocabularies: ClassVar[int] = 0
    reads_inputs: ClassVar[bool] = False
    """True if the model can read columns that it does not forecast (`data.inputs`), and features
    that are known ahead (`data.future`)."""

    normalize: Literal["none", "instance", "last"] = "instance"
    """Normalisation of each window and column: subtract the mean and divide by the deviation of the
    context (`instance`; Kim et al. 2022, RevIN without learned factors), subtract the last value
    (`last`; NLinear of Zeng et al. 2023), or nothing. The forecast is transformed back."""

    quantiles: list[float] = Field(default_factory=list)
    """Quantiles to forecast, rising, with 0.5 among them: `[0.1, 0.5, 0.9]` also gives an 80 %
    interval. They are trained with the pinball loss. Empty: one forecast of the mean, trained with
    the squared error."""

    @field_validator("quantiles")
    @classmethod
    def _check_quantiles(cls, given: list[float]) -> list[float]:
        rising = all(low < high for low, high in pairwise([0.0, *given, 1.0]))
        if given and not (rising and 0.5 in given):
            raise ValueError(
                f"expected rising numbers between 0 and 1, with 0.5 among them, found {given}"
            )
        return given

    @property
    def outputs(self) -> int:
        """The number of forecasts of each value: one for each quantile, or one of the mean."""
        return max(1, len(self.quantiles))

    @property
    def median(self) -> int:
        """The index of the median, or of the only forecast."""
        return self.quantiles.index(0.5) if self.quantiles else 0


class SeriesStackConfig(StackConfig, ForecasterConfig):
    """The settings of forecasters on attention layers."""

    cannot: ClassVar[Mapping[str, str]] = {
        **ForecasterConfig.cannot,
        **dict.fromkeys(("pattern", "radius", "dilation", "stride", "columns"), NO_PATTERNS),
    }


class Forecaster(Model):
    """The base of forecasters.

    Args:
        config: The settings.
        shape: The sizes of the data.
    """

    def __init__(self, config: ForecasterConfig, shape: ForecasterShape) -> None:
        super().__init__()
        self.config: ForecasterConfig = config
        self.shape = shape
        self.statistics = NORMALIZATIONS[config.normalize]

    def forward(
        self,
        context: Float[Tensor, "B S I"],
        known: Float[Tensor, "B _ K"],
        target: Float[Tensor, "B T C"] | None = None,
    ) -> Float[Tensor, "B T C Q"]:
        """Forecast the steps after a context.

        Args:
            context: The past, "B S I"; the columns to forecast come first.
            known: Features of the past and of the horizon that are known ahead, "B S+T K".
            target: The true values, "B T C", for teacher forcing in training; only autoregressive
                models read them. Without them a model forecasts from the context alone.

        Returns:
            The forecasts of every quantile, "B T C Q", in float32.
        """
        centre, scale = self.statistics(context)
        dtype = next(self.parameters()).dtype
        inputs = ((context - centre) / scale).to(dtype)
        centre, scale = (each[..., : self.shape.columns] for each in (centre, scale))
        forced = None if target is None else ((target - centre) / scale).to(dtype)
        found = self.predict(inputs, known.to(dtype), forced).float()
        return found * scale.unsqueeze(-1) + centre.unsqueeze(-1)

    @abstractmethod
    def predict(
        self,
        context: Float[Tensor, "B S I"],
        known: Float[Tensor, "B _ K"],
        target: Float[Tensor, "B T C"] | None,
    ) -> Float[Tensor, "B T C Q"]:
        """Return the forecasts of normalised windows.

        Args:
            context: Values, "B S I", normalised.
            known: Features of all steps that are known ahead, "B S+T K".
            target: The future, "B T C", for teacher forcing; None at inference.

        Returns:
            The forecasts, "B T C Q", normalised.
        """


Statistics = tuple[Float[Tensor, "B 1 I"], Float[Tensor, "B 1 I"]]
"""The centre that normalisation subtracts from each window and column, and its divisor, "B 1 I"."""


def unchanged(context: Float[Tensor, "B S I"]) -> Statistics:
    """Return zeros and ones."""
    last = context[:, -1:]
    return torch.zeros_like(last), torch.ones_like(last)


def last_value(context: Float[Tensor, "B S I"]) -> Statistics:
    """Return the last value and ones.

    Reference:
        Zeng et al. 2023, "Are Transformers Effective for Time Series Forecasting?", section 4
        (NLinear).
    """
    last = context[:, -1:]
    return last, torch.ones_like(last)


def mean_and_deviation(context: Float[Tensor, "B S I"]) -> Statistics:
    """Return the mean and the standard deviation.

    Reference:
        Kim et al. 2022, "Reversible Instance Normalization", Eq. 1 and 2.
    """
    variance = context.var(dim=1, keepdim=True, correction=0)
    return context.mean(dim=1, keepdim=True), (variance + EPSILON).sqrt()


NORMALIZATIONS: Mapping[str, Callable[[Tensor], Statistics]] = {
    "none": unchanged, "instance": mean_and_deviation, "last": last_value
}  # fmt: skip
"""The functions of `normalize`."""


def with_positions(x: Tensor, positions: nn.Module | None, start: int = 0) -> Tensor:
    """Return vectors with the positions from `start` on, if these are added."""
    return x if positions is None else (x + positions(start, x.shape[1])).to(x.dtype)


def build_forecaster(config: ModelConfig, shape: ForecasterShape) -> Forecaster:
    """Build a freshly initialised forecaster, in training mode.

    Args:
        config: The configuration.
        shape: The sizes of the data.

    Returns:
        The model.
    """
    assert isinstance(config, ForecasterConfig)
    model = MODELS[config.architecture](config, shape)
    assert isinstance(model, Forecaster)
    return model
