"""Series from files: on a regular grid of times, by rules for imperfect data.

A series is a table with a time column and columns of numbers. A long table holds several series,
which a column of names tells apart. `read_series` brings each onto a regular grid of times. Every
change that a rule makes is counted in `Series.notes`.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from crosshead.data.series.steps import (
    OUTLIERS,
    MixedDatesError,
    Step,
    Times,
    find_step,
    is_clock,
    pandas,
    read_times,
    shown_time,
)
from crosshead.data.series.tables import Table, read_tables, time_column
from crosshead.errors import DataError
from crosshead.system.progress import counted

ID_NAMES = ("unique_id", "item_id")
"""The usual names of the column that tells series apart, in small letters."""

_VALUE = "y"
"""The column to forecast of a long table, if it is there."""

_EQUAL = 0.1
"""The largest share of rows with the time of another row."""


@dataclass(frozen=True)
class Series:
    """A series on a regular grid of times."""

    names: tuple[str, ...]
    """The columns."""
    times: np.ndarray
    """The time of each row, `datetime64[us]`, or whole numbers."""
    values: np.ndarray
    """Numbers, `rows C`. Missing values are filled with the value before them."""
    observed: np.ndarray
    """True for values of the file, `rows C`. Filled values are read, but never predicted or
    scored."""
    step: Step
    notes: tuple[str, ...] = ()
    """Messages about the changes that rules made."""
    utc: bool = False
    """True if times with an offset were converted to UTC."""
    time: str = "time"
    """The name of the time column."""
    id: str = ""
    """The column that tells the series of a long table apart, or an empty text."""
    key: str = ""
    """The name of this series in the column `id`."""

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.times)

    def since(self, time: str) -> int:
        """Return the first row at a time or later.

        Args:
            time: The time.

        Raises:
            DataError: If `time` is no time.
        """
        return int(np.searchsorted(self.times, self._parsed(time)))

    def row(self, time: str) -> int:
        """Return the row of a time, which may be the step after the last row.

        Args:
            time: The time.

        Raises:
            DataError: If `time` is no time, or no row has this time.
        """
        known = np.append(self.times, self.step.after(self.times[-1], 1))
        place = int(np.searchsorted(known, wanted := self._parsed(time)))
        if place == len(known) or known[place] != wanted:
            nearest = " or ".join(map(shown_time, known[max(0, place - 1) : place + 1]))
            raise DataError(
                f"the series has no row at {time}: it has one every {self.step.words()} from "
                f"{shown_time(self.times[0])} to {shown_time(self.times[-1])}; give {nearest}"
            )
        return place

    def _parsed(self, time: str) -> Any:
        """Return a time, or raise `DataError`."""
        with suppress(MixedDatesError):
            [found] = read_times([time], self.utc).values
            if found.dtype.kind == self.times.dtype.kind and not np.isnat(found.astype("M8[us]")):
                return found
        example = shown_time(self.times[-1])
        raise DataError(f"expected a time such as {example}, found {time!r}")

    def selected(self, columns: Sequence[int]) -> "Series":
        """Return the series with these columns only."""
        kept = list(columns)
        names = tuple(self.names[each] for each in kept)
        return replace(
            self, names=names, values=self.values[:, kept], observed=self.observed[:, kept]
        )


def read_series(
    given: Sequence[str | os.PathLike[str]] | Any,
    target: Sequence[str] = (),
    time: str | None = None,
    id: str | None = None,
    step: Step | None = None,
) -> list[Series]:
    """Read the series of files or of a table, and bring each onto a regular grid of times.

    Rules, each counted in `Series.notes`:

    - Rows with the same time: the last one counts. If they are more than a tenth of all rows, the
      series is refused.
    - Times with an offset from UTC are converted to UTC. If all of them show the same time of day,
      as those of days do, they keep their clock.
    - A time between two steps of the grid moves to the nearest step. If more than a tenth of the
      rows would move, the series is refused.
    - Days of the week without rows, such as those of a weekend, are no part of the grid of days.
    - A missing row or value is filled with the value before it, never with a later one. Filled
      values are read, but not predicted or scored.
    - Rows before the first value of each column are left out.
    - Without `target`, columns of text and columns without a name are left out.
    - In a file with semicolons or tabs between its cells, a column may have decimal commas.
    - Separators of thousands are left out if a number of the column also has a decimal mark.
    - Lines above the names of the columns that begin with `#` are left out.

    Args:
        given: CSV or Parquet files, each of which continues the one before it, or a table.
        target: The columns to read; by default all columns of numbers, or `y` in a long table.
        time: The time column; by default it is found by its name or its values.
        id: The column that tells the series of a long table apart; by default one that is called
            unique_id or item_id, if there is one.
        step: The step of the training data, for a series that is too short to show it.

    Returns:
        The series, in the order of their first rows; one for a table that is not long.

    Raises:
        DataError: If a file or a column cannot be read, a cell is no number, or times go back.
    """
    table = read_tables(given)
    time = time_column(table, time)
    if id is None:
        id = next((name for name in table.columns if name.lower() in ID_NAMES), "")
    elif id:
        table.check(id, "column of --id")
    notes = list(table.notes)
    names = _columns(table, target, time, id, notes)
    times, _, utc = _times(table, time, notes)
    codes, keys = pandas().factorize(table.frame[id].str.strip() if id else np.zeros(len(times)))
    groups = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
    equal = int(pandas().DataFrame({"series": codes, "time": times}).duplicated().sum())
    if equal > _EQUAL * len(times):
        raise DataError(_why_equal(table, times, time, equal, id))
    values = table.numbers(names)
    for rows in groups:
        _check_order(times, rows, table)
    grid_step = find_step([np.unique(times[rows]) for rows in groups], step)
    if grid_step is None:
        raise DataError(f"{table.path}: expected at least two rows with different times")
    found = []
    for key, rows in zip(keys, groups, strict=True):
        of, path = (f"series {key}: ", f"{table.path}: series {key}") if id else ("", table.path)
        each = _on_grid(names, times[rows], values[rows], grid_step, path)
        notes += [of + note for note in each.notes]
        found.append(replace(each, utc=utc, time=time, id=id, key=str(key) if id else ""))
    found = [replace(each, notes=()) for each in found]
    found[0] = replace(found[0], notes=tuple(fewer(notes)))
    return found


def fewer(notes: Sequence[str], most: int = 8) -> list[str]:
    """Return messages; of a long list the first ones, and the number of further ones.

    Args:
        notes: The messages.
        most: The number of messages that are kept.
    """
    left = len(notes) - most
    return [*notes[:most], *([f"and {counted(left, 'more message')}"] if left > 0 else [])]


def _columns(
    table: Table, target: Sequence[str], time: str, id: str, notes: list[str]
) -> tuple[str, ...]:
    """Return the columns to read; add messages about rules to `notes`."""
    others = ("", time, id)
    names = tuple(target) or tuple(name for name in table.columns if name not in others)
    if not target and id and _VALUE in names:
        names = (_VALUE,)
    elif not target and time and "" in table.columns:
        notes.append("a column without a name is left out")
    for name in names:
        table.check(name, "column")
    for special, what in ((time, "the time column"), (id, "the column of --id")):
        if special and special in names:
            raise DataError(f"{table.path}: {special!r} is {what}; choose other columns")
    if not target:
        text = [name for name in names if not table.has_numbers(name)]
        names = tuple(name for name in names if name not in text)
        if text:
            notes.append(f"columns without numbers are left out: {', '.join(text)}")
    if not names:
        raise DataError(
            f"{table.path}: there is no column of numbers beside {time!r}; write numbers as 1234.5"
        )
    return names


def _times(table: Table, column: str, notes: list[str]) -> Times:
    """Return the times of all rows; add a message about offsets to `notes`."""
    found = table.times(column)
    if found.zoned.any() and not found.zoned.all():
        row = int((~found.zoned).argmax())
        raise DataError(
            f"{table.origin(row)}: the time {shown_time(found.values[row])} has no offset from "
            "UTC, and other times have one; write all times with an offset, or none"
        )
    if found.utc:
        notes.append("times with an offset from UTC are converted to UTC")
    elif found.zoned.any():
        clock = str(found.values[0].astype("M8[s]")).partition("T")[2]
        notes.append(f"offsets from UTC are left out: all times are {clock} of the clock")
    return found


def _why_equal(table: Table, times: np.ndarray, column: str, equal: int, id: str) -> DataError:
    """Return the error for many rows with the time of another row, as of several series."""
    of = f" in their series of {id!r}" if id else ""
    found = f"{table.path}: {equal:,} of {len(times):,} rows have the time of another row{of}"
    for name in () if id or len(table.columns) < 3 else table.columns:
        cells = table.frame[name]
        different = cells.nunique()
        if name == column or different > len(times) / 2:
            continue
        if len({*zip(times.tolist(), cells, strict=True)}) == len(times):
            advice = (
                f"write {column!r} and {name!r} as one column"
                if all(map(is_clock, cells.unique()))
                else f"name it with --id {name!r} for one model of {different:,} series"
            )
            return DataError(f"{found}, and column {name!r} tells them apart; {advice}")
    return DataError(f"{found}; give one row for each time")


def _check_order(times: np.ndarray, rows: np.ndarray, table: Table) -> None:
    back = np.flatnonzero(times[rows[1:]] < times[rows[:-1]])
    if len(back):
        before, row = rows[back[0] : back[0] + 2]
        raise DataError(
            f"{table.origin(int(row))}: the time {shown_time(times[row])} stands below the later "
            f"time {shown_time(times[before])}; sort the rows by time"
        )


def _on_grid(
    names: tuple[str, ...], times: np.ndarray, values: np.ndarray, step: Step, called: str
) -> Series:
    """Return the series on a regular grid, with messages about changes."""
    notes: list[str] = []
    times, values = _last_of_equal(times, times, values, notes, "with the same time")
    places, moved = step.places(times)
    if moved > OUTLIERS * len(times):
        raise DataError(
            f"{called}: {moved:,} of {len(times):,} times are not whole steps of {step.words()} "
            "after the first; bring the rows to regular times first"
        )
    if moved:
        notes.append(f"{counted(moved, 'time')} moved to the nearest step of {step.words()}")
    places, values = _last_of_equal(places, places, values, notes, "in the same step")
    rows = int(places[-1]) + 1
    if rows > 2 * len(places):
        raise DataError(
            f"{called}: the most frequent step is {step.words()}, and most of its rows are missing "
            f"({len(places):,} of {rows:,} are there); bring the rows to regular times first"
        )
    if rows > len(places):
        notes.append(f"{counted(rows - len(places), 'missing row')} added and filled")
    whole = np.full((rows, len(names)), np.nan)
    whole[places] = values
    observed = ~np.isnan(whole)
    empty = [name for name, seen in zip(names, observed.any(axis=0), strict=True) if not seen]
    if empty:
        raise DataError(f"{called}: column {empty[0]!r} has no value at all; leave it out")
    grid = np.concatenate([times[:1], step.after(times[0], rows - 1)])
    # Before its first value a column has nothing to be filled with: a later value is the future.
    first = int(observed.argmax(axis=0).max())
    if first:
        late = names[int(observed.argmax(axis=0).argmax())]
        notes.append(
            f"{counted(first, 'row')} left out at the beginning: column {late!r} has its first "
            f"value at {shown_time(grid[first])}"
        )
    gaps = int((~observed[places[places >= first]]).sum())
    if gaps:
        notes.append(f"{counted(gaps, 'missing value')} filled with the value before")
    whole, observed, grid = whole[first:], observed[first:], grid[first:]
    return Series(names, grid, _filled(whole, observed), observed, step, tuple(notes))


def _last_of_equal(
    keys: np.ndarray, times: np.ndarray, values: np.ndarray, notes: list[str], what: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return the last row of each run of rows with equal keys."""
    last = np.append(keys[1:] != keys[:-1], True)
    if not last.all():
        notes.append(f"{counted(int((~last).sum()), 'row')} left out: {what} as a later row")
    return times[last], values[last]


def _filled(values: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """Return values with gaps filled by the value before. The first row has no gap."""
    places = np.where(observed, np.arange(len(values))[:, None], -1)
    return np.take_along_axis(values, np.maximum.accumulate(places, axis=0), axis=0)
