"""Time series: reading, rules for imperfect data, splits by time, scaling, and windows.

A series is a table with a time column and columns of numbers. `read_series` brings it onto a
regular grid of times. Every change that a rule makes is counted in `Series.notes`.

Axes: `B` windows, `S` context steps, `T` steps of the horizon, `C` columns, `K` calendar features.
"""

import csv
import datetime
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from pydantic import Field, field_validator
from torch import Tensor

from crosshead.config import MOST_POSITIONS, nearest, shown
from crosshead.data.batching import Plan
from crosshead.data.section import DataSection, Names
from crosshead.errors import DataError, why_unreadable
from crosshead.system.lines import check_regular, read_lines

CALENDAR = 4
"""The number of calendar features: time of day, day of the week, of the month and of the year."""

_SPLIT = r"\d{1,9}/\d{1,9}/\d{1,9}( (months|days|rows))?"
_TIME_NAMES = ("date", "time", "timestamp", "datetime", "ds", "day", "month")
_MISSING = {"", "na", "n/a", "nan", "null", "none", "-", "?"}
_DELIMITERS = ",;\t"
_MOVED = 0.1
"""The largest share of rows with a time between the steps of the grid."""

_DAY = np.timedelta64(1, "D")
_MICROSECOND = np.timedelta64(1, "us")


class SeriesData(DataSection):
    """Time series: the section `[data]` of a recipe for forecasting."""

    file_keys: ClassVar[tuple[str, ...]] = ("series",)

    series: Names = Field(default_factory=list)
    """Files of one time series: CSV (also .csv.gz) or Parquet, with a time column. Each further
    file continues the file before it."""

    target: Names = Field(default_factory=list)
    """Columns to forecast. The model reads the past of the same columns. Unset: all columns of
    numbers that are not constant."""

    time: str | None = None
    """The time column. Unset: a column called date, time, timestamp, datetime, ds, day or month, or
    else the first column with times."""

    horizon: int = Field(96, ge=1, le=MOST_POSITIONS)
    """Number of steps to forecast."""

    context: int = Field(336, ge=1, le=MOST_POSITIONS)
    """Number of past steps that a forecast is made from."""

    split: str = Field("70/10/20", pattern=f"^{_SPLIT}$")
    """Sizes of the training, validation and test periods, in the order of time: in per cent of the
    rows, or as `12/4/4 months` of 30 days, `days` or `rows`. The windows of a period predict only
    rows of this period; their context may reach back into the rows before it."""

    season: int | None = Field(None, ge=1, le=MOST_POSITIONS)
    """Number of steps of a season, for the seasonal naive forecast and for MASE. Unset: guessed
    from the time between rows, such as 24 for hours."""

    @field_validator("target")
    @classmethod
    def _columns(cls, given: list[str]) -> list[str]:
        names = [name.strip() for each in given for name in each.split(",")]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"names {name!r} twice; name each column once")
        return names


class Step(NamedTuple):
    """The time between two rows: microseconds, or calendar months with a day of the month."""

    microseconds: int = 0
    months: int = 0
    day: int = 1

    def after(self, last: Any, count: int) -> Any:
        """Return the times after another.

        Args:
            last: A time.
            count: The number of times.
        """
        steps = np.arange(1, count + 1)
        if self.months:
            months = _month_of(last) + self.months * steps
            return _month_times(months, self.day, last)
        return np.asarray(last + self.microseconds * _MICROSECOND * steps)

    def season(self) -> int:
        """Return the steps of the usual season: of a day, a week or a year; 1 if there is none."""
        if self.months:
            return max(1, 12 // self.months)
        seconds = self.microseconds / 1e6
        for season, longest in ((86_400, 43_200), (7 * 86_400, 86_400), (364 * 86_400, 604_800)):
            if seconds <= longest:
                return max(1, round(season / seconds)) if seconds >= 60 else 1
        return 1

    def words(self) -> str:
        """Return the step as text, such as `1 hour`."""
        if self.months:
            return _several(self.months, "month")
        for size, unit in ((86_400e6, "day"), (3600e6, "hour"), (60e6, "minute"), (1e6, "second")):
            if self.microseconds >= size and self.microseconds % size == 0:
                return _several(int(self.microseconds // size), unit)
        return f"{self.microseconds / 1e6:g} seconds"


@dataclass(frozen=True)
class Series:
    """A series on a regular grid of times."""

    names: tuple[str, ...]
    """The columns."""
    times: np.ndarray
    """The time of each row, `datetime64[us]`."""
    values: np.ndarray
    """Numbers, `rows C`. Missing values are filled with the value before them."""
    observed: np.ndarray
    """True for values of the file, `rows C`. Filled values are read, but never predicted or
    scored."""
    step: Step
    notes: tuple[str, ...] = ()
    """Messages about the changes that rules made."""

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.times)

    def row(self, time: str) -> int:
        """Return the row of a time, which may be the step after the last row.

        Raises:
            DataError: If `time` is no time, or lies outside of the series.
        """
        try:
            wanted = _time(time)
        except ValueError:
            raise DataError(f"expected a time such as 2024-01-31 12:00, found {time!r}") from None
        if not self.times[0] <= wanted <= self.step.after(self.times[-1], 1)[0]:
            raise DataError(
                f"the time {time} is not in the series, which has rows from "
                f"{shown_time(self.times[0])} to {shown_time(self.times[-1])}"
            )
        return int(np.searchsorted(self.times, wanted))

    def selected(self, columns: Sequence[int]) -> "Series":
        """Return the series with these columns only."""
        kept = list(columns)
        names = tuple(self.names[each] for each in kept)
        return replace(
            self, names=names, values=self.values[:, kept], observed=self.observed[:, kept]
        )


class Scale(NamedTuple):
    """The mean and the standard deviation of each column of the training period."""

    mean: np.ndarray
    deviation: np.ndarray

    def scaled(self, values: np.ndarray) -> Any:
        """Return values with mean 0 and deviation 1 in the training period."""
        return (values - self.mean) / self.deviation

    def unscaled(self, values: np.ndarray) -> Any:
        """Return scaled values, `... C`, in their original units."""
        return values * self.deviation + self.mean


@dataclass(frozen=True)
class SeriesBatch:
    """Windows of a series, scaled."""

    context: Float[Tensor, "B S C"]
    """The past."""
    known: Float[Tensor, "B _ K"]
    """Calendar features of the past and of the horizon, "B S+T K"."""
    target: Float[Tensor, "B T C"]
    """The values to forecast."""
    observed: Bool[Tensor, "B T C"]
    """True where a target counts: it was not missing in the file."""

    @property
    def count(self) -> int:
        """The number of values to forecast."""
        return int(self.observed.sum())

    def to(self, device: torch.device) -> "SeriesBatch":
        """Return the batch on a device."""
        parts = (self.context, self.known, self.target, self.observed)
        return SeriesBatch(*(each.to(device) for each in parts))


@dataclass(frozen=True)
class SeriesWindows:
    """Windows of a series; also the epoch that training reads them from."""

    values: Float[Tensor, "rows C"]
    """The whole series, scaled."""
    observed: Bool[Tensor, "rows C"]
    known: Float[Tensor, "rows K"]
    """Calendar features of all rows."""
    starts: np.ndarray
    """The first row of each window's context."""
    context: int
    horizon: int
    row, bound = "window", "data.context"

    def between(self, first: int, end: int) -> "SeriesWindows":
        """Return the windows whose horizon lies in the rows from `first` to before `end`.

        Their context may begin earlier.

        Args:
            first: The first row.
            end: The row after the last.
        """
        ahead = self.starts + self.context
        return replace(self, starts=self.starts[(ahead >= first) & (ahead + self.horizon <= end)])

    @property
    def lengths(self) -> np.ndarray:
        """The number of values that each window reads, "windows 1"."""
        return np.full((len(self.starts), 1), self.context * self.values.shape[1])

    def plan(self, max_tokens: int, seed: int, epoch: int) -> Plan:
        """Return the windows of each batch, in an order drawn from (seed, epoch).

        Args:
            max_tokens: The largest number of values that the windows of a batch read.
            seed: The random seed of the run.
            epoch: The number of the epoch.
        """
        order = np.random.default_rng([seed, epoch]).permutation(len(self.starts))
        return self._cut(order, max_tokens)

    def in_order(self, max_tokens: int) -> Plan:
        """Return all windows in the order of time, in batches of at most `max_tokens` values."""
        return self._cut(np.arange(len(self.starts)), max_tokens)

    def collate(self, rows: Sequence[int]) -> SeriesBatch:
        """Return the given windows as a batch."""
        steps = np.arange(self.context + self.horizon)
        places = torch.from_numpy(self.starts[list(rows), None] + steps)
        values = self.values[places]
        return SeriesBatch(
            values[:, : self.context],
            self.known[places],
            values[:, self.context :],
            self.observed[places[:, self.context :]],
        )

    def extent(self, row: int) -> str:
        """Return the size of a window, for messages."""
        return f"{self.context:,} steps of {_several(self.values.shape[1], 'column')}"

    def _cut(self, order: np.ndarray, max_tokens: int) -> Plan:
        size = max_tokens // (self.context * self.values.shape[1])
        if size < 1:
            raise DataError(
                f"a window reads {self.extent(0)}, more than the {max_tokens:,} values of "
                "train.batch_tokens; raise it, or lower data.context"
            )
        return np.split(order, range(size, len(order), size))


def read_series(
    paths: Sequence[str], target: Sequence[str] = (), time: str | None = None
) -> Series:
    """Read a series from files, and bring it onto a regular grid of times.

    Rules, each counted in `Series.notes`:

    - Rows with the same time: the last one counts.
    - A time between two steps of the grid moves to the nearest step. If more than a tenth of the
      rows would move, the series is refused.
    - A missing row or value is filled with the value before it, never with a later one. Only gaps
      at the beginning take the first value. Filled values are read, but not predicted or scored.
    - Without `target`, columns of text are left out.

    Args:
        paths: CSV or Parquet files of one series. Each further file continues the one before it.
        target: The columns to read; by default all columns of numbers.
        time: The time column; by default it is found by its name or its values.

    Returns:
        The series.

    Raises:
        DataError: If a file or a column cannot be read, a cell is no number, or times go back.
    """
    tables = [_read_table(Path(path)) for path in paths]
    first = tables[0]
    time = _time_column(first, time)
    names = tuple(target) or tuple(name for name in first.columns if name != time)
    notes: list[str] = []
    for name in names:
        for table in tables:
            table.check(name, "column")
    if time in names:
        raise DataError(f"{first.path}: {time!r} is the time column; choose other columns")
    if not target:
        text = [name for name in names if not any(map(_is_number, first.columns[name]))]
        names = tuple(name for name in names if name not in text)
        if text:
            notes.append(f"columns without numbers are left out: {', '.join(text)}")
    if not names:
        raise DataError(f"{first.path}: there is no column of numbers beside {time!r}")
    times = np.concatenate([table.times(time) for table in tables])
    values = np.concatenate([table.numbers(names) for table in tables])
    _check_order(times, tables)
    return _on_grid(names, times, values, notes, str(first.path))


def split_rows(split: str, rows: int, step: Step) -> tuple[int, int, int]:
    """Return the rows where training, validation and test end.

    Args:
        split: `data.split`.
        rows: The number of rows.
        step: The time between rows, for months and days.

    Raises:
        DataError: If the periods are longer than the series.
    """
    sizes, _, unit = split.partition(" ")
    parts = [int(each) for each in sizes.split("/")]
    if not unit:
        if sum(parts) != 100:
            raise DataError(f"data.split: expected parts that add up to 100, found {split!r}")
        train, test = rows * parts[0] // 100, rows * parts[2] // 100
        return train, rows - test, rows
    if unit != "rows":
        days = step.months * 30 if step.months else step.microseconds / 86_400e6
        parts = [round(each * {"months": 30, "days": 1}[unit] / days) for each in parts]
    train, valid, test = np.cumsum(parts).tolist()
    if test > rows:
        raise DataError(f"data.split {split!r} needs {test:,} rows, but the series has {rows:,}")
    return train, valid, test


def fit_scale(series: Series, rows: int) -> Scale:
    """Return the scale of the first `rows` rows, without filled values.

    A constant column gets the deviation 0.

    Args:
        series: The series.
        rows: Number of rows.
    """
    values = np.where(series.observed, series.values, np.nan)[:rows]
    seen = series.observed[:rows].any(axis=0)
    mean, deviation = np.zeros(len(series.names)), np.zeros(len(series.names))
    mean[seen], deviation[seen] = (
        measure(values[:, seen], axis=0) for measure in (np.nanmean, np.nanstd)
    )
    return Scale(mean, np.where(deviation > 1e-12 * np.maximum(1, abs(mean)), deviation, 0.0))


def windows(series: Series, scale: Scale, context: int, horizon: int) -> SeriesWindows:
    """Return all windows of a series that have an observed value in their horizon.

    Args:
        series: The series.
        scale: The scale of its columns.
        context: Steps that a model reads.
        horizon: Steps that a model forecasts.
    """
    starts = np.arange(max(0, len(series) - context - horizon + 1))
    counts = np.concatenate([[0], np.cumsum(series.observed.any(axis=1))])
    return SeriesWindows(
        torch.from_numpy(scale.scaled(series.values).astype(np.float32)),
        torch.from_numpy(series.observed),
        torch.from_numpy(calendar(series.times)),
        starts[counts[starts + context + horizon] > counts[starts + context]],
        context,
        horizon,
    )


def calendar(times: np.ndarray) -> np.ndarray:
    """Return the calendar features of times, `rows K`, each from -0.5 to 0.5.

    They are the time of day, the day of the week, of the month and of the year.
    """
    days = times.astype("datetime64[D]")
    months, years = times.astype("datetime64[M]"), times.astype("datetime64[Y]")
    shares = [
        (times - days) / _DAY,
        ((days - np.datetime64("1970-01-05")) / _DAY % 7) / 6,
        ((days - months) / _DAY) / 30,
        ((days - years) / _DAY) / 365,
    ]
    return (np.stack(shares, axis=-1) - 0.5).astype(np.float32)


@dataclass(frozen=True)
class _Table:
    """The cells of a file, by column."""

    path: Path
    columns: Mapping[str, Sequence[Any]]
    lines: bool
    """True if row 0 stands on line 2 of the file."""

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def origin(self, row: int) -> str:
        return f"{self.path}:{row + 2}" if self.lines else f"{self.path}, row {row + 1}"

    def check(self, name: str, what: str) -> None:
        if name not in self.columns:
            raise DataError(
                f"{self.path}: there is no {what} {name!r}; {nearest(name, list(self.columns))}"
            )

    def times(self, name: str) -> np.ndarray:
        self.check(name, "time column")
        return np.array(self._parsed(name, _time, "a time such as 2024-01-31 12:00"), "M8[us]")

    def numbers(self, names: Sequence[str]) -> np.ndarray:
        return np.stack([np.array(self._parsed(name, _number, "a number")) for name in names], -1)

    def _parsed(self, name: str, parse: Callable[[Any], Any], expected: str) -> list[Any]:
        found = []
        for row, cell in enumerate(self.columns[name]):
            try:
                found.append(parse(cell))
            except (ValueError, TypeError, OverflowError):
                raise DataError(
                    f"{self.origin(row)}: column {name!r}: expected {expected}, found {shown(cell)}"
                ) from None
        return found


def _read_table(path: Path) -> _Table:
    """Return the cells of a CSV or Parquet file."""
    check_regular(path)
    parquet = path.suffix.lower() in (".parquet", ".pq")
    columns = _read_parquet(path) if parquet else _read_csv(path)
    table = _Table(path, columns, lines=not parquet)
    if not columns or not len(table):
        raise DataError(f"{path}: is empty; expected a line of column names, and rows below it")
    return table


def _read_csv(path: Path) -> dict[str, list[str]]:
    lines = read_lines(path)
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        return {}
    delimiter = max(_DELIMITERS, key=lines[0].count)
    header, *rows = csv.reader(lines, delimiter=delimiter)
    header = [name.strip() for name in header]
    for name in header:
        if header.count(name) > 1:
            raise DataError(f"{path}: two columns are called {name!r}; rename one of them")
    for number, row in enumerate(rows, 2):
        if len(row) != len(header):
            raise DataError(
                f"{path}:{number}: expected {len(header)} cells as in the first line, found "
                f"{len(row)}"
            )
    return dict(zip(header, map(list, zip(*rows, strict=True)), strict=True)) if rows else {}


def _read_parquet(path: Path) -> dict[str, list[Any]]:
    try:
        parquet: Any = import_module("pyarrow.parquet")
    except ImportError:
        raise DataError(
            f"{path}: reading Parquet needs pyarrow (pip install pyarrow); or convert it to CSV"
        ) from None
    try:
        found: dict[str, list[Any]] = parquet.read_table(path).to_pydict()
    except FileNotFoundError as error:
        raise DataError(f"{path}: {why_unreadable(error)}") from None
    except (OSError, ValueError) as error:  # pyarrow's own errors are among them
        reason = " ".join(str(error).split())
        raise DataError(f"{path}: not a whole Parquet file ({reason:.200})") from None
    return found


def _time_column(table: _Table, name: str | None) -> str:
    """Return the time column: the given one, or one that is found by its name or its first cell."""
    if name is not None:
        table.check(name, "time column")
        return name
    for column in table.columns:
        if column.lower() in _TIME_NAMES:
            return column
    for column, cells in table.columns.items():
        if not _is_number(cells[0]):
            try:
                _time(cells[0])
            except (ValueError, TypeError):
                continue
            return column
    raise DataError(
        f"{table.path}: there is no time column among {', '.join(table.columns)}; name it with "
        "data.time, and write its times as 2024-01-31 12:00"
    )


def _time(cell: Any) -> np.datetime64:
    """Return a time. The offset of a time zone is dropped, so that times are those of the clock."""
    if isinstance(cell, str):
        text = cell.strip()
        cell = datetime.datetime.fromisoformat(
            f"{text}-01" if re.fullmatch(r"\d{4}-\d\d", text) else text
        )
    if isinstance(cell, datetime.datetime):
        return np.datetime64(cell.replace(tzinfo=None), "us")
    if isinstance(cell, datetime.date):
        return np.datetime64(cell, "us")
    raise ValueError


def _number(cell: Any) -> float:
    """Return a number; NaN for a missing value."""
    if cell is None or (isinstance(cell, str) and cell.strip().lower() in _MISSING):
        return math.nan
    if isinstance(cell, bool):
        return float(cell)
    found = float(cell)
    if math.isinf(found):
        raise ValueError
    return found


def _is_number(cell: Any) -> bool:
    try:
        return not math.isnan(_number(cell))
    except (ValueError, TypeError, OverflowError):
        return False


def _check_order(times: np.ndarray, tables: Sequence[_Table]) -> None:
    back = np.flatnonzero(np.diff(times) < np.timedelta64(0))
    if len(back):
        row = place = int(back[0]) + 1
        for table in tables:
            if place < len(table):
                break
            place -= len(table)
        raise DataError(
            f"{table.origin(place)}: the time {shown_time(times[row])} comes after "
            f"{shown_time(times[row - 1])}; sort the rows by time"
        )


def _on_grid(
    names: tuple[str, ...], times: np.ndarray, values: np.ndarray, notes: list[str], path: str
) -> Series:
    """Return the series on a regular grid; add messages about changes to `notes`."""
    times, values = _last_of_equal(times, times, values, notes, "with the same time")
    if len(times) < 2:
        raise DataError(f"{path}: expected at least two rows with different times")
    step, places, moved = _places(times)
    if moved > _MOVED * len(times):
        raise DataError(
            f"{path}: {moved:,} of {len(times):,} times are not whole steps of {step.words()} "
            "after the first; bring the rows to regular times first"
        )
    if moved:
        notes.append(f"{_several(moved, 'time')} moved to the nearest step of {step.words()}")
    places, values = _last_of_equal(places, places, values, notes, "in the same step")
    rows = int(places[-1]) + 1
    if rows > 2 * len(places):
        raise DataError(
            f"{path}: the most frequent step is {step.words()}, and most of its rows are missing "
            f"({len(places):,} of {rows:,} are there); bring the rows to regular times first"
        )
    if rows > len(places):
        notes.append(f"{_several(rows - len(places), 'missing row')} added and filled")
    whole = np.full((rows, len(names)), np.nan)
    whole[places] = values
    observed = ~np.isnan(whole)
    gaps = int((~observed[places]).sum())
    if gaps:
        notes.append(f"{_several(gaps, 'missing value')} filled with the value before")
    empty = [name for name, seen in zip(names, observed.any(axis=0), strict=True) if not seen]
    if empty:
        raise DataError(f"{path}: column {empty[0]!r} has no value at all; leave it out")
    grid = np.concatenate([times[:1], step.after(times[0], rows - 1)])
    return Series(names, grid, _filled(whole, observed), observed, step, tuple(notes))


def _last_of_equal(
    keys: np.ndarray, times: np.ndarray, values: np.ndarray, notes: list[str], what: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return the last row of each run of rows with equal keys."""
    last = np.append(keys[1:] != keys[:-1], True)
    if not last.all():
        notes.append(f"{_several(int((~last).sum()), 'row')} left out: {what} as a later row")
    return times[last], values[last]


def _places(times: np.ndarray) -> tuple[Step, np.ndarray, int]:
    """Return the step of the grid, the place of each row, and how many times lie between places."""
    gaps = np.diff(times) // _MICROSECOND
    if np.median(gaps) >= 27.5 * 86_400e6:  # months and longer steps have no fixed length
        months = _month_of(times)
        counts = np.bincount(np.diff(months))
        step = Step(months=int(counts.argmax()), day=int(_day_of(times).max()))
        if step.months:
            places, rest = np.divmod(months - months[0], step.months)
            return step, places + np.rint(rest / step.months).astype(int), int((rest != 0).sum())
    found, counts = np.unique(gaps, return_counts=True)
    step = Step(int(found[counts.argmax()]))
    exact = (times - times[0]) / (step.microseconds * _MICROSECOND)
    places = np.rint(exact).astype(int)
    return step, places, int((np.abs(exact - places) > 1e-9 * np.maximum(1, exact)).sum())


def _filled(values: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """Return values with gaps filled by the value before, and at the beginning by the first."""
    places = np.where(observed, np.arange(len(values))[:, None], -1)
    places = np.maximum.accumulate(places, axis=0)
    places = np.where(places < 0, observed.argmax(axis=0), places)
    return np.take_along_axis(values, places, axis=0)


def _month_of(times: Any) -> Any:
    return np.asarray(times).astype("datetime64[M]").astype(int)


def _day_of(times: np.ndarray) -> Any:
    return ((times.astype("M8[D]") - times.astype("M8[M]")) / _DAY).astype(int) + 1


def _month_times(months: np.ndarray, day: int, like: Any) -> Any:
    """Return the given day of each month, or its last day, at the time of day of `like`."""
    begin = months.astype("datetime64[M]")
    last = ((begin + 1).astype("M8[D]") - begin.astype("M8[D]")) / _DAY
    days = begin.astype("M8[D]") + (np.minimum(day, last) - 1).astype(int) * _DAY
    return days.astype("M8[us]") + (like - like.astype("M8[D]"))


def _several(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def shown_time(time: Any) -> str:
    """Return a time as text, without a time of day of midnight."""
    return str(time.astype("datetime64[s]")).replace("T", " ").removesuffix(" 00:00:00")
