"""Errors of forecasts, beside those of untrained baselines."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from crosshead.addons.series.forecaster import SeriesForecaster
from crosshead.addons.series.windows import SeriesWindows
from crosshead.errors import DataError
from crosshead.version import __version__


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
    progress: Callable[[float], None] = lambda share: None,
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
        progress: Called with the share that is done, from 0 to 1, before each batch.

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
    baselines = {"last value": 1}
    if config.season > 1 and not why_without_season(test, config.season):
        baselines[f"seasonal naive ({config.season})"] = config.season
    # Sums by series and column of the values of each method and metric, and their number.
    sums: dict[tuple[str, str], np.ndarray] = {}
    count = np.zeros(units.shape, int)
    for rows, batch, found in forecaster.predictions(test, progress):
        target, counted = batch.target.numpy().astype(np.float64), batch.observed.numpy()
        series = test.series[rows]
        made = {"model": found[..., forecaster.median]}
        made |= {name: test.repeated(rows, steps).numpy() for name, steps in baselines.items()}
        values: dict[tuple[str, str], np.ndarray] = {}
        for name, forecast in made.items():
            errors = (forecast - target) * units[series, None]
            values |= {(name, "MSE"): errors**2, (name, "MAE"): abs(errors)}
        of_quantiles = _quantile_values(forecaster, found, target, units[series, None])
        values |= {("model", metric): each for metric, each in of_quantiles.items()}
        np.add.at(count, series, counted.sum(axis=1))
        for key, each in values.items():
            total = sums.setdefault(key, np.zeros(units.shape))
            np.add.at(total, series, np.where(counted, each, 0.0).sum(axis=1))
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
    scored = (count > 0) & (naive > 0)
    scores = []
    for (name, metric), total in sums.items():
        scores.append((name, metric, total.sum() / count.sum()))
        if metric == "MAE" and scored.any():
            scores.append((name, "MASE", (total[scored] / count[scored] / naive[scored]).mean()))
    return [ForecastScore(name, metric, float(value), signature) for name, metric, value in scores]


def why_without_season(test: SeriesWindows, season: int) -> str:
    """Return why the seasonal naive forecast has no scores, or an empty text if it has.

    The first forecast must have a season of rows before it.
    """
    before = int(test.before.min())
    if before >= season:
        return ""
    return (
        f"the seasonal naive forecast has no scores: it repeats the {season:,} rows before a "
        f"forecast, and the first forecast has {before:,} rows before it; give a later start"
    )


def _quantile_values(
    forecaster: SeriesForecaster, found: np.ndarray, target: np.ndarray, unit: np.ndarray
) -> dict[str, np.ndarray]:
    """Return the pinball loss of forecasts, "B T C Q", and the per cent inside each interval."""
    if not forecaster.quantiles:
        return {}
    quantiles = np.array(forecaster.quantiles)
    error = (target[..., None] - found) * unit[..., None]
    loss = np.maximum(quantiles * error, (quantiles - 1) * error).mean(axis=-1)
    values = {"pinball loss": loss}
    for low, high in forecaster.intervals:
        inside = (found[..., low] <= target) & (target <= found[..., high])
        share = 100 * (quantiles[high] - quantiles[low])
        values[f"coverage of the {share:.6g} % interval, %"] = 100.0 * inside
    return values
