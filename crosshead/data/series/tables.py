"""Tables of text in named columns: files in CSV and Parquet, and tables in memory."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

import numpy as np

from crosshead.config import nearest, shown
from crosshead.data.parallel.delimited import check_line_ends, csv_delimiter, quoted_records
from crosshead.data.series.steps import (
    MixedDatesError,
    Times,
    is_time,
    pandas,
    read_times,
)
from crosshead.errors import DataError, why_unreadable
from crosshead.system.lines import check_regular, read_lines
from crosshead.system.progress import counted

_TIME_NAMES = (
    "date", "time", "timestamp", "datetime", "ds", "day", "month", "quarter", "year", "t", "step",
)  # fmt: skip
_MISSING = ("", "na", "n/a", "#n/a", "nan", "nat", "null", "none", "-", ".", "?")
"""The cells that are missing values, in small letters."""
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?"
_DECIMAL_COMMA = r"\s*[-+]?\d*,\d+(?:[eE][-+]?\d+)?\s*"
_LARGEST = 1e100
"""The largest size of a number, so that squares and their sums are numbers too."""


@dataclass(frozen=True)
class Table:
    """The cells of files, as text, by column."""

    frame: Any
    """A pandas DataFrame of text; a missing value may be an empty cell."""
    parts: Sequence[tuple[str, Sequence[int]]]
    """Each file, and the line of each of its rows; row numbers for a file without lines."""
    notes: tuple[str, ...] = ()
    """Messages about changes."""

    @property
    def path(self) -> str:
        """The first file."""
        return self.parts[0][0]

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.frame.columns)

    def origin(self, row: int) -> str:
        """Return the file and the line of a row."""
        path, line = [(path, line) for path, lines in self.parts for line in lines][row]
        return f"{path}:{line}"

    def check(self, name: str, what: str) -> None:
        """Check that there is a column.

        Args:
            name: Its name.
            what: The kind of column, for the message.

        Raises:
            DataError: If there is none.
        """
        absent = self.frame[name].isna() if name in self.columns else np.ones(1, bool)
        if absent.any():
            path = self.origin(int(absent.argmax())).rpartition(":")[0]
            raise DataError(f"{path}: there is no {what} {name!r}; {nearest(name, self.columns)}")

    def times(self, name: str) -> Times:
        """Return the times of a column.

        Raises:
            DataError: If there is no such column, or a cell is no time.
        """
        self.check(name, "time column")
        try:
            found = read_times(self.frame[name])
        except MixedDatesError:
            raise DataError(
                f"{self.path}: column {name!r}: the dates do not show whether the month or the day "
                "stands first; write them as 2024-01-31"
            ) from None
        if (bad := np.isnat(found.values.astype("M8[us]"))).any():
            raise self._unreadable(name, int(bad.argmax()), "a time such as 2024-01-31 12:00")
        return found

    def numbers(self, names: Sequence[str]) -> np.ndarray:
        """Return the numbers of columns, `rows C`; NaN for missing values.

        Raises:
            DataError: If a cell is no number.
        """
        found = np.empty((len(self.frame), len(names)))
        for place, name in enumerate(names):
            found[:, place], bad = _numbers(self.frame[name])
            if bad.any():
                number = "a number such as 1234.5 (at most 1e100)"
                raise self._unreadable(name, int(bad.argmax()), number)
        return found

    def has_numbers(self, name: str) -> bool:
        """Return whether a cell of a column is a number."""
        return bool((~np.isnan(_numbers(self.frame[name])[0])).any())

    def _unreadable(self, name: str, row: int, expected: str) -> DataError:
        found = shown(self.frame[name].iloc[row])
        return DataError(f"{self.origin(row)}: column {name!r}: expected {expected}, found {found}")


def read_tables(given: Sequence[str | os.PathLike[str]] | Any) -> Table:
    """Return the cells of files, one below the other, or of a table in memory.

    Args:
        given: Names of CSV or Parquet files, or a table: a DataFrame or a dict of columns.

    Raises:
        DataError: If a file cannot be read or has no rows, or it is no table.
    """
    if isinstance(given, list | tuple):
        tables = [read_table(Path(path)) for path in given]
    else:
        tables = [Table(found := _text(given), [("table", range(2, len(found) + 2))])]
    # A column that a further file lacks is NaN there; all other cells are text.
    frame = pandas().concat([each.frame for each in tables], ignore_index=True)
    return Table(
        frame[tables[0].columns],
        [part for each in tables for part in each.parts],
        tuple(dict.fromkeys(note for each in tables for note in each.notes)),
    )


def read_table(path: Path) -> Table:
    """Return the cells of a CSV or Parquet file.

    Raises:
        DataError: If the file cannot be read, or has no rows.
    """
    check_regular(path)
    if path.suffix.lower() in (".parquet", ".pq"):
        frame = _text(_read_parquet(path))
        table = Table(frame, [(str(path), range(1, len(frame) + 1))])
    else:
        table = _read_csv(path)
    if table.frame.empty:
        raise DataError(f"{path}: is empty; expected a line of column names, and rows below it")
    return table


def _read_csv(path: Path) -> Table:
    """Return the cells of a CSV file."""
    lines = read_lines(path)
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        return Table(pandas().DataFrame(), [(str(path), [])])
    check_line_ends(path, lines.__iter__)
    comments = sum(1 for _ in takewhile(lambda line: line.startswith("#"), lines[:-1]))
    delimiter, above = csv_delimiter(lines[comments:].__iter__)
    if comments and lines[comments - 1].count(delimiter) == lines[comments].count(delimiter):
        comments -= 1  # the names of the columns, such as `#date,load`
    above += comments
    records = quoted_records(path, islice(lines, above, None), delimiter, above)
    header = [name.strip() for name in next(records, (0, [], 0))[1]]
    if header and all(map(_is_value, header)):
        raise DataError(
            f"{path}: the first line has values ({shown(', '.join(header))}), and no names; write "
            "the names of the columns above it"
        )
    for name in header:
        if header.count(name) > 1:
            raise DataError(f"{path}: two columns are called {name!r}; rename one of them")
    rows, numbers = [], []
    for number, cells, _ in records:
        if len(cells) != len(header):
            raise DataError(
                f"{path}:{number}: expected {counted(len(header), 'cell')} as in the first line, "
                f"found {len(cells)}"
                + ("; remove lines above the names of the columns" if len(header) == 1 else "")
            )
        rows.append(cells)
        numbers.append(number)
    frame = pandas().DataFrame(rows, columns=header, dtype=object)
    notes = [f"line 1 is a comment and is left out: {shown(lines[0])}"] * bool(comments)
    thousands, decimals = (
        "separators of thousands are left out",
        "decimal commas are read as points",
    )
    for group, mark, what in ((",", ".", thousands), (".", ",", thousands), ("", ",", decimals)):
        changed = [name for name in header if _is_written(frame[name], group, mark, delimiter)]
        for name in changed:
            column = frame[name].str.replace(group, "", regex=False)
            frame[name] = column.str.replace(mark, ".", regex=False)
        if changed:
            notes.append(f"{what}: {', '.join(changed)}")
    return Table(frame, [(str(path), numbers)], tuple(notes))


def _is_written(cells: Any, group: str, mark: str, delimiter: str) -> bool:
    """Return whether the numbers of a column have separators of thousands, or decimal commas.

    A number such as `1,234.50` shows both marks. Commas alone are decimal commas, but not in a file
    with commas between its cells.
    """
    if not any("," in cell for cell in cells):
        return False
    cells = cells.str.strip()
    marked = cells[cells.str.contains(group or ".", regex=False) & (cells != ".")]
    if not group:
        return delimiter != "," and marked.empty and cells.str.fullmatch(_DECIMAL_COMMA).any()
    grouped = rf"[-+]?\d{{1,3}}(?:\{group}\d{{3}})+"
    return bool(
        marked.str.fullmatch(rf"{grouped}\{mark}\d+").any()
        and marked.str.fullmatch(rf"{grouped}(?:\{mark}\d*)?").all()
    )


def _read_parquet(path: Path) -> Any:
    try:
        return pandas().read_parquet(path)
    except ImportError:
        raise DataError(
            f"{path}: reading Parquet needs pyarrow (pip install 'crosshead[parquet]'); or convert "
            "it to CSV"
        ) from None
    except FileNotFoundError as error:
        raise DataError(f"{path}: {why_unreadable(error)}") from None
    except (OSError, ValueError) as error:  # pyarrow's own errors are among them
        reason = " ".join(str(error).split())
        raise DataError(f"{path}: not a whole Parquet file ({reason:.200})") from None


def _text(table: Any) -> Any:
    """Return a table in memory as text; missing values become empty cells."""
    if hasattr(table, "reset_index") and getattr(table.index, "dtype", None) != "int64":
        table = table.reset_index()  # the times of a DataFrame are often its index
    if not hasattr(table, "keys"):
        raise DataError(
            f"series: expected files or a table of columns, found {type(table).__name__}"
        )
    columns = {str(name): list(table[name]) for name in table.keys()}  # noqa: SIM118
    if len({len(column) for column in columns.values()}) != 1:
        raise DataError(
            "series: expected columns of one length, found "
            + ", ".join(f"{name}: {len(column):,}" for name, column in columns.items())
        )
    frame = pandas().DataFrame(columns, dtype=object)
    return frame.map(str).where(frame.notna(), "")


def table_lines(table: Any) -> list[str]:
    """Return a table in memory as lines of CSV; None and NaN become empty cells.

    Args:
        table: Columns by name, such as a dict or a DataFrame.

    Raises:
        DataError: If it is no table.
    """
    text: str = _text(table).to_csv(index=False, lineterminator="\n")
    return text.removesuffix("\n").split("\n")


def time_column(table: Table, name: str | None) -> str:
    """Return the time column: the given one, or one that is found by its name or its first cell.

    Args:
        table: The cells.
        name: The name of the column, or None to find it.

    Raises:
        DataError: If there is none.
    """
    if name is not None:
        table.check(name, "time column")
        return name
    names = {column.lower(): column for column in table.columns[::-1]}
    if named := [each for each in _TIME_NAMES if each in names]:
        return names[named[0]]
    for column in table.columns:
        first = table.frame[column].iloc[0]
        if not is_number(first) and is_time(first):
            return column
    raise DataError(
        f"{table.path}: there is no time column among {', '.join(table.columns)}; name it with "
        "data.time, and write its times as 2024-01-31 12:00"
    )


def _numbers(cells: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of cells, NaN for missing values, and which cells are neither."""
    try:
        found = cells.to_numpy(dtype=object).astype(float)
    except ValueError:
        pass
    else:
        if (np.abs(found) <= _LARGEST).all() and not any("_" in cell for cell in cells):
            return found, np.zeros(len(found), bool)
    cells = cells.str.strip().str.lower().replace({"true": "1", "false": "0"})
    good = cells.str.fullmatch(_NUMBER).to_numpy(bool)
    found = cells.where(good, "nan").to_numpy(dtype=object).astype(float)
    large = np.abs(found) > _LARGEST
    found[large] = np.nan
    return found, large | ~(good | cells.isin(_MISSING).to_numpy())


def _is_value(name: str) -> bool:
    """Return whether a name in a first line is a number or a time, as in a line of values."""
    return is_number(name) or is_time(name)


def is_number(cell: str) -> bool:
    """Return whether a cell is a number, and not a missing value."""
    return bool(~np.isnan(_numbers(pandas().Series([cell], dtype=object))[0][0]))
