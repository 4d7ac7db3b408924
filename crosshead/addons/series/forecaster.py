"""Forecasts of a series with a trained forecaster, and the bundle of one."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations, starmap
from typing import Any, ClassVar, Self

import numpy as np
import torch
from pydantic import Field, model_validator

from crosshead.addons.series.models.forecaster import (
    Forecaster,
    ForecasterConfig,
    ForecasterShape,
    build_forecaster,
)
from crosshead.addons.series.reading import Series, of_each, read_series
from crosshead.addons.series.steps import CALENDAR, Step, shown_time
from crosshead.addons.series.windows import (
    Scale,
    SeriesBatch,
    SeriesWindows,
    fit_scale,
    windows,
)
from crosshead.bundle.base import Bundle, BundleConfig
from crosshead.bundle.card import Words
from crosshead.config import MOST_POSITIONS, MOST_WIDTH
from crosshead.errors import DataError
from crosshead.models.base import Model
from crosshead.system.files import StrPath
from crosshead.system.progress import counted
from crosshead.tasks.pipeline import Pipeline

BATCH = 1 << 18
"""The largest number of values that the windows of a batch read."""


TIME = "time"
"""The name of the column of times in a forecast."""


def output_names(column: str, quantiles: Sequence[float]) -> dict[float, str]:
    """Return the names of the columns of quantiles in a forecast; the median has none."""
    return {level: f"{column} {level:g}" for level in quantiles if level != 0.5}


def repeated_output(target: Sequence[str], quantiles: Sequence[float]) -> str | None:
    """Return the first name that two columns of a forecast would have, or None."""
    of_quantiles = [name for each in target for name in output_names(each, quantiles).values()]
    names = [TIME, *target, *of_quantiles]
    return next((name for name in names if names.count(name) > 1), None)


class SeriesBundleConfig(BundleConfig):
    """The settings in the `config.json` of a forecaster's bundle."""

    # The columns to forecast, columns that are only read, and columns whose future is known.
    target: list[str] = Field(min_length=1, max_length=MOST_WIDTH)
    inputs: list[str] = Field(default_factory=list, max_length=MOST_WIDTH)
    future: list[str] = Field(default_factory=list, max_length=MOST_WIDTH)
    # The column that tells the series of a long table apart, and the name of each series in it.
    id: str | None = None
    keys: list[str] = Field(default_factory=list)
    # The means and deviations of all columns in the training period, for one series after another.
    means: list[float]
    deviations: list[float]
    # The time column, or None if it is found.
    time: str | None
    context: int = Field(ge=1, le=MOST_POSITIONS)
    horizon: int = Field(ge=1, le=MOST_POSITIONS)
    # The time between rows. Older bundles have microseconds, months and the day of the month.
    step: Step
    # Steps of a season, for the seasonal naive forecast.
    season: int = Field(ge=1, le=MOST_POSITIONS)
    # The mean absolute error, in deviations, of the seasonal naive forecast of each target in the
    # training period, for one series after another.
    naive_errors: list[float]

    @model_validator(mode="after")
    def _check_columns(self) -> Self:
        sizes = {"means": self.columns, "deviations": self.columns, "naive_errors": self.target}
        for key, columns in sizes.items():
            expected = max(1, len(self.keys)) * len(columns)
            if len(getattr(self, key)) != expected:
                raise ValueError(
                    f"{key}: expected a number for each of {expected} columns, found "
                    f"{len(getattr(self, key))}"
                )
        quantiles = self.model.quantiles if isinstance(self.model, ForecasterConfig) else []
        if (name := repeated_output(self.target, quantiles)) is not None:
            raise ValueError(
                f"a forecast would have two columns called {name!r}; rename the column in the file"
            )
        if min(self.deviations) <= 0 or self.step.is_zero:
            raise ValueError("expected deviations and a step above 0")
        return self

    @property
    def columns(self) -> list[str]:
        """All columns that the model reads, those to forecast first and those known ahead last."""
        return [*self.target, *self.inputs, *self.future]

    @property
    def sizes(self) -> ForecasterShape:
        """The sizes of the data."""
        known = CALENDAR + len(self.future)
        sizes = (self.context, self.horizon, len(self.target), known, len(self.inputs))
        return ForecasterShape(*sizes)


@dataclass(frozen=True)
class SeriesBundle(Bundle):
    """A trained forecaster, with the columns and their scale."""

    config: SeriesBundleConfig
    model: Forecaster

    config_type: ClassVar[type[BundleConfig]] = SeriesBundleConfig

    @property
    def longest_input(self) -> int:
        """The steps of a context."""
        return self.config.context

    @cached_property
    def scales(self) -> dict[str, Scale]:
        """The scale of all columns that the model reads, by the name of the series."""
        numbers = (self.config.means, self.config.deviations)
        shape = (-1, len(self.config.columns))
        each = zip(*(np.array(column).reshape(shape) for column in numbers), strict=True)
        return dict(zip(self.config.keys or [""], starmap(Scale, each), strict=True))

    def scale_of(self, series: Series, rows: int) -> Scale:
        """Return the scale of a series."""
        return self.scales.get(series.key) or fit_scale(series, rows)

    @classmethod
    def build(cls, config: BundleConfig) -> Model:
        """Build a model for the sizes in `config`."""
        assert isinstance(config, SeriesBundleConfig)
        return build_forecaster(config.model, config.sizes)

    def why_not_averaged(self, other: Bundle) -> str:
        """Return why another bundle of the same model cannot be averaged with this one, or ""."""
        data = ("target", "inputs", "future", "id", "keys", "means", "deviations")
        keys = (*data, "context", "horizon", "step")
        if all(getattr(self.config, key) == getattr(other.config, key) for key in keys):
            return ""
        return (
            "its series differs from the series of {first}; only bundles trained on the same "
            "columns, period, context and horizon can be averaged"
        )


@dataclass(frozen=True)
class Forecast:
    """The forecast of a series."""

    series: Series = field(repr=False)
    """The columns to forecast, with all rows of the file. A picture shows those from `first` on as
    later values."""
    first: int
    """The row of the series that would be the first step of the forecast."""
    times: np.ndarray
    """The time of each step, "T"."""
    values: np.ndarray
    """The forecast, "T C": the median, or the mean of a model without quantiles."""
    quantiles: dict[float, np.ndarray]
    """The forecast of each quantile, "T C"; empty for a model without quantiles."""
    notes: tuple[str, ...] = ()
    """Messages about the changes that rules made to the series, and about filled values that the
    model read."""

    def rows(self) -> Iterator[dict[str, str | float]]:
        """Yield the forecast as rows of a table: time, columns, and columns of quantiles.

        The rows of a series from a long table begin with its name, and keep the name of the column
        of times.
        """
        times = self.times
        if times.dtype.kind == "M":
            days = (times == times.astype("datetime64[D]")).all()
            times = times.astype(f"datetime64[{'D' if days else 's'}]")
        series = self.series
        for step, time in enumerate(times):
            row: dict[str, str | float] = {series.id: series.key} if series.id else {}
            row[series.time if series.id else TIME] = str(time).replace("T", " ")
            for column, name in enumerate(series.names):
                row[name] = float(self.values[step, column])
                for level, called in output_names(name, list(self.quantiles)).items():
                    row[called] = float(self.quantiles[level][step, column])
            yield row


class SeriesForecaster(Pipeline):
    """Forecasts a series. A call takes a file, a table or a `Series`, and returns a `Forecast`."""

    does, verb = "forecasts a time series", "forecast"
    usage = "Forecast with: {command} {bundle} --series FILE"

    bundle: SeriesBundle

    @property
    def model(self) -> Forecaster:
        """The bundle's model."""
        return self.bundle.model

    def __call__(self, series: StrPath | Series | Any, start: str | None = None) -> Forecast:
        """Return the forecast of the steps after a series.

        Args:
            series: A CSV or Parquet file with the columns of the training data, a table such as a
                DataFrame or a dict of columns, or a `Series`.
            start: The time of the first step to forecast, by default the step after the last row
                with a value of a column to forecast. Later rows are not read, except for columns
                whose future is known.

        Raises:
            DataError: If the series lacks a column, has another time between rows, has fewer rows
                than a context, a column has no value in the context, or it is a table of several
                series.
        """
        every = self.checked(series)
        if len(every) > 1:
            raise DataError(f"the table has {len(every):,} series; call `every` for all of them")
        return self._forecast(every[0], start)

    def every(self, series: StrPath | Any, start: str | None = None) -> list[Forecast]:
        """Return the forecasts of all series of a file or a table.

        A series of a long table that cannot be forecast is left out, with a message.

        Args:
            series: As of a call, or a long table.
            start: As of a call; each series begins at its own row of this time.

        Raises:
            DataError: As for a call, or if no series can be forecast.
        """
        found, notes = of_each(self.checked(series), lambda each: self._forecast(each, start))
        found[0] = replace(found[0], notes=(*found[0].notes, *notes))
        return found

    def _forecast(self, series: Series, start: str | None) -> Forecast:
        """Return the forecast of a series with the columns that the model reads."""
        config = self.bundle.config
        targets, read = len(config.target), len(config.target) + len(config.inputs)
        known = np.flatnonzero(series.observed[:, :targets].any(axis=1))
        first = int(known[-1]) + 1 if start is None else series.row(start)
        notes = list(series.notes)
        if first < len(series) and start is None and not config.future:
            notes.append(
                f"the forecast begins at {shown_time(series.times[first])}: the last "
                f"{counted(len(series) - first, 'row')} have no value of a column to forecast"
            )
        if first < config.context:
            raise DataError(
                f"the series has {first:,} rows before the forecast, and the model reads "
                f"{config.context:,}; give more rows"
            )
        ahead = series.step.after(series.times[first - 1], config.horizon)
        _check_future(series.selected(range(read, len(config.columns))), first, ahead)
        # Only columns known ahead are read in the steps to forecast, so the others repeat their
        # last value there.
        last = len(series) if config.future else first
        rows = np.arange(first - config.context, first + config.horizon).clip(max=last - 1)
        past = rows[: config.context]
        notes += _filled_notes(series, past)
        scale = self.bundle.scale_of(series, first).centred()
        window = replace(
            series,
            times=np.concatenate([series.times[past], ahead]),
            values=series.values[rows],
            observed=series.observed[rows],
        )
        [(_, _, found)] = self.predictions(self._windows([(window, scale)]))
        units = [*scale.first(targets).unscaled(np.moveaxis(found[0], -1, 0))]
        levels = dict(zip(self.quantiles, units, strict=True)) if self.quantiles else {}
        forecast = series.selected(range(targets))
        return Forecast(forecast, first, ahead, units[self.median], levels, tuple(notes))

    def checked(self, series: StrPath | Series | Any) -> list[Series]:
        """Return series with the columns that the model reads; a file or a table is read first.

        Args:
            series: The series, its file, or a table of it.

        Raises:
            DataError: If a column is missing, or the time between rows is another one.
        """
        config = self.bundle.config
        if isinstance(series, Series):
            every = [series]
        else:
            files = [os.fspath(series)] if isinstance(series, str | os.PathLike) else series
            every = read_series(files, config.columns, config.time, config.id or "", config.step)
        return [each.fitting(config.columns, config.step) for each in every]

    def windows(self, given: Sequence[Series], start: str | None = None) -> SeriesWindows:
        """Return all windows of series that forecast rows from a time on, for scores.

        Args:
            given: The series.
            start: The time of the first row to forecast, or None for the first after a context.

        Raises:
            DataError: If there is no window with a value to score.
        """
        context, horizon = self.bundle.config.context, self.bundle.config.horizon
        lengths = np.array([len(each) for each in given])
        first = np.array([0 if start is None else each.since(start) for each in given])
        parts = [
            (each, self.bundle.scale_of(each, max(context, row)).centred())
            for each, row in zip(given, first, strict=True)
        ]
        found = self._windows(parts).between(first, lengths)
        if not len(found.starts):
            raise DataError(
                f"there is no forecast to score: it needs {context:,} rows before it, and a value "
                f"in its {counted(horizon, 'step')}{f' from {start} on' if start else ''}; give "
                "more rows, or an earlier start"
            )
        return found

    def _windows(self, parts: Sequence[tuple[Series, Scale]]) -> SeriesWindows:
        """Return all windows of series."""
        config = self.bundle.config
        sizes = config.context, config.horizon, len(config.target), len(config.future)
        return windows(parts, *sizes)

    def predictions(
        self, given: SeriesWindows, progress: Callable[[float], None] = lambda share: None
    ) -> Iterator[tuple[list[int], SeriesBatch, np.ndarray]]:
        """Yield the numbers of windows in batches, the batches, and forecasts, "B T C Q".

        Batches and forecasts are scaled. Quantiles that cross are sorted.

        Args:
            given: The windows.
            progress: Called with the share that is done, from 0 to 1, before each batch.

        Reference:
            Chernozhukov et al. 2010, section 2 (sorted quantiles).
        """
        done = 0
        for rows in given.in_order(max(BATCH, int(given.lengths[0, 0]))):
            progress(done / len(given.starts))
            done += len(rows)
            batch = given.collate(places := rows.tolist())
            with torch.inference_mode():
                found = self.model(batch.context.to(self.device), batch.known.to(self.device))
            yield places, batch, np.sort(found.cpu().numpy().astype(np.float64), axis=-1)

    @property
    def quantiles(self) -> list[float]:
        """The quantiles of the model; empty for a point forecast."""
        return self.model.config.quantiles

    @property
    def median(self) -> int:
        """The index of the median, or of the only forecast."""
        return self.model.config.median

    @property
    def intervals(self) -> list[tuple[int, int]]:
        """The indices of both ends of each symmetric interval, such as 0.1 and 0.9."""
        levels = enumerate(self.quantiles)
        return [
            (low, high)
            for (low, below), (high, above) in combinations(levels, 2)
            if abs(below + above - 1) < 1e-9
        ]

    def facts(self) -> list[list[str]]:
        """Return the columns, the step, the context, the horizon and the quantiles."""
        config = self.bundle.config
        rows = [
            ["columns", shown_names(config.target)],
            *([["inputs", shown_names(config.inputs)]] * bool(config.inputs)),
            *([["known ahead", shown_names(config.future)]] * bool(config.future)),
            *([["series", f"{len(config.keys):,} of {config.id}"]] * bool(config.id)),
            ["step", config.step.words()],
            ["context", f"{config.context:,} steps"],
            ["horizon", f"{config.horizon:,} steps"],
        ]
        return rows + [["quantiles", ", ".join(map(str, self.quantiles))]] * bool(self.quantiles)

    @classmethod
    def words(cls, config: SeriesBundleConfig) -> Words:
        """Return the words of a model card."""
        return Words(
            does="forecasts a time series",
            hub_task="time-series-forecasting",
            command="crosshead forecast DIR --series series.csv",
            variable="forecast",
            call='forecast("series.csv").values',
            scored="Forecasts of",
        )


def _check_future(future: Series, first: int, ahead: np.ndarray) -> None:
    """Refuse columns whose future is known if they have no value in a step to forecast."""
    there = future.observed[first : first + len(ahead)]
    if there.sum() < len(ahead) * len(future.names):
        raise DataError(
            f"a value of {shown_names(future.names)} is missing in the steps to forecast, and the "
            f"model reads them all; give rows from {shown_time(ahead[0])} to "
            f"{shown_time(ahead[-1])}"
        )


def _filled_notes(series: Series, past: np.ndarray) -> list[str]:
    """Return a message if values in the context were filled; refuse a column without values."""
    seen = series.observed[past]
    if not seen.any(axis=0).all():
        name = series.names[int(seen.any(axis=0).argmin())]
        raise DataError(
            f"column {name!r} has no value in the {counted(len(seen), 'row')} that the model reads "
            f"from {shown_time(series.times[past[0]])} on; give its values, or forecast from "
            "another time"
        )
    filled = (
        f"{(~seen).sum():,} of the {counted(seen.size, 'value')} that the model reads are filled"
    )
    return [filled] * (not seen.all())


def shown_names(names: Sequence[str], most: int = 8) -> str:
    """Return names as text; a long list is cut."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
