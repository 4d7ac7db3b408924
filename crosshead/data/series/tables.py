"""Cells in named columns: files in CSV and Parquet, and tables in memory."""

import csv
import io
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from crosshead.config import nearest, shown
from crosshead.data.parallel.delimited import check_line_ends, csv_delimiter, quoted_records
from crosshead.data.series.steps import is_time, parse_time, without_slashes
from crosshead.errors import DataError, why_unreadable
from crosshead.system.lines import check_regular, read_lines
from crosshead.system.progress import counted

_TIME_NAMES = ("date", "time", "timestamp", "datetime", "ds", "day", "month", "year")
_MISSING = {"", "na", "n/a", "#n/a", "nan", "null", "none", "-", ".", "?"}
"""The cells that are missing values, in small letters."""
_DECIMAL_COMMA = re.compile(r"\s*[-+]?\d*,\d+([eE][-+]?\d+)?\s*")
_A_NUMBER = "a number such as 1234.5 (at most 1e100)"
_LARGEST = 1e100
"""The largest size of a number, so that squares and their sums are numbers too."""


@dataclass(frozen=True)
class Columns:
    """The cells of a file, by column."""

    path: Path
    columns: Mapping[str, Sequence[Any]]
    lines: Sequence[int]
    """The line of each row in the file; empty for a file without lines."""
    decimal_commas: Sequence[str] = ()
    """The columns whose decimal commas were read as decimal points."""

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def origin(self, row: int) -> str:
        """Return the file and the line, or the number, of a row."""
        return f"{self.path}:{self.lines[row]}" if self.lines else f"{self.path}, row {row + 1}"

    def check(self, name: str, what: str) -> None:
        """Check that there is a column.

        Args:
            name: Its name.
            what: The kind of column, for the message.

        Raises:
            DataError: If there is none.
        """
        if name not in self.columns:
            raise DataError(
                f"{self.path}: there is no {what} {name!r}; {nearest(name, list(self.columns))}"
            )

    def times(self, name: str) -> list[datetime]:
        """Return the times of a column, with their offsets from UTC.

        Raises:
            DataError: If there is no such column, or a cell is no time.
        """
        self.check(name, "time column")
        try:
            cells = without_slashes(self.columns[name])
        except ValueError:
            raise DataError(
                f"{self.path}: column {name!r}: the dates do not show whether the month or the day "
                "stands first; write them as 2024-01-31"
            ) from None
        return self._parsed(name, cells, parse_time, "a time such as 2024-01-31 12:00")

    def numbers(self, names: Sequence[str]) -> np.ndarray:
        """Return the numbers of columns, `rows C`; NaN for missing values.

        Raises:
            DataError: If a cell is no number.
        """
        columns = [self._parsed(name, self.columns[name], _number, _A_NUMBER) for name in names]
        return np.stack([np.array(column) for column in columns], -1)

    def _parsed(
        self, name: str, cells: Sequence[Any], parse: Callable[[Any], Any], expected: str
    ) -> list[Any]:
        found = []
        for row, cell in enumerate(cells):
            try:
                found.append(parse(cell))
            except (ValueError, TypeError, OverflowError):
                raise DataError(
                    f"{self.origin(row)}: column {name!r}: expected {expected}, found "
                    f"{shown(self.columns[name][row])}"
                ) from None
        return found


def read_table(path: Path) -> Columns:
    """Return the cells of a CSV or Parquet file.

    Raises:
        DataError: If the file cannot be read, or has no rows.
    """
    check_regular(path)
    parquet = path.suffix.lower() in (".parquet", ".pq")
    table = Columns(path, _read_parquet(path), ()) if parquet else _read_csv(path)
    if not table.columns or not len(table):
        raise DataError(f"{path}: is empty; expected a line of column names, and rows below it")
    return table


def _read_csv(path: Path) -> Columns:
    """Return the cells of a CSV file."""
    lines = read_lines(path)
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        return Columns(path, {}, ())
    check_line_ends(path, lines.__iter__)
    delimiter, above = csv_delimiter(lines.__iter__)
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
    columns = {name: [cells[place] for cells in rows] for place, name in enumerate(header)}
    commas = [name for name, cells in columns.items() if delimiter != "," and _has_commas(cells)]
    for name in commas:
        columns[name] = [cell.replace(",", ".") for cell in columns[name]]
    return Columns(path, columns, numbers, commas)


def _has_commas(cells: Sequence[str]) -> bool:
    """Return whether a column has decimal commas: commas in numbers, and no points at all.

    With points as well, points and commas may separate thousands.
    """
    points = any("." in cell for cell in cells if cell.strip() != ".")  # a missing value
    return any(map(_DECIMAL_COMMA.fullmatch, cells)) and not points


def _read_parquet(path: Path) -> dict[str, list[Any]]:
    try:
        parquet: Any = import_module("pyarrow.parquet")
    except ImportError:
        raise DataError(
            f"{path}: reading Parquet needs pyarrow (pip install 'crosshead[parquet]'); or convert "
            "it to CSV"
        ) from None
    try:
        found: dict[str, list[Any]] = parquet.read_table(path).to_pydict()
    except FileNotFoundError as error:
        raise DataError(f"{path}: {why_unreadable(error)}") from None
    except (OSError, ValueError) as error:  # pyarrow's own errors are among them
        reason = " ".join(str(error).split())
        raise DataError(f"{path}: not a whole Parquet file ({reason:.200})") from None
    return found


def table_lines(table: Any) -> Iterator[str]:
    """Yield a table in memory as lines of CSV; None and NaN become empty cells.

    Args:
        table: Columns by name, such as a dict or a DataFrame.

    Raises:
        DataError: If it is no table.
    """
    if hasattr(table, "reset_index") and getattr(table.index, "dtype", None) != "int64":
        table = table.reset_index()  # the times of a DataFrame are often its index
    if not hasattr(table, "keys"):
        raise DataError(
            f"series: expected files or a table of columns, found {type(table).__name__}"
        )
    columns = {str(name): list(table[name]) for name in table.keys()}  # noqa: SIM118
    lengths = {len(column) for column in columns.values()}
    if len(lengths) != 1:
        raise DataError(
            "series: expected columns of one length, found "
            + ", ".join(f"{name}: {len(column):,}" for name, column in columns.items())
        )
    line = io.StringIO(newline="")
    writer = csv.writer(line, lineterminator="")
    for row in chain([list(columns)], zip(*columns.values(), strict=True)):
        line.seek(0)
        line.truncate()
        # A cell that is not equal to itself is NaN or NaT.
        writer.writerow(["" if cell is None or cell != cell else cell for cell in row])
        yield line.getvalue()


def time_column(table: Columns, name: str | None) -> str:
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
    names = {column.lower(): column for column in [*table.columns][::-1]}
    if named := [each for each in _TIME_NAMES if each in names]:
        return names[named[0]]
    for column, cells in table.columns.items():
        if not is_number(cells[0]) and is_time(cells[0]):
            return column
    raise DataError(
        f"{table.path}: there is no time column among {', '.join(table.columns)}; name it with "
        "data.time, and write its times as 2024-01-31 12:00"
    )


def _number(cell: Any) -> float:
    """Return a number; NaN for a missing value."""
    if cell is None or (isinstance(cell, str) and cell.strip().lower() in _MISSING):
        return math.nan
    if isinstance(cell, bool):
        return float(cell)
    found = float(cell)
    if abs(found) > _LARGEST or (isinstance(cell, str) and "_" in cell):  # 1_000 is Python's
        raise ValueError
    return found


def _is_value(name: str) -> bool:
    """Return whether a name in a first line is a number or a time, as in a line of values."""
    return is_number(name) or is_time(name)


def is_number(cell: Any) -> bool:
    """Return whether a cell is a number, and not a missing value."""
    try:
        return not math.isnan(_number(cell))
    except (ValueError, TypeError, OverflowError):
        return False
