"""Forecasting: models that continue time series."""

import csv
import hashlib
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from pydantic import SerializeAsAny, ValidationInfo, model_validator
from torch import Tensor

from crosshead.bundle.card import CardFile
from crosshead.bundle.config import BundleConfig, BundleScore
from crosshead.bundle.io import Bundle
from crosshead.config import called
from crosshead.data.series.reading import Series, read_series
from crosshead.data.series.section import SeriesData
from crosshead.data.series.steps import CALENDAR, Step
from crosshead.data.series.windows import (
    Scale,
    SeriesBatch,
    SeriesWindows,
    fit_scale,
    split_rows,
    windows,
)
from crosshead.errors import DataError
from crosshead.evaluation import ForecastScore, forecast_scores
from crosshead.models.base import Model
from crosshead.models.forecaster import Forecaster, ForecasterConfig, ForecasterShape
from crosshead.models.patch_forecaster import PatchForecasterConfig
from crosshead.models.registry import build_forecaster
from crosshead.pipelines.base import Pipeline
from crosshead.pipelines.forecaster import (
    SeriesBundle,
    SeriesBundleConfig,
    SeriesForecaster,
    shown_names,
)
from crosshead.recipe.presets import Sections
from crosshead.recipe.recipe import Recipe
from crosshead.recipe.train import TrainConfig
from crosshead.system.lines import file_sha256
from crosshead.tasks.base import Task
from crosshead.tasks.corpus import Corpus
from crosshead.tasks.usability import Findings
from crosshead.tasks.validation import LOSS, Loss, Metric, Validation, Validator

MAE = Metric("mae", "mean absolute error", higher_is_better=False, digits=3)


class ForecastingRecipe(Recipe):
    """A run on a time series."""

    data: SerializeAsAny[SeriesData]

    @model_validator(mode="after")
    def _check(self, info: ValidationInfo) -> Self:
        context, model = self.data.context, self.model
        if isinstance(model, PatchForecasterConfig) and context < model.patch_length:
            raise ValueError(
                f"{called('data.context', info)} {context} is shorter than a patch of "
                f"model.patch_length {model.patch_length}; raise the first or lower the second"
            )
        most = model.most_positions
        if most is not None and max(context, self.data.horizon) > most:
            raise ValueError(
                f"{called('data.context', info)} {context} or data.horizon {self.data.horizon} is "
                f"more than the {most} learned positions of model.max_length; raise max_length"
            )
        return self


@dataclass(frozen=True)
class SeriesCorpus(Corpus):
    """A series, scaled, and its windows by period."""

    series: Series
    scale: Scale
    train: SeriesWindows
    valid: SeriesWindows
    test: SeriesWindows
    """The windows of the test period; empty if there is none."""
    season: int
    naive_errors: list[float]

    kind: ClassVar[type[Bundle]] = SeriesBundle
    unit, unit_name, bound = "window", "windows", "data.context"

    @property
    def size(self) -> int:
        """The number of training windows."""
        return len(self.train.starts)

    @property
    def reach(self) -> int:
        """The steps of a context."""
        return self.train.context

    @property
    def lengths(self) -> np.ndarray:
        """The number of values that each training window reads."""
        return self.train.lengths

    def epochs(self, recipe: Recipe) -> Callable[[int], SeriesWindows]:
        """Return a function that gives all training windows for every epoch."""
        return lambda epoch: self.train

    def sha256(self) -> str:
        """Return the checksum of the scaled series and its periods."""
        found = hashlib.sha256(self.train.values.numpy().tobytes())
        for part in (self.train, self.valid):
            found.update(part.starts.tobytes())
        found.update(self.train.observed.numpy().tobytes())
        return found.hexdigest()

    def origin(self, row: int) -> str:
        """Return the file and the time of the first row of a window."""
        return f"{self.files[0].path}, window from {self._time(int(self.train.starts[row]))}"

    def extent(self, row: int) -> str:
        """Return the size of a window."""
        return self.train.extent(row)

    def opening(self, data: SeriesData) -> list[str]:
        """Return the size of the series, its step and its periods; then what rules changed."""
        series, season = self.series, self.season
        first = (
            f"{len(series):,} rows, one every {series.step.words()}, {self._time(0)} to "
            f"{self._time(-1)}; columns: {shown_names(series.names)}; {self.size:,} windows to "
            f"train on; validation: {self._periods()}; a season is {season:,} steps"
        )
        return [first, *series.notes]

    def validation(self, data: SeriesData) -> str:
        """Return the number of validation and test windows, and what rules changed."""
        return "; ".join([self._periods(), *self.series.notes])

    def records(self, epoch: Any, rows: Sequence[int]) -> tuple[str, str]:
        """Return the rows of windows as CSV."""
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\n")
        table.writerow(["time", *self.series.names])
        for row in rows:
            begin = int(self.train.starts[row])
            for place in range(begin, begin + self.train.context + self.train.horizon):
                table.writerow([self.series.times[place], *self.series.values[place]])
        return text.getvalue(), f"windows of {self.train.context + self.train.horizon} rows each"

    def bundle_config(self, recipe: ForecastingRecipe, reach: int) -> BundleConfig:
        """Return the columns, their scale, the sizes and the season."""
        step = self.series.step
        return SeriesBundleConfig(
            task=ForecastingTask.name,
            model=recipe.model,
            target=list(self.series.names),
            means=self.scale.mean.tolist(),
            deviations=self.scale.deviation.tolist(),
            time=recipe.data.time,
            context=recipe.data.context,
            horizon=recipe.data.horizon,
            step=(step.microseconds, step.months, step.day),
            season=self.season,
            naive_errors=self.naive_errors,
        )

    def _periods(self) -> str:
        """Return the number of validation and test windows, and where they begin."""
        parts = [f"{len(self.valid.starts):,} windows from {self._time(self._begin(self.valid))}"]
        if len(self.test.starts):
            begin = self._time(self._begin(self.test))
            parts.append(f"test: {len(self.test.starts):,} windows from {begin}")
        return "; ".join(parts)

    def _begin(self, part: SeriesWindows) -> int:
        """Return the first row that a period forecasts."""
        return int(part.starts[0]) + part.context

    def _time(self, row: int) -> str:
        text = str(self.series.times[row].astype("datetime64[s]")).replace("T", " ")
        return text.removesuffix(":00")


def read_corpus(recipe: ForecastingRecipe, base: SeriesBundle | None) -> SeriesCorpus:
    """Read the series of a recipe, and split and scale it.

    Args:
        recipe: The settings of the run.
        base: The bundle that training starts from, whose columns and scale are kept, or None.

    Returns:
        The training, validation and test windows.

    Raises:
        DataError: If the series cannot be used.
    """
    data = recipe.data
    if not data.series:
        raise DataError("no training data: give a file with a time series (--series)")
    target = data.target
    if base:  # `sections` gives these keys, and a recipe may have changed them
        for key in ("context", "horizon", "target"):
            kept, given = getattr(base.config, key), getattr(data, key)
            if kept != given:
                raise DataError(
                    f"data.{key} is {given!r}, and the bundle has {kept!r}; fine-tuning keeps it: "
                    f"leave it out (--{key})"
                )
    series = read_series(data.series, target, data.time)
    if base and series.step[:2] != base.config.step[:2]:
        raise DataError(
            f"{data.series[0]}: a row every {series.step.words()}, and the bundle was trained on "
            f"one every {Step(*base.config.step).words()}; bring the rows to that step"
        )
    name = data.series[0]
    train, valid, test = split_rows(data.split, len(series), series.step)
    need = data.context + data.horizon
    if train < need:
        raise DataError(
            f"{name}: {train:,} rows to train on are fewer than data.context {data.context} and "
            f"data.horizon {data.horizon} together; lower them, or give more rows"
        )
    scale = base.scale if base else fit_scale(series, train)
    constant = [each for each, size in zip(series.names, scale.deviation, strict=True) if not size]
    if constant and (target or len(constant) == len(series.names)):
        raise DataError(
            f"{name}: column {constant[0]!r} is constant in the {train:,} rows to train on; leave "
            "it out"
        )
    if constant:
        kept = [number for number, size in enumerate(scale.deviation) if size]
        notes = (*series.notes, f"constant columns are left out: {', '.join(constant)}")
        series = replace(series.selected(kept), notes=notes)
        scale = Scale(scale.mean[kept], scale.deviation[kept])
    periods = {"training": (0, train), "validation": (train, valid), "test": (valid, test)}
    every = windows(series, scale, data.context, data.horizon)
    parts = {period: every.between(*rows) for period, rows in periods.items()}
    for period, (first, end) in periods.items():
        if not len(parts[period].starts) and (first < end or period != "test"):
            raise DataError(
                f"{name}: the {period} period has {end - first:,} rows, too few for data.horizon "
                f"{data.horizon}; lower it, give more rows, or change data.split"
            )
    season = data.season or series.step.season()
    return SeriesCorpus(
        [CardFile(each, _lines(Path(each)), file_sha256(Path(each))) for each in data.series],
        series,
        scale,
        parts["training"],
        parts["validation"],
        parts["test"],
        season,
        _naive_errors(series, scale, train, season),
    )


def _lines(path: Path) -> int:
    """Return the number of lines of a file, for the model card."""
    with path.open("rb") as file:
        return sum(1 for _ in file)


def _naive_errors(series: Series, scale: Scale, rows: int, season: int) -> list[float]:
    """Return the mean absolute seasonal difference of each column in training, in deviations."""
    season = season if season < rows else 1
    values = np.where(series.observed, scale.scaled(series.values), np.nan)[:rows]
    differences = abs(values[season:] - values[:-season])
    seen = ~np.isnan(differences)
    means = np.where(seen, differences, 0).sum(axis=0) / np.maximum(1, seen.sum(axis=0))
    return [float(each) for each in means]


def forecast_loss(found: Tensor, batch: SeriesBatch, quantiles: Sequence[float]) -> Loss:
    """Return the loss of forecasts, "B T C Q", over the observed values of a batch.

    With quantiles it is the pinball loss, averaged over quantiles, otherwise the squared error.

    Args:
        found: The forecasts.
        batch: The batch.
        quantiles: The quantiles of the forecasts; empty for a point forecast.

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

    def how(self) -> str:
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
        found = forecast_scores(SeriesForecaster(self.bundle_of(weights)), given, check=self.check)
        faults = baseline_faults(found)
        test_set = "test period" if has_test else "validation"
        return Findings(
            [bundle_score(each, test_set) for each in found], faults, scores_enough=not faults
        )


def bundle_score(score: ForecastScore, test_set: str) -> BundleScore:
    """Return a score as a bundle records it. Scores of baselines are named after them.

    Args:
        score: The score.
        test_set: The name of the test set.
    """
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
    counter: ClassVar[str] = "values"

    def claims(self, data: Mapping[str, Any]) -> bool:
        """Return whether `[data]` names a time series."""
        return bool(data.get("series"))

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
        data = {"context": config.context, "horizon": config.horizon, "target": config.target}
        return {**super().sections(bundle), "data": data}
