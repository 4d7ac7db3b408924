"""A series as training data: read, split by time, scaled, and cut into windows."""

import csv
import hashlib
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from crosshead.bundle.base import Bundle
from crosshead.bundle.card import CardFile
from crosshead.bundle.config import BundleConfig
from crosshead.caller import setting
from crosshead.data.series.reading import Series, read_series
from crosshead.data.series.section import SeriesData
from crosshead.data.series.steps import Step, shown_time
from crosshead.data.series.tables import read_table
from crosshead.data.series.windows import Scale, SeriesWindows, fit_scale, split_rows, windows
from crosshead.errors import DataError
from crosshead.models.forecaster import ForecasterConfig
from crosshead.pipelines.forecaster import (
    SeriesBundle,
    SeriesBundleConfig,
    repeated_output,
    shown_names,
)
from crosshead.recipe.recipe import Recipe
from crosshead.recipe.series_recipe import ForecastingRecipe
from crosshead.system.lines import file_sha256
from crosshead.system.progress import counted
from crosshead.tasks.corpus import Corpus


@dataclass(frozen=True)
class SeriesCorpus(Corpus):
    """A series, scaled, and its windows by period."""

    series: Series
    """The columns to forecast, then those that are only read."""
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
    def longest_input(self) -> int:
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
        names = " to ".join(dict.fromkeys((self.files[0].path, self.files[-1].path)))
        return f"{names}, window from {self._time(int(self.train.starts[row]))}"

    def extent(self, row: int) -> str:
        """Return the size of a window."""
        return self.train.extent(row)

    def opening(self, data: SeriesData) -> list[str]:
        """Return the size of the series, its step and its periods; then what rules changed."""
        series, season = self.series, self.season
        first = (
            f"{len(series):,} rows, one every {series.step.words()}, {self._time(0)} to "
            f"{self._time(-1)}; columns: {shown_names(self.target)}{self._inputs()}; "
            f"{self.size:,} windows to train on; validation: {self._periods()}; a season is "
            f"{counted(season, 'step')}"
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

    def bundle_config(self, recipe: ForecastingRecipe, longest_input: int) -> BundleConfig:
        """Return the columns, their scale, the sizes and the season."""
        step = self.series.step
        return SeriesBundleConfig(
            task=ForecasterConfig.task,
            model=recipe.model,
            target=list(self.target),
            inputs=list(self.series.names[self.train.targets :]),
            means=self.scale.mean.tolist(),
            deviations=self.scale.deviation.tolist(),
            time=recipe.data.time,
            context=recipe.data.context,
            horizon=recipe.data.horizon,
            step=(step.microseconds, step.months, step.day),
            season=self.season,
            naive_errors=self.naive_errors,
        )

    @property
    def target(self) -> Sequence[str]:
        """The columns to forecast."""
        return self.series.names[: self.train.targets]

    def _inputs(self) -> str:
        """Return the columns that are only read, as a clause."""
        names = self.series.names[self.train.targets :]
        return f"; inputs: {shown_names(names)}" if names else ""

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
        return shown_time(self.series.times[row])


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
    if base:
        _check_kept(data, base)
    series = read_series(data.series, [*data.target, *data.inputs], data.time)
    if base and series.step[:2] != base.config.step[:2]:
        raise DataError(
            f"{data.series[0]}: a row every {series.step.words()}, and the bundle was trained on "
            f"one every {Step(*base.config.step).words()}; bring the rows to that step"
        )
    periods = split_rows(data.split, len(series), series.step)
    _check_lengths(periods, data)
    train = periods[0]
    scale = base.scale if base else fit_scale(series, train)
    series, scale = _without_constants(series, scale, train, data)
    targets = len(data.target) or len(series.names)
    assert isinstance(recipe.model, ForecasterConfig)
    name = repeated_output(series.names[:targets], recipe.model.quantiles)
    if name is not None:
        raise DataError(
            f"{data.series[0]}: a forecast would have two columns called {name!r}; rename the "
            "column in the file, or name other columns (--target)"
        )
    every = windows(series, scale, data.context, data.horizon, targets)
    training, validation, test = _by_period(every, periods, data)
    season = data.season or series.step.season()
    if season >= train:
        if data.season:
            raise DataError(
                f"{data.series[0]}: data.season {season} is not shorter than the training period, "
                f"which has {counted(train, 'row')}; lower it, or give more rows"
            )
        note = (
            f"no season: the usual {counted(season, 'step')} are not shorter than the training "
            f"period of {counted(train, 'row')}"
        )
        series, season = replace(series, notes=(*series.notes, note)), 1
    return SeriesCorpus(
        [_card_file(Path(each)) for each in data.series],
        series,
        scale,
        training,
        validation,
        test,
        season,
        _naive_errors(series.selected(range(targets)), scale.first(targets), train, season),
    )


def _check_lengths(ends: tuple[int, int, int], data: SeriesData) -> None:
    """Check that every period has a window; the message names sizes that fit."""
    train, valid, test = (end - first for first, end in pairwise((0, *ends)))
    scored = min(valid, test) if test else valid
    if train >= data.context + data.horizon and scored >= data.horizon:
        return
    horizon = min(data.horizon, scored, train // 2)
    context = min(data.context, train - horizon)
    sizes = (
        setting("data.horizon", horizon, has_flag=True),
        setting("data.context", context, has_flag=True),
    )
    fits = f"{' and '.join(sizes)} fit, or " if horizon > 0 else ""
    raise DataError(
        f"{data.series[0]}: the periods of training, validation and test have {train:,}, {valid:,} "
        f"and {test:,} rows, too few for {counted(data.horizon, 'step')} after "
        f"{data.context:,}; {fits}give more rows, or change data.split"
    )


def _check_kept(data: SeriesData, base: SeriesBundle) -> None:
    """Check the keys that fine-tuning keeps: the bundle gave them, and a recipe may differ."""
    for key in ("context", "horizon", "target", "inputs"):
        kept, given = getattr(base.config, key), getattr(data, key)
        if kept != given:
            raise DataError(
                f"data.{key} is {given!r}, and the bundle has {kept!r}; fine-tuning keeps it: "
                f"leave it out (--{key})"
            )


def _without_constants(
    series: Series, scale: Scale, train: int, data: SeriesData
) -> tuple[Series, Scale]:
    """Return the series and its scale without constant columns; refuse those that are named."""
    constant = [each for each, size in zip(series.names, scale.deviation, strict=True) if not size]
    if constant and (data.target or len(constant) == len(series.names)):
        raise DataError(
            f"{data.series[0]}: column {constant[0]!r} is constant in the {train:,} rows to train "
            "on; leave it out"
        )
    if not constant:
        return series, scale
    kept = [number for number, size in enumerate(scale.deviation) if size]
    notes = (*series.notes, f"constant columns are left out: {', '.join(constant)}")
    return (
        replace(series.selected(kept), notes=notes),
        Scale(scale.mean[kept], scale.deviation[kept]),
    )


def _by_period(
    every: SeriesWindows, ends: tuple[int, int, int], data: SeriesData
) -> Iterator[SeriesWindows]:
    """Yield the windows of training, validation and test; refuse a period that has none."""
    for period, (first, end) in zip(
        ("training", "validation", "test"), pairwise((0, *ends)), strict=True
    ):
        found = every.between(first, end)
        if not len(found.starts) and (first < end or period != "test"):
            raise DataError(
                f"{data.series[0]}: no value of the columns to forecast is known in the {period} "
                f"period of {end - first:,} rows; give values, or change data.split"
            )
        yield found


def _card_file(path: Path) -> CardFile:
    """Return the number of rows and the checksum of a file."""
    return CardFile(str(path), len(read_table(path)), file_sha256(path))


def _naive_errors(series: Series, scale: Scale, rows: int, season: int) -> list[float]:
    """Return the mean absolute seasonal difference of each column in training, in deviations."""
    values = np.where(series.observed, scale.scaled(series.values), np.nan)[:rows]
    differences = abs(values[season:] - values[:-season])
    seen = ~np.isnan(differences)
    means = np.where(seen, differences, 0).sum(axis=0) / np.maximum(1, seen.sum(axis=0))
    return [float(each) for each in means]
