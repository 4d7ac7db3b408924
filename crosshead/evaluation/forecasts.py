"""Errors of forecasts, beside those of untrained baselines."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from crosshead import __version__
from crosshead.data.series.windows import SeriesWindows
from crosshead.errors import DataError
from crosshead.pipelines.forecaster import SeriesForecaster


@dataclass(frozen=True)
class ForecastScore:
    """An error of forecasts, or the coverage of their interval."""

    method: str
    """The model, or an untrained baseline."""
    metric: str
    value: float
    signature: str


def forecast_scores(
    forecaster: SeriesForecaster,
    test: SeriesWindows,
    *,
    original: bool = False,
    check: Callable[[], None] = lambda: None,
) -> list[ForecastScore]:
    """Score the forecasts of all windows, beside those of two untrained baselines.

    The baselines repeat the last value, or the last season (seasonal naive). Each method has the
    mean squared error (MSE), the mean absolute error (MAE), and the MAE divided by that of the
    seasonal naive forecast, one season ahead, in the training period, averaged over columns (MASE).
    A model with quantiles also has its pinball loss and the coverage of its widest symmetric
    interval. Values that were missing are not scored.

    Args:
        forecaster: The model.
        test: The windows.
        original: True for errors in the units of the columns. By default values are divided by
            their deviations in the training period.
        check: Called before each batch.

    Returns:
        The scores of the model, then of the baselines, then of the quantiles.

    Raises:
        DataError: If there is no window.

    Reference:
        Hyndman and Koehler 2006, Eq. 4 (MASE).
    """
    if not len(test.starts):
        raise DataError("there is no window to score: the series is too short")
    config = forecaster.bundle.config
    targets = len(config.target)
    unit = np.array(config.deviations[:targets]) if original else np.ones(targets)
    methods: dict[str, _Errors] = {}
    quantiles = _QuantileErrors(np.array(forecaster.quantiles), forecaster.interval)
    for batch, found in forecaster.predictions(test, check):
        context, target = (
            each.numpy().astype(np.float64) for each in (batch.context[..., :targets], batch.target)
        )
        counted = batch.observed.numpy()
        made = {"model": found[..., forecaster.median]}
        made |= _untrained(context, test.horizon, config.season)
        for name, values in made.items():
            methods.setdefault(name, _Errors()).add((values - target) * unit, counted)
        quantiles.add(found, target, unit, counted)
    signature = (
        f"windows:{len(test.starts)}|steps:{test.horizon}|columns:{len(unit)}|"
        f"units:{'original' if original else 'deviations'}|version:crosshead-{__version__}"
    )
    naive = np.array(config.naive_errors) * unit
    scored = [(name, errors.scores(naive)) for name, errors in methods.items()]
    return [
        ForecastScore(name, metric, value, signature)
        for name, scores in [*scored, ("model", quantiles.scores())]
        for metric, value in scores.items()
    ]


def _untrained(context: np.ndarray, horizon: int, season: int) -> dict[str, np.ndarray]:
    """Return the forecasts of the baselines for a batch of contexts, "B T C".

    There is a seasonal one if the contexts hold a season of more than one step.
    """
    made = {"last value": context[:, -1:]}
    if 1 < season <= context.shape[1]:
        made[f"seasonal naive ({season})"] = context[:, np.arange(horizon) % season - season]
    return made


class _Errors:
    """Sums of errors by column."""

    def __init__(self) -> None:
        self.squared: Any = 0.0
        self.absolute: Any = 0.0
        self.count: Any = 0

    def add(self, errors: np.ndarray, counted: np.ndarray) -> None:
        """Add errors, "B T C", where they count."""
        errors = np.where(counted, errors, 0.0)
        self.squared = self.squared + (errors**2).sum(axis=(0, 1))
        self.absolute = self.absolute + abs(errors).sum(axis=(0, 1))
        self.count = self.count + counted.sum(axis=(0, 1))

    def mean(self) -> float:
        """Return the mean absolute error of all values."""
        return float(self.absolute.sum() / self.count.sum())

    def scores(self, naive: np.ndarray) -> dict[str, float]:
        """Return the errors; `naive` is the seasonal naive error of each column in training."""
        scored = (self.count > 0) & (naive > 0)
        found = {"MSE": float(self.squared.sum() / self.count.sum()), "MAE": self.mean()}
        if scored.any():
            by_column = self.absolute[scored] / self.count[scored]
            found["MASE"] = float((by_column / naive[scored]).mean())
        return found


class _QuantileErrors:
    """Sums of the errors of quantiles, and of the hits of the widest symmetric interval.

    Attributes:
        quantiles: The quantiles of the model; without any, there is no score.
        low: The place of the interval's lower end in `quantiles`, or None if there is no interval.
    """

    def __init__(self, quantiles: np.ndarray, low: int | None) -> None:
        self.quantiles, self.low = quantiles, low
        self._pinball, self._inside = _Errors(), _Errors()

    def add(
        self, found: np.ndarray, target: np.ndarray, unit: np.ndarray, counted: np.ndarray
    ) -> None:
        """Add the quantiles of a batch, "B T C N", where the values of `target` count."""
        if len(self.quantiles):
            error = (target[..., None] - found) * unit[:, None]
            loss = np.maximum(self.quantiles * error, (self.quantiles - 1) * error).mean(axis=-1)
            self._pinball.add(loss, counted)
        if self.low is not None:
            within = (found[..., self.low] <= target) & (target <= found[..., -1 - self.low])
            self._inside.add(within.astype(np.float64), counted)

    def scores(self) -> dict[str, float]:
        """Return the pinball loss, and the coverage of the interval in per cent."""
        found = {"pinball loss": self._pinball.mean()} if len(self.quantiles) else {}
        if self.low is not None:
            share = round(100 * (self.quantiles[-1 - self.low] - self.quantiles[self.low]))
            found[f"coverage of the {share} % interval, %"] = 100 * self._inside.mean()
        return found
