"""Forecasting: models that continue time series."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from crosshead.addons.series.forecaster import SeriesBundle, SeriesForecaster
from crosshead.addons.series.forecasts import ForecastScore, forecast_scores
from crosshead.addons.series.models.forecaster import (
    Forecaster,
    ForecasterConfig,
    ForecasterShape,
    build_forecaster,
)
from crosshead.addons.series.section import SeriesData
from crosshead.addons.series.series_corpus import SeriesCorpus, read_corpus
from crosshead.addons.series.series_recipe import ForecastingRecipe
from crosshead.addons.series.steps import CALENDAR
from crosshead.addons.series.tables import table_lines
from crosshead.addons.series.windows import SeriesBatch
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
