"""Series from files: on a regular grid of times, by rules for imperfect data.

A series is a table with a time column and columns of numbers. A long table holds several series,
which a column of names tells apart. `read_series` brings each onto a regular grid of times. Every
change that a rule makes is counted in `Series.notes`.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from crosshead.addons.series.steps import OUTLIERS, Step, find_step, pandas, read_times, shown_time
from crosshead.addons.series.tables import column, numbers, origin, read_tables, times, unreadable
from crosshead.config import nearest
from crosshead.errors import DataError
from crosshead.system.progress import counted

ID_NAMES = ("unique_id", "item_id")
"""The usual names of the column that tells series apart, in small letters."""

_VALUE = "y"
"""The column to forecast of a long table, if it is there."""

T = TypeVar("T")

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
        """Return the first row at a time or later."""
        return int(np.searchsorted(self.times, self._parsed(time)))

    def row(self, time: str) -> int:
        """Return the row of a time, which may be the step after the last row."""
        known = np.append(self.times, self.step.after(self.times[-1], 1))
        place = int(np.searchsorted(known, wanted := self._parsed(time)))
        if place == len(known) or known[place] != wanted:
            raise DataError(
                f"the series has no row at {time}: it has one every {self.step.words()} from "
                f"{shown_time(self.times[0])} to {shown_time(self.times[-1])}; give one of them"
            )
        return place

    def _parsed(self, time: str) -> Any:
        """Return a time, or raise `DataError`."""
        [found] = read_times([time], self.utc, numbers=bool(self.step.numbers)).values
        if found.dtype.kind != self.times.dtype.kind or np.isnat(found.astype("M8[us]")):
            example = shown_time(self.times[-1])
            raise DataError(f"expected a time such as {example}, found {time!r}")
        return found

    def fitting(self, columns: Sequence[str], step: Step) -> "Series":
        """Return the series with the columns of a bundle."""
        for name in columns:
            if name not in self.names:
                hint = nearest(name, list(self.names))
                raise DataError(f"there is no column {name!r} in the series; {hint}")
        if self.step.words() != step.words():
            raise DataError(
                f"the series has a row every {self.step.words()}, and the model was trained on one "
                f"every {step.words()}; bring the rows to that step"
            )
        return self.selected([self.names.index(name) for name in columns])

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
    - In a file with semicolons or tabs between its cells, a column may have decimal commas, and
      points as separators of thousands.
    - In a file with commas between its cells, separators of thousands are left out if a number of
      the column also has a decimal point.
    - Lines above the names of the columns that begin with `#` are left out.
    """
    notes: list[str] = []
    table = read_tables(given, notes)
    path = table.index[0][0]
    time, (when, zoned, utc) = times(table, time, step is not None and step.numbers > 0)
    if zoned:
        change = "converted to UTC" if utc else "left out: all times are the same on the clock"
        notes.append(f"offsets of times from UTC are {change}")
    if id is None:
        id = next((name for name in table.columns if name.lower() in ID_NAMES), "")
    owners = column(table, id, "column of --id").str.strip() if id else np.zeros(len(table), int)
    equal = int(pandas().DataFrame({"series": owners, "time": when}).duplicated().sum())
    if equal > _EQUAL * len(table):
        raise DataError(
            f"{path}: {equal:,} of {len(table):,} rows have the time of another row; give one row "
            "for each time, or name the column that tells series apart (--id)"
        )
    groups = pandas().Series(when.astype(np.int64)).groupby(np.asarray(owners), sort=False)
    if (back := groups.diff() < 0).any():
        row = int(back.argmax())
        raise DataError(
            f"{origin(table, row)}: the time {shown_time(when[row])} stands below a later time; "
            "sort the rows by time"
        )
    names, values = _values(table, target, time, id, notes)
    grid_step = find_step([np.unique(when[rows.index]) for _, rows in groups], step)
    if grid_step is None:
        raise DataError(f"{path}: expected at least two rows with different times")
    found = []
    for key, rows in groups:
        of, called = (f"series {key}: ", f"{path}: series {key}") if id else ("", path)
        each = _on_grid(names, when[rows.index], values[rows.index], grid_step, called)
        notes += [of + note for note in each.notes]
        key = str(key) if id else ""
        found.append(replace(each, notes=(), utc=utc, time=time, id=id, key=key))
    found[0] = replace(found[0], notes=tuple(fewer(notes)))
    return found


def of_each(every: Sequence[Series], use: Callable[[Series], T]) -> tuple[list[T], list[str]]:
    """Return what a function makes of each series, and messages.

    A series of a long table that the function refuses is left out, with a message.
    """
    found, left = [], []
    for series in every:
        try:
            found.append(use(series))
        except DataError as error:
            if not series.id:
                raise
            left.append(f"series {series.key} left out: {error}")
    if not found:
        raise DataError(left[0])
    return found, fewer(left)


def fewer(notes: Sequence[str], most: int = 8) -> list[str]:
    """Return messages; of a long list the first ones, and the number of further ones."""
    left = len(notes) - most
    return [*notes[:most], *([f"and {counted(left, 'more message')}"] if left > 0 else [])]


def _values(
    table: Any, target: Sequence[str], time: str, id: str, notes: list[str]
) -> tuple[tuple[str, ...], np.ndarray]:
    """Return the columns to read, and their numbers; add messages about rules to `notes`."""
    names = target or [name for name in table if name not in (time, id or time)]
    if not target and id and _VALUE in names:
        names = [_VALUE]
    found, left = {}, []
    for name in names:
        values, bad = numbers(column(table, name))
        if not target and (not name or np.isnan(values).all()):
            left.append(repr(name))
            continue
        if bad.any():
            expected = "a number such as 1234.5 (at most 1e100)"
            raise unreadable(table, name, int(bad.argmax()), expected)
        found[name] = values
    if left:
        notes.append(f"columns without numbers or without a name are left out: {', '.join(left)}")
    if not found:
        raise DataError(
            f"{table.index[0][0]}: there is no column of numbers beside {time!r}; write numbers as "
            "1234.5"
        )
    return tuple(found), np.stack([*found.values()], axis=1)


def _on_grid(
    names: tuple[str, ...], times: np.ndarray, values: np.ndarray, step: Step, called: str
) -> Series:
    """Return the series on a regular grid, with messages about changes."""
    notes = []
    places, nearest, between = step.on_grid(times)
    # Of the rows at one place the last one counts, but not one between places if another is there.
    table = pandas().DataFrame(values, places, names).iloc[np.lexsort((~between, places))]
    kept, rows = table[~table.index.duplicated(keep="last")], int(places[-1]) + 1
    if between.mean() > OUTLIERS or rows > 2 * len(kept):
        raise DataError(
            f"{called}: the most frequent step is {step.words()}, but {between.sum():,} of "
            f"{len(times):,} times lie between such steps, and {rows - len(kept):,} of {rows:,} "
            "rows are missing; bring the rows to regular times first"
        )
    if moved := int((nearest != times).sum()):
        notes.append(f"{counted(moved, 'time')} moved to the nearest step of {step.words()}")
    if len(kept) < len(times):
        left = counted(len(times) - len(kept), "row")
        notes.append(f"{left} left out: in the same step as another row")
    if rows > len(kept):
        notes.append(f"{counted(rows - len(kept), 'missing row')} added and filled")
    whole = kept.reindex(range(rows))
    observed = whole.notna().to_numpy()
    if not observed.any(axis=0).all():
        empty = names[int(observed.any(axis=0).argmin())]
        raise DataError(f"{called}: column {empty!r} has no value at all; leave it out")
    grid = np.concatenate([nearest[:1], step.after(nearest[0], rows - 1)])
    # Before its first value a column has nothing to be filled with: a later value is the future.
    begins = observed.argmax(axis=0)
    first = int(begins.max())
    if first:
        notes.append(
            f"{counted(first, 'row')} left out at the beginning: column "
            f"{names[int(begins.argmax())]!r} has its first value at {shown_time(grid[first])}"
        )
    if gaps := int(kept[kept.index >= first].isna().to_numpy().sum()):
        notes.append(f"{counted(gaps, 'missing value')} filled with the value before")
    filled = whole.ffill().to_numpy()
    return Series(names, grid[first:], filled[first:], observed[first:], step, tuple(notes))
