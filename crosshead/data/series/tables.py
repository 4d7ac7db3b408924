"""Files of cells in named columns: CSV and Parquet."""

import csv
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from crosshead.config import nearest, shown
from crosshead.data.series.steps import parse_time
from crosshead.errors import DataError, why_unreadable
from crosshead.system.lines import check_regular, read_lines

_TIME_NAMES = ("date", "time", "timestamp", "datetime", "ds", "day", "month")
_MISSING = {"", "na", "n/a", "nan", "null", "none", "-", "?"}
_DELIMITERS = ",;\t"


@dataclass(frozen=True)
class Table:
    """The cells of a file, by column."""

    path: Path
    columns: Mapping[str, Sequence[Any]]
    lines: bool
    """True if row 0 stands on line 2 of the file."""

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def origin(self, row: int) -> str:
        """Return the file and the line, or the number, of a row."""
        return f"{self.path}:{row + 2}" if self.lines else f"{self.path}, row {row + 1}"

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

    def times(self, name: str) -> np.ndarray:
        """Return the times of a column.

        Raises:
            DataError: If there is no such column, or a cell is no time.
        """
        self.check(name, "time column")
        return np.array(self._parsed(name, parse_time, "a time such as 2024-01-31 12:00"), "M8[us]")

    def numbers(self, names: Sequence[str]) -> np.ndarray:
        """Return the numbers of columns, `rows C`; NaN for missing values.

        Raises:
            DataError: If a cell is no number.
        """
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


def read_table(path: Path) -> Table:
    """Return the cells of a CSV or Parquet file.

    Raises:
        DataError: If the file cannot be read, or has no rows.
    """
    check_regular(path)
    parquet = path.suffix.lower() in (".parquet", ".pq")
    columns = _read_parquet(path) if parquet else _read_csv(path)
    table = Table(path, columns, lines=not parquet)
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
    for column in table.columns:
        if column.lower() in _TIME_NAMES:
            return column
    for column, cells in table.columns.items():
        if not is_number(cells[0]):
            try:
                parse_time(cells[0])
            except (ValueError, TypeError):
                continue
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
    if math.isinf(found):
        raise ValueError
    return found


def is_number(cell: Any) -> bool:
    """Return whether a cell is a number, and not a missing value."""
    try:
        return not math.isnan(_number(cell))
    except (ValueError, TypeError, OverflowError):
        return False
