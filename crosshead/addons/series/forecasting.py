"""Forecasting: the task of continuing time series, its loss, and scores beside baselines."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from crosshead.addons.series.forecaster import SeriesBundle, SeriesForecaster
from crosshead.addons.series.models.forecaster import (
    Forecaster,
    ForecasterConfig,
    ForecasterShape,
    build_forecaster,
)
from crosshead.addons.series.series_corpus import SeriesCorpus, read_corpus
from crosshead.addons.series.series_recipe import ForecastingRecipe, SeriesData
from crosshead.addons.series.steps import CALENDAR
from crosshead.addons.series.tables import table_lines
from crosshead.addons.series.windows import SeriesBatch, SeriesWindows
from crosshead.bundle.base import Bundle
from crosshead.bundle.config import BundleScore
from crosshead.data import file_names
from crosshead.errors import ConfigError
from crosshead.models.base import Model
from crosshead.recipe.presets import Sections
from crosshead.recipe.recipe import Recipe
from crosshead.recipe.train import TrainConfig
from crosshead.tasks.base import Task, WriteLines
from crosshead.tasks.pipeline import Pipeline
from crosshead.tasks.usability import Findings
from crosshead.tasks.validation import LOSS, Loss, Metric, Validation, Validator
from crosshead.version import __version__

MAE = Metric("mae", "mean absolute error", higher_is_better=False, digits=3)


def forecast_loss(found: Tensor, batch: SeriesBatch, quantiles: Sequence[float]) -> Loss:
    """Return the loss of forecasts, "B T C Q", over the observed values of a batch.

    With quantiles it is the pinball loss, averaged over quantiles, otherwise the squared error.

    Reference:
        Koenker and Bassett 1978, "Regression Quantiles".
    """
    errors = (batch.target.unsqueeze(-1) - found)[batch.observed]
    if quantiles:
        levels = errors.new_tensor(list(quantiles))
        loss = torch.maximum(levels * errors, (levels - 1) * errors).mean(dim=-1)
        middle = errors[:, list(quantiles).index(0.5)]
    else:
        middle = errors[:, 0]
        loss = middle.square()
    return Loss({"loss": loss.sum(), "mae": middle.abs().sum()}, len(errors))


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
        test: The windows, at least one.
        original: True for errors in the units of the columns. By default values are divided by
            their deviations in the training period.
        progress: Called with the share that is done, from 0 to 1, before each batch.

    Returns:
        The scores of the model, then of the baselines, then of the quantiles.

    Reference:
        Hyndman and Athanasopoulos 2021, "Forecasting: Principles and Practice", section 5.8 (MASE).
    """
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


class ForecastingValidator(Validator[ForecastingRecipe, SeriesCorpus, SeriesBundle]):
    """Validates by the forecasts of all validation windows."""

    def search_description(self) -> str:
        """Return the horizon and the context."""
        data = self.recipe.data
        return f"{data.horizon} steps from {data.context}"

    def validate(self, weights: dict[str, Tensor]) -> Validation:
        """Return the loss and the mean absolute error of the validation windows, scaled."""
        self.bundle_of(weights)
        valid = self.corpus.valid
        plan = valid.in_order(self.recipe.train.batch_tokens)
        return Validation(self.means(valid.collate(rows.tolist()) for rows in plan))

    def findings(self, weights: dict[str, Tensor]) -> Findings:
        """Return the scores of the test period, or of validation without one, and of baselines."""
        corpus = self.corpus
        has_test = len(corpus.test.starts) > 0
        given = corpus.test if has_test else corpus.valid
        found = forecast_scores(
            SeriesForecaster(self.bundle_of(weights)),
            given,
            progress=lambda share: self.stop_if_asked(),
        )
        faults = baseline_faults(found)
        test_set = "test period" if has_test else "validation"
        return Findings([bundle_score(each, test_set) for each in found], faults)


def bundle_score(score: ForecastScore, test_set: str) -> BundleScore:
    """Return a score as a bundle records it. Scores of baselines are named after them."""
    of = "" if score.method == "model" else f" of {score.method}"
    return BundleScore(
        metric=f"{score.metric}{of}",
        value=score.value,
        signature=score.signature,
        test_set=test_set,
        digits=1 if score.metric.startswith("coverage") else 4,
    )


def baseline_faults(scores: Sequence[ForecastScore]) -> list[str]:
    """Return a clause if an untrained baseline has a lower mean absolute error than the model."""
    errors = {each.method: each.value for each in scores if each.metric == "MAE"}
    best = min(errors, key=lambda method: errors[method])
    if best == "model":
        return []
    return [
        f"its mean absolute error of {errors['model']:.4f} is not below the {errors[best]:.4f} of "
        f"the untrained forecast {best}"
    ]


class ForecastingTask(Task):
    """Forecasting of time series."""

    name: ClassVar[str] = "forecasting"
    recipe: ClassVar[type[Recipe]] = ForecastingRecipe
    bundle: ClassVar[type[Bundle]] = SeriesBundle
    pipeline: ClassVar[type[Pipeline]] = SeriesForecaster
    validator: ClassVar[type[Validator[Any, Any, Any]]] = ForecastingValidator
    metrics: ClassVar[tuple[Metric, ...]] = (LOSS, MAE)
    architecture: ClassVar[str] = "patchtst"
    units: ClassVar[str] = "values"
    batch_units: ClassVar[str] = "values"
    counter: ClassVar[str] = "values"

    def recognizes(self, data: Mapping[str, Any]) -> bool:
        """Return whether `[data]` names a time series."""
        return bool(data.get("series"))

    def stored(self, given: Mapping[str, Any], write: WriteLines) -> dict[str, Any]:
        """Return the files of a series and its target; a table in memory is written to a file."""
        found: dict[str, Any] = {"series": file_names(given["series"]) or [
            write("train.csv", table_lines(given["series"]))
        ]}  # fmt: skip
        if given.get("target") is not None:
            target = given["target"]
            found["target"] = target if isinstance(target, str) else list(target)
            if not all(isinstance(name, str) for name in found["target"]):
                raise ConfigError(f"target: expected names of columns, found {target!r:.60}")
        return found

    def read(
        self,
        recipe: ForecastingRecipe,
        base: Bundle | None,
        resumed: Path | None,
        say: Callable[[str], None] = lambda line: None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> SeriesCorpus:
        """Read, split and scale a series: see `read_corpus`."""
        assert base is None or isinstance(base, SeriesBundle)
        return read_corpus(recipe, base)

    def loss(self, model: Forecaster, batch: SeriesBatch, settings: TrainConfig) -> Loss:
        """Return the loss of forecasts; in training the target is given (teacher forcing)."""
        target = batch.target if model.training else None
        config = model.config
        assert isinstance(config, ForecasterConfig)
        return forecast_loss(model(batch.context, batch.known, target), batch, config.quantiles)

    def example(self, model: ForecasterConfig, preset: Sections) -> tuple[str, Callable[[], Model]]:
        """Return the model of a preset for one column."""
        data = SeriesData(**preset.get("data", {}))
        shape = ForecasterShape(data.context, data.horizon, 1, CALENDAR)
        return "", partial(build_forecaster, model, shape)

    def sections(self, bundle: Bundle) -> dict[str, dict[str, Any]]:
        """Return the model and the sizes of a bundle."""
        assert isinstance(bundle, SeriesBundle)
        config = bundle.config
        keys = ("context", "horizon", "target", "inputs", "future", "id")
        data = {key: getattr(config, key) for key in keys}
        return {**super().sections(bundle), "data": data}
