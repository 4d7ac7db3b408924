"""Errors of forecasts, beside those of untrained baselines."""

from collections.abc import Callable, Sequence
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

    The baselines repeat the last value, or the last season (seasonal naive; see
    `why_without_season`). Each method has the mean squared error (MSE), the mean absolute error
    (MAE), and the MAE divided by that of the seasonal naive forecast, one season ahead, in the
    training period, averaged over series and columns (MASE). A model with quantiles also has its
    pinball loss and the coverage of each symmetric interval. Values that were missing are not
    scored.

    This is the seasonal form of MASE. With a season of 1 step it is the form of Hyndman and Koehler
    (2006).

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
        Hyndman and Athanasopoulos 2021, "Forecasting: Principles and Practice", section 5.8 (MASE).
    """
    if not len(test.starts):
        raise DataError("there is no window to score")
    config = forecaster.bundle.config
    targets = len(config.target)
    deviations = np.stack([scale.deviation[:targets] for _, scale in test.parts])
    units = deviations if original else np.ones(deviations.shape)
    methods: dict[str, _Errors] = {}
    quantiles = _QuantileErrors(units.shape, forecaster.quantiles, forecaster.intervals)
    baselines = {"last value": 1}
    if config.season > 1 and not why_without_season(test, config.season):
        baselines[f"seasonal naive ({config.season})"] = config.season
    for rows, batch, found in forecaster.predictions(test, check):
        target, counted = batch.target.numpy().astype(np.float64), batch.observed.numpy()
        series = test.series[rows]
        unit = units[series, None]
        made = {"model": found[..., forecaster.median]}
        made |= {name: test.repeated(rows, steps).numpy() for name, steps in baselines.items()}
        for name, values in made.items():
            errors = methods.setdefault(name, _Errors(units.shape))
            errors.add((values - target) * unit, counted, series)
        quantiles.add(found, target, unit, counted, series)
    signature = (
        f"windows:{len(test.starts)}|steps:{test.horizon}|columns:{targets}|"
        + f"series:{len(units)}|" * (len(units) > 1)
        + f"units:{'original' if original else 'deviations'}|season:{config.season}|"
        f"version:crosshead-{__version__}"
    )
    naive_errors = np.reshape(config.naive_errors, (-1, targets))
    by_key = dict(zip(config.keys or [""], naive_errors, strict=True))
    unknown = np.zeros(targets)  # a series without training data has no MASE
    naive = units * [by_key.get(series.key, unknown) for series, _ in test.parts]
    scored = [(name, errors.scores(naive)) for name, errors in methods.items()]
    return [
        ForecastScore(name, metric, value, signature)
        for name, scores in [*scored, ("model", quantiles.scores())]
        for metric, value in scores.items()
    ]


def why_without_season(test: SeriesWindows, season: int) -> str:
    """Return why the seasonal naive forecast has no scores, or an empty text if it has.

    The first forecast must have a season of rows before it.

    Args:
        test: The windows.
        season: The steps of a season.
    """
    before = int(test.before.min())
    if before >= season:
        return ""
    return (
        f"the seasonal naive forecast has no scores: it repeats the {season:,} rows before a "
        f"forecast, and the first forecast has {before:,} rows before it"
    )


class _Errors:
    """Sums of errors by series and column."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.squared, self.absolute = np.zeros(shape), np.zeros(shape)
        self.count = np.zeros(shape, int)

    def add(self, errors: np.ndarray, counted: np.ndarray, series: np.ndarray) -> None:
        """Add errors, "B T C", where they count; `series` has the number of each window's."""
        errors = np.where(counted, errors, 0.0)
        np.add.at(self.squared, series, (errors**2).sum(axis=1))
        np.add.at(self.absolute, series, abs(errors).sum(axis=1))
        np.add.at(self.count, series, counted.sum(axis=1))

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
    """Sums of the errors of quantiles, and of the hits of symmetric intervals.

    Attributes:
        quantiles: The quantiles of the model; without any, there is no score.
        intervals: The places of both ends of each interval in `quantiles`.
    """

    def __init__(self, shape: Any, quantiles: Sequence[float], intervals: Any) -> None:
        self.quantiles, self.intervals = np.array(quantiles), intervals
        self._pinball, self._inside = _Errors(shape), [_Errors(shape) for _ in intervals]

    def add(self, found: Any, target: Any, unit: Any, *where: np.ndarray) -> None:
        """Add the quantiles of a batch, "B T C N"; `where` as for `_Errors`."""
        if len(self.quantiles):
            error = (target[..., None] - found) * unit[..., None]
            loss = np.maximum(self.quantiles * error, (self.quantiles - 1) * error).mean(axis=-1)
            self._pinball.add(loss, *where)
        for (low, high), hits in zip(self.intervals, self._inside, strict=True):
            within = (found[..., low] <= target) & (target <= found[..., high])
            hits.add(within.astype(np.float64), *where)

    def scores(self) -> dict[str, float]:
        """Return the pinball loss, and the coverage of each interval in per cent."""
        found = {"pinball loss": self._pinball.mean()} if len(self.quantiles) else {}
        for (low, high), hits in zip(self.intervals, self._inside, strict=True):
            share = 100 * (self.quantiles[high] - self.quantiles[low])
            found[f"coverage of the {share:.6g} % interval, %"] = 100 * hits.mean()
        return found
