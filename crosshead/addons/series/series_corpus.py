"""Series as training data: read, split by time, scaled, and cut into windows."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import numpy as np

from crosshead.addons.series.forecaster import SeriesBundle, SeriesBundleConfig, shown_names
from crosshead.addons.series.models.forecaster import ForecasterConfig
from crosshead.addons.series.reading import Series, of_each, read_series
from crosshead.addons.series.series_recipe import ForecastingRecipe, SeriesData
from crosshead.addons.series.steps import CALENDAR, pandas, shown_time
from crosshead.addons.series.tables import read_table
from crosshead.addons.series.windows import Scale, SeriesWindows, fit_scale, split_rows, windows
from crosshead.bundle.base import Bundle, BundleConfig
from crosshead.bundle.card import CardFile
from crosshead.config import validate
from crosshead.errors import DataError
from crosshead.recipe.recipe import Recipe
from crosshead.system.lines import file_sha256
from crosshead.system.progress import counted
from crosshead.tasks.corpus import Corpus


@dataclass(frozen=True)
class SeriesCorpus(Corpus):
    """Series, scaled, and their windows by period."""

    notes: Sequence[str]
    """Messages about the changes that rules made."""
    train: SeriesWindows
    valid: SeriesWindows
    test: SeriesWindows
    """The windows of the test period; empty if there is none."""
    season: int
    naive_errors: list[float]
    """The seasonal naive errors of each column to forecast, for one series after another."""

    kind: ClassVar[type[Bundle]] = SeriesBundle
    unit, unit_name = "window", "windows"

    @property
    def series(self) -> list[Series]:
        """Each series: the columns to forecast, those that are only read, and those known ahead."""
        return [series for series, _ in self.train.parts]

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
        """Return the checksum of the scaled series and their periods."""
        found = hashlib.sha256(self.train.values.numpy().tobytes())
        for part in (self.train, self.valid):
            found.update(part.starts.tobytes())
        found.update(self.train.observed.numpy().tobytes())
        found.update(self.train.known[:, CALENDAR:].numpy().tobytes())
        return found.hexdigest()

    def origin(self, row: int) -> str:
        """Return the file and the time of the first row of a window."""
        names = " to ".join(dict.fromkeys((self.files[0].path, self.files[-1].path)))
        series, begin = self.train.place(row)
        of = f"series {series.key}, " if series.id else ""
        return f"{names}, {of}window from {shown_time(series.times[begin])}"

    def opening(self, data: SeriesData) -> list[str]:
        """Return the size of the series, their step and periods; then what rules changed."""
        first, rows = self.series[0], sum(map(len, self.series))
        many = f"{len(self.series):,} series of {first.id}, " * bool(first.id)
        ends = [time for each in self.series for time in each.times[[0, -1]]]
        names = {"inputs": data.inputs, "known ahead": data.future}
        others = "".join(f"; {what}: {shown_names(each)}" for what, each in names.items() if each)
        opening = (
            f"{many}{rows:,} rows, one every {first.step.words()}, {shown_time(min(ends))} to "
            f"{shown_time(max(ends))}; columns: {shown_names(self.target)}{others}; "
            f"{self.size:,} windows to train on; validation: {self._periods()}; a season is "
            f"{counted(self.season, 'step')}"
        )
        return [opening, *self.notes]

    def validation(self, data: SeriesData) -> str:
        """Return the number of validation and test windows, and what rules changed."""
        return "; ".join([self._periods(), *self.notes])

    def bundle_config(self, recipe: ForecastingRecipe, longest_input: int) -> BundleConfig:
        """Return the columns, their scale, the sizes and the season."""
        first, data = self.series[0], recipe.data
        scales = [scale for _, scale in self.train.parts]
        values = {
            "task": ForecasterConfig.task,
            "model": recipe.model,
            "target": list(self.target),
            "inputs": data.inputs,
            "future": data.future,
            "time": data.time,
            "context": data.context,
            "horizon": data.horizon,
            "id": first.id or None,
            "keys": [each.key for each in self.series if each.id],
            "means": [value for each in scales for value in each.mean.tolist()],
            "deviations": [value for each in scales for value in each.deviation.tolist()],
            "step": first.step,
            "season": self.season,
            "naive_errors": self.naive_errors,
        }
        return validate(SeriesBundleConfig, values)

    @property
    def target(self) -> Sequence[str]:
        """The columns to forecast."""
        return self.series[0].names[: self.train.targets]

    def _periods(self) -> str:
        """Return the number of validation and test windows, and where they begin."""
        parts = []
        for what, part in (("", self.valid), ("test: ", self.test)):
            if len(part):
                series, begin = part.place(0)
                first = shown_time(series.times[begin + part.context])
                parts.append(f"{what}{len(part):,} windows from {first}")
        return "; ".join(parts)


def read_corpus(recipe: ForecastingRecipe, base: SeriesBundle | None) -> SeriesCorpus:
    """Read the series of a recipe, and split and scale them."""
    data = recipe.data
    if not data.series:
        raise DataError("no training data: give a file with a time series (--series)")
    if base:
        _check_kept(data, base)
    names = [*data.target, *data.inputs, *data.future]
    every = read_series(data.series, names, data.time, data.id, base.config.step if base else None)
    step, path, notes = every[0].step, data.series[0], list(every[0].notes)
    if base:
        every = [each.fitting(base.config.columns, base.config.step) for each in every]
    parts, periods = _usable(every, data, base, notes)
    targets = len(data.target) or len(parts[0][0].names)
    found = windows(parts, data.context, data.horizon, targets, len(data.future))
    training, validation, test = _by_period(found, periods, data)
    season, train = data.season or step.season(), counted(int(periods[:, 0].min()), "row")
    if season >= periods[:, 0].min():
        if data.season:
            raise DataError(
                f"{path}: data.season {season} is not shorter than the training period of {train}; "
                "lower it, or give more rows"
            )
        usual = counted(season, "step")
        notes.append(f"no season: the usual {usual} are not shorter than the {train} of training")
        season = 1
    naive: list[float] = []
    for (series, scale), (rows, _, _) in zip(parts, periods, strict=True):
        read, units = series.selected(range(targets)), scale.first(targets)
        naive += _naive_errors(read, units, rows, season)
    files = [
        CardFile(name, len(read_table(Path(name), [])), file_sha256(Path(name)))
        for name in data.series
    ]
    return SeriesCorpus(files, notes, training, validation, test, season, naive)


def _usable(
    every: Sequence[Series], data: SeriesData, base: SeriesBundle | None, notes: list[str]
) -> tuple[list[tuple[Series, Scale]], np.ndarray]:
    """Return series with their scales, and the rows where the periods of each end."""

    def use(series: Series) -> tuple[tuple[Series, Scale], tuple[int, int, int]]:
        ends = split_rows(data.split, len(series), series.step)
        _check_lengths(ends, data)
        scale = base.scale_of(series, ends[0]) if base else fit_scale(series, ends[0])
        return _without_constants(series, scale, ends[0], data, notes), ends

    found, left = of_each(every, use)
    notes += left
    return [part for part, _ in found], np.array([ends for _, ends in found])


def _check_lengths(ends: tuple[int, int, int], data: SeriesData) -> None:
    """Check that every period has a window."""
    train, valid, test = np.diff((0, *ends)).tolist()
    if train < data.context + data.horizon or min(valid, test or valid) < data.horizon:
        raise DataError(
            f"{data.series[0]}: the periods of training, validation and test have {train:,}, "
            f"{valid:,} and {test:,} rows, too few for {counted(data.horizon, 'step')} after "
            f"{data.context:,}; lower data.horizon or data.context, give more rows, or change "
            "data.split"
        )


def _check_kept(data: SeriesData, base: SeriesBundle) -> None:
    """Check the keys that fine-tuning keeps: the bundle gave them, and a recipe may differ."""
    for key in ("context", "horizon", "target", "inputs", "future", "id"):
        kept, given = getattr(base.config, key), getattr(data, key)
        if kept != given:
            raise DataError(
                f"data.{key} is {given!r}, and the bundle has {kept!r}; fine-tuning keeps it: "
                f"leave it out (--{key})"
            )


def _without_constants(
    series: Series, scale: Scale, train: int, data: SeriesData, notes: list[str]
) -> tuple[Series, Scale]:
    """Return a series and its scale without constant columns; refuse those that are named.

    A series of a long table keeps its columns. Those that it only reads may be constant.
    """
    constant = scale.deviation == 0
    if series.id:
        constant[len(data.target) or len(constant) :] = False
        scale = scale.centred()
    if not constant.any():
        return series, scale
    names = [series.names[number] for number in np.flatnonzero(constant)]
    if series.id or data.target or constant.all():
        raise DataError(
            f"{data.series[0]}: column {names[0]!r} is constant in the {train:,} rows to train on; "
            "leave it out"
        )
    notes.append(f"constant columns are left out: {', '.join(names)}")
    kept = np.flatnonzero(~constant)
    return series.selected(kept.tolist()), Scale(scale.mean[kept], scale.deviation[kept])


def _by_period(every: SeriesWindows, ends: np.ndarray, data: SeriesData) -> Iterator[SeriesWindows]:
    """Yield the windows of training, validation and test; refuse a period that has none."""
    for period, (first, end) in zip(
        ("training", "validation", "test"), pairwise((0 * ends[:, 0], *ends.T)), strict=True
    ):
        found = every.between(first, end)
        rows = int((end - first).sum())
        if not len(found.starts) and (rows or period != "test"):
            raise DataError(
                f"{data.series[0]}: no value of the columns to forecast is known in the {period} "
                f"period of {rows:,} rows; give values, or change data.split"
            )
        yield found


def _naive_errors(series: Series, scale: Scale, rows: int, season: int) -> list[float]:
    """Return the mean absolute seasonal difference of each column in training, in deviations."""
    values = np.where(series.observed, scale.scaled(series.values), np.nan)[:rows]
    found: list[float] = pandas().DataFrame(values).diff(season).abs().mean().fillna(0.0).tolist()
    return found
