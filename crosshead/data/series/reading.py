"""Series from files: on a regular grid of times, by rules for imperfect data.

A series is a table with a time column and columns of numbers. `read_series` brings it onto a
regular grid of times. Every change that a rule makes is counted in `Series.notes`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from crosshead.data.series.steps import (
    Step,
    is_clock,
    on_clock,
    parse_time,
    places_of,
    shown_time,
)
from crosshead.data.series.tables import Columns, is_number, read_table, time_column
from crosshead.errors import DataError
from crosshead.system.progress import counted

_MOVED = 0.1
"""The largest share of rows with a time between the steps of the grid."""

_EQUAL = 0.1
"""The largest share of rows with the time of another row."""


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
    utc: bool = False
    """True if times with an offset were converted to UTC."""

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.times)

    def row(self, time: str, last: int | None = None) -> int:
        """Return the row of a time.

        Args:
            time: The time of a row; without `last` also that of the step after the last row.
            last: The last row that a message may propose.

        Raises:
            DataError: If `time` is no time, or no row has this time.
        """
        try:
            wanted = on_clock(parse_time(time), utc=self.utc)
        except (ValueError, OverflowError):
            raise DataError(f"expected a time such as 2024-01-31 12:00, found {time!r}") from None
        known = self.times
        if last is None:
            known, last = np.append(known, self.step.after(known[-1], 1)), len(known)
        place = int(np.searchsorted(known, wanted))
        if place == len(known) or known[place] != wanted:
            after = min(place, last)
            nearest = " or ".join(map(shown_time, known[min(max(0, place - 1), after) : after + 1]))
            raise DataError(
                f"the series has no row at {time}: it has one every {self.step.words()} from "
                f"{shown_time(self.times[0])} to {shown_time(self.times[-1])}; give {nearest}"
            )
        return place

    def selected(self, columns: Sequence[int]) -> "Series":
        """Return the series with these columns only."""
        kept = list(columns)
        names = tuple(self.names[each] for each in kept)
        return replace(
            self, names=names, values=self.values[:, kept], observed=self.observed[:, kept]
        )


def read_series(
    paths: Sequence[str], target: Sequence[str] = (), time: str | None = None
) -> Series:
    """Read a series from files, and bring it onto a regular grid of times.

    Rules, each counted in `Series.notes`:

    - Rows with the same time: the last one counts. If they are more than a tenth of all rows, the
      series is refused.
    - Times with an offset from UTC are converted to UTC. If all of them show the same time of day,
      as those of days do, they keep their clock.
    - A time between two steps of the grid moves to the nearest step. If more than a tenth of the
      rows would move, the series is refused.
    - A missing row or value is filled with the value before it, never with a later one. Filled
      values are read, but not predicted or scored.
    - Rows before the first value of each column are left out.
    - Without `target`, columns of text and columns without a name are left out.
    - In a file with semicolons or tabs between its cells, a column may have decimal commas.

    Args:
        paths: CSV or Parquet files of one series. Each further file continues the one before it.
        target: The columns to read; by default all columns of numbers.
        time: The time column; by default it is found by its name or its values.

    Returns:
        The series.

    Raises:
        DataError: If a file or a column cannot be read, a cell is no number, or times go back.
    """
    tables = [read_table(Path(path)) for path in paths]
    time = time_column(tables[0], time)
    notes: list[str] = []
    names = _columns(tables, target, time, notes)
    times, utc = _times(tables, time, notes)
    values = np.concatenate([table.numbers(names) for table in tables])
    _check_equal(times, tables, time)
    _check_order(times, tables)
    found = _on_grid(names, times, values, notes, str(tables[0].path))
    return replace(found, utc=utc)


def _columns(
    tables: Sequence[Columns], target: Sequence[str], time: str, notes: list[str]
) -> tuple[str, ...]:
    """Return the columns to read; add messages about rules to `notes`."""
    first = tables[0]
    names = tuple(target) or tuple(name for name in first.columns if name and name != time)
    if not target and time and "" in first.columns:
        notes.append("a column without a name is left out")
    for name in names:
        for table in tables:
            table.check(name, "column")
    if time in names:
        raise DataError(f"{first.path}: {time!r} is the time column; choose other columns")
    if not target:
        text = [name for name in names if not any(map(is_number, first.columns[name]))]
        names = tuple(name for name in names if name not in text)
        if text:
            notes.append(f"columns without numbers are left out: {', '.join(text)}")
    if not names:
        raise DataError(
            f"{first.path}: there is no column of numbers beside {time!r}; write numbers as "
            "1234.5, without separators of thousands"
        )
    commas = [name for name in names if any(name in table.decimal_commas for table in tables)]
    if commas:
        notes.append(f"decimal commas are read as points: {', '.join(commas)}")
    return names


def _times(tables: Sequence[Columns], column: str, notes: list[str]) -> tuple[np.ndarray, bool]:
    """Return the times of all rows, and whether they are of UTC; add a message to `notes`."""
    times = [time for table in tables for time in table.times(column)]
    zoned = [time.tzinfo is not None for time in times]
    if any(zoned) and not all(zoned):
        row = zoned.index(False)
        raise DataError(
            f"{_origin(tables, row)}: the time {times[row]} has no offset from UTC, and other "
            "times have one; write all times with an offset, or none"
        )
    clocks = {time.time() for time in times}
    utc = any(zoned) and len(clocks) > 1
    if utc:
        notes.append("times with an offset from UTC are converted to UTC")
    elif any(zoned):
        notes.append(f"offsets from UTC are left out: all times are {clocks.pop()} of the clock")
    return np.array([on_clock(time, utc=utc) for time in times], "M8[us]"), utc


def _check_equal(times: np.ndarray, tables: Sequence[Columns], column: str) -> None:
    """Refuse files of which many rows have the time of another row, such as several series."""
    known, places = np.unique(times, return_inverse=True)
    equal = len(times) - len(known)
    if equal <= _EQUAL * len(times):
        return
    found = f"{tables[0].path}: {equal:,} of {len(times):,} rows have the time of another row"
    for name in tables[0].columns:
        cells = [str(cell) for table in tables for cell in table.columns.get(name, ())]
        if name == column or any(map(is_number, cells)):
            continue
        if len(cells) == len(times) == len({*zip(places.tolist(), cells, strict=True)}):
            advice = (
                f"write {column!r} and {name!r} as one column"
                if all(map(is_clock, cells))
                else "give a file with one of them alone, or a column of numbers for each"
            )
            raise DataError(f"{found}, and column {name!r} tells them apart; {advice}")
    raise DataError(f"{found}; give one row for each time")


def _check_order(times: np.ndarray, tables: Sequence[Columns]) -> None:
    back = np.flatnonzero(times[1:] < times[:-1])
    if len(back):
        row = int(back[0]) + 1
        raise DataError(
            f"{_origin(tables, row)}: the time {shown_time(times[row])} stands below the later "
            f"time {shown_time(times[row - 1])}; sort the rows by time"
        )


def _origin(tables: Sequence[Columns], row: int) -> str:
    """Return the file and the line of a row, counted through all files."""
    for table in tables:
        if row < len(table):
            break
        row -= len(table)
    return table.origin(row)


def _on_grid(
    names: tuple[str, ...], times: np.ndarray, values: np.ndarray, notes: list[str], path: str
) -> Series:
    """Return the series on a regular grid; add messages about changes to `notes`."""
    times, values = _last_of_equal(times, times, values, notes, "with the same time")
    if len(times) < 2:
        raise DataError(f"{path}: expected at least two rows with different times")
    step, places, moved = places_of(times)
    if moved > _MOVED * len(times):
        raise DataError(
            f"{path}: {moved:,} of {len(times):,} times are not whole steps of {step.words()} "
            "after the first; bring the rows to regular times first"
        )
    if moved:
        notes.append(f"{counted(moved, 'time')} moved to the nearest step of {step.words()}")
    places, values = _last_of_equal(places, places, values, notes, "in the same step")
    rows = int(places[-1]) + 1
    if rows > 2 * len(places):
        raise DataError(
            f"{path}: the most frequent step is {step.words()}, and most of its rows are missing "
            f"({len(places):,} of {rows:,} are there); bring the rows to regular times first"
        )
    if rows > len(places):
        notes.append(f"{counted(rows - len(places), 'missing row')} added and filled")
    whole = np.full((rows, len(names)), np.nan)
    whole[places] = values
    observed = ~np.isnan(whole)
    empty = [name for name, seen in zip(names, observed.any(axis=0), strict=True) if not seen]
    if empty:
        raise DataError(f"{path}: column {empty[0]!r} has no value at all; leave it out")
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
