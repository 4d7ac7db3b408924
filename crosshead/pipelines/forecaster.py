"""Forecasts of a series with a trained forecaster, and the bundle of one."""

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import Tensor

from crosshead.bundle.base import Bundle
from crosshead.bundle.card import Words
from crosshead.bundle.config import BundleConfig
from crosshead.config import MOST_POSITIONS, MOST_WIDTH, nearest
from crosshead.data.series.reading import Series, read_series
from crosshead.data.series.steps import CALENDAR, Step, calendar, shown_time
from crosshead.data.series.tables import table_lines
from crosshead.data.series.windows import Scale, SeriesBatch, SeriesWindows, scaled_values, windows
from crosshead.errors import DataError
from crosshead.models.base import Model
from crosshead.models.forecaster import Forecaster, ForecasterConfig, ForecasterShape
from crosshead.models.registry import build_forecaster
from crosshead.pipelines.base import Pipeline
from crosshead.system.files import StrPath
from crosshead.system.progress import counted

BATCH = 1 << 18
"""The largest number of values that the windows of a batch read."""


TIME = "time"
"""The name of the column of times in a forecast."""


def output_names(column: str, quantiles: Sequence[float]) -> dict[float, str]:
    """Return the names of the columns of quantiles in a forecast; the median has none.

    Args:
        column: The column that is forecast.
        quantiles: The quantiles.
    """
    return {level: f"{column} {level:g}" for level in quantiles if level != 0.5}


def repeated_output(target: Sequence[str], quantiles: Sequence[float]) -> str | None:
    """Return the first name that two columns of a forecast would have, or None.

    Args:
        target: The columns that are forecast.
        quantiles: The quantiles.
    """
    of_quantiles = [name for each in target for name in output_names(each, quantiles).values()]
    names = [TIME, *target, *of_quantiles]
    return next((name for name, count in Counter(names).items() if count > 1), None)


class SeriesBundleConfig(BundleConfig):
    """The settings in the `config.json` of a forecaster's bundle."""

    # The columns to forecast, then columns that are only read, and the means and deviations of all
    # of them in the training period.
    target: list[str] = Field(min_length=1, max_length=MOST_WIDTH)
    inputs: list[str] = Field(default_factory=list, max_length=MOST_WIDTH)
    means: list[float]
    deviations: list[float]
    # The time column, or None if it is found.
    time: str | None
    context: int = Field(ge=1, le=MOST_POSITIONS)
    horizon: int = Field(ge=1, le=MOST_POSITIONS)
    # The time between rows: microseconds, or months and the day of the month.
    step: tuple[int, int, int] = Field(strict=False)
    # Steps of a season, for the seasonal naive forecast.
    season: int = Field(ge=1, le=MOST_POSITIONS)
    # The mean absolute error, in deviations, of the seasonal naive forecast of each target in the
    # training period.
    naive_errors: list[float]

    @model_validator(mode="after")
    def _check_columns(self) -> Self:
        sizes = {"means": self.columns, "deviations": self.columns, "naive_errors": self.target}
        for key, columns in sizes.items():
            if len(getattr(self, key)) != len(columns):
                raise ValueError(
                    f"{key}: expected a number for each of {len(columns)} columns, found "
                    f"{len(getattr(self, key))}"
                )
        quantiles = self.model.quantiles if isinstance(self.model, ForecasterConfig) else []
        if (name := repeated_output(self.target, quantiles)) is not None:
            raise ValueError(f"two columns of its forecasts would be called {name!r}")
        if min(self.deviations) <= 0 or min(self.step) < 0 or not any(self.step[:2]):
            raise ValueError("expected deviations and a step above 0")
        return self

    @property
    def columns(self) -> list[str]:
        """All columns that the model reads, those to forecast first."""
        return [*self.target, *self.inputs]

    @property
    def sizes(self) -> ForecasterShape:
        """The sizes of the data."""
        sizes = (self.context, self.horizon, len(self.target), CALENDAR, len(self.inputs))
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

    @property
    def scale(self) -> Scale:
        """The scale of all columns that the model reads."""
        return Scale(np.array(self.config.means), np.array(self.config.deviations))

    @classmethod
    def build(cls, config: BundleConfig) -> Model:
        """Build a model for the sizes in `config`."""
        assert isinstance(config, SeriesBundleConfig)
        return build_forecaster(config.model, config.sizes)

    def why_not_averaged(self, other: Bundle) -> str:
        """Return why another bundle of the same model cannot be averaged with this one, or ""."""
        keys = ("target", "inputs", "means", "deviations", "context", "horizon", "step")
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
        """Yield the forecast as rows of a table: time, columns, and columns of quantiles."""
        unit = "D" if (self.times == self.times.astype("datetime64[D]")).all() else "s"
        for step, time in enumerate(self.times.astype(f"datetime64[{unit}]")):
            row: dict[str, str | float] = {TIME: str(time).replace("T", " ")}
            for column, name in enumerate(self.series.names):
                row[name] = float(self.values[step, column])
                for level, called in output_names(name, list(self.quantiles)).items():
                    row[called] = float(self.quantiles[level][step, column])
            yield row


class SeriesForecaster(Pipeline):
    """Forecasts a series. A call takes a file, or a `Series`, and returns a `Forecast`."""

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
                with a value of a column to forecast. Later rows are not read.

        Raises:
            DataError: If the series lacks a column, has another time between rows, has fewer rows
                than a context, or a column has no value in the context.
        """
        series = self.checked(series)
        config, scale, step = self.bundle.config, self.bundle.scale, series.step
        targets = len(config.target)
        known = np.flatnonzero(series.observed[:, :targets].any(axis=1))
        first = int(known[-1]) + 1 if start is None else series.row(start)
        ended: tuple[str, ...] = ()
        if first < len(series) and start is None:
            left = counted(len(series) - first, "row")
            ended = (
                f"the last {left} have no value of a column to forecast; the forecast begins at "
                f"{shown_time(series.times[first])}",
            )
        if first < config.context:
            raise DataError(
                f"the series has {first:,} rows before the forecast, and the model reads "
                f"{config.context:,}; give more rows"
            )
        past = slice(first - config.context, first)
        notes = (*series.notes, *ended, *_filled_notes(series, past))
        ahead = step.after(series.times[first - 1], config.horizon)
        times = np.concatenate([series.times[past], ahead])
        inputs = scaled_values(series, scale, past), calendar(times)
        with torch.inference_mode():
            found = self.model(*(torch.from_numpy(each)[None].to(self.device) for each in inputs))
        levels_first = np.moveaxis(_sorted(found)[0], -1, 0)
        units = [scale.first(targets).unscaled(each) for each in levels_first]
        levels = dict(zip(self.quantiles, units, strict=True)) if self.quantiles else {}
        forecast = series.selected(range(targets))
        return Forecast(forecast, first, ahead, units[self.median], levels, notes)

    def checked(self, series: StrPath | Series | Any) -> Series:
        """Return a series with the columns that the model reads; a file or a table is read first.

        Args:
            series: The series, its file, or a table of it.

        Raises:
            DataError: If a column is missing, or the time between rows is another one.
        """
        config = self.bundle.config
        if isinstance(series, str | os.PathLike):
            series = read_series([os.fspath(series)], config.columns, config.time)
        elif not isinstance(series, Series):
            with tempfile.TemporaryDirectory() as scratch:
                path = Path(scratch, "table.csv")
                path.write_text("".join(f"{line}\n" for line in table_lines(series)))
                series = read_series([str(path)], config.columns, config.time)
        missing = [name for name in config.columns if name not in series.names]
        if missing:
            hint = nearest(missing[0], list(series.names))
            raise DataError(f"there is no column {missing[0]!r} in the series; {hint}")
        series = series.selected([series.names.index(name) for name in config.columns])
        wanted = Step(*config.step)
        if series.step[:2] != wanted[:2]:
            raise DataError(
                f"the series has a row every {series.step.words()}, and the model was trained on "
                f"one every {wanted.words()}; bring the rows to that step"
            )
        return series

    def last_start(self, series: Series) -> int:
        """Return the last row at which a forecast with a value to score can begin.

        Args:
            series: The series.
        """
        starts = self._all_windows(series).starts
        return int(starts[-1]) + self.bundle.config.context if len(starts) else len(series) - 1

    def _all_windows(self, series: Series) -> SeriesWindows:
        config = self.bundle.config
        return windows(
            series, self.bundle.scale, config.context, config.horizon, len(config.target)
        )

    def windows(self, series: Series, first: int = 0) -> SeriesWindows:
        """Return all windows of a series that forecast rows from `first` on, for scores.

        Args:
            series: The series.
            first: The first row to forecast.

        Raises:
            DataError: If there is no window with a value to score.
        """
        config = self.bundle.config
        context, horizon = config.context, config.horizon
        every = self._all_windows(series)
        found = every.between(first, len(series))
        if len(found.starts):
            return found
        if len(every.starts):
            raise DataError(
                f"no forecast of {counted(horizon, 'step')} with a value to score begins at this "
                "start or later; the latest start is "
                f"{shown_time(series.times[self.last_start(series)])}"
            )
        if len(series) < context + horizon:
            raise DataError(
                f"the series is too short: it has {counted(len(series), 'row')}, and a forecast "
                f"with its context needs {context + horizon:,}; give more rows"
            )
        raise DataError(
            f"there is no value after the first {counted(context, 'row')}, which the model reads; "
            "give more values"
        )

    def predictions(
        self, given: SeriesWindows, check: Callable[[], None] = lambda: None
    ) -> Iterator[tuple[list[int], SeriesBatch, np.ndarray]]:
        """Yield the numbers of windows in batches, the batches, and forecasts, "B T C Q".

        Batches and forecasts are scaled. Quantiles that cross are sorted.

        Args:
            given: The windows.
            check: Called before each batch.

        Reference:
            Chernozhukov et al. 2010, section 2 (sorted quantiles).
        """
        for rows in given.in_order(max(BATCH, int(given.lengths[0, 0]))):
            check()
            batch = given.collate(places := rows.tolist())
            with torch.inference_mode():
                found = self.model(batch.context.to(self.device), batch.known.to(self.device))
            yield places, batch, _sorted(found)

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
            ["step", Step(*config.step).words()],
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


def _filled_notes(series: Series, past: slice) -> list[str]:
    """Return a message if values in the context were filled; refuse a column without values."""
    seen, times = series.observed[past], series.times[past]
    if seen.all():
        return []
    for column, name in enumerate(series.names):
        if not seen[:, column].any():
            raise DataError(
                f"column {name!r} has no value in the {counted(len(seen), 'row')} that the model "
                f"reads, {shown_time(times[0])} to {shown_time(times[-1])}; give its values, or "
                "forecast from another time"
            )
    last_seen = len(seen) - 1 - seen[::-1].argmax(axis=0)
    oldest = int(last_seen.argmin())
    return [
        f"{(~seen).sum():,} of the {counted(seen.size, 'value')} that the model reads are filled; "
        f"the last value of column {series.names[oldest]!r} in the file is at "
        f"{shown_time(times[last_seen[oldest]])}"
    ]


def _sorted(found: Tensor) -> np.ndarray:
    """Return forecasts with rising quantiles."""
    return np.sort(found.cpu().numpy().astype(np.float64), axis=-1)


def shown_names(names: Sequence[str], most: int = 8) -> str:
    """Return names as text; a long list is cut.

    Args:
        names: The names.
        most: The number of names that are shown.
    """
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
