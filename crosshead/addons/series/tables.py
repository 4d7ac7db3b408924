"""Tables of text in named columns: files in CSV and Parquet, and tables in memory.

A table is a pandas DataFrame of text. Its index has the file and the line of each row.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np

from crosshead.addons.series.steps import Times, pandas, read_times
from crosshead.config import nearest, shown
from crosshead.errors import DataError
from crosshead.system.lines import check_regular, read_lines
from crosshead.system.progress import counted
from crosshead.text.parallel.tables import csv_form

_TIME_NAMES = (
    "date", "time", "timestamp", "datetime", "ds", "day", "month", "quarter", "year", "t", "step",
)  # fmt: skip
_MISSING = ("", "na", "n/a", "#n/a", "nan", "nat", "null", "none", "-", ".", "?")
"""The cells that are missing values, in small letters."""
_LARGEST = 1e100
"""The largest size of a number, so that squares and their sums are numbers too."""


def read_tables(given: Sequence[str | os.PathLike[str]] | Any, notes: list[str]) -> Any:
    """Return the table of files, one below the other, or of a table in memory."""
    if not isinstance(given, list | tuple):
        return _with_rows("table", _text(given))
    tables = [read_table(Path(path), notes) for path in given]
    # A column that a further file lacks is NaN there; all other cells are text.
    return pandas().concat(tables)[tables[0].columns]


def read_table(path: Path, notes: list[str]) -> Any:
    """Return the table of a CSV or Parquet file."""
    check_regular(path)
    if path.suffix.lower() not in (".parquet", ".pq"):
        return _with_rows(path, _read_csv(path, notes))
    try:
        return _with_rows(path, _text(pandas().read_parquet(path)))
    except ImportError:
        raise DataError(
            f"{path}: reading Parquet needs pyarrow (pip install 'crosshead[parquet]'); or convert "
            "it to CSV"
        ) from None
    except (OSError, ValueError) as error:  # pyarrow's own errors are among them
        reason = " ".join(str(error).split())
        raise DataError(f"{path}: cannot be read as Parquet ({reason:.200})") from None


def _with_rows(path: Path | str, frame: Any) -> Any:
    """Return a table whose index has the file and the line of each row."""
    if frame.empty:
        raise DataError(f"{path}: is empty; expected a line of column names, and rows below it")
    return pandas().concat([frame], keys=[str(path)])


def _read_csv(path: Path, notes: list[str]) -> Any:
    """Return the cells of a CSV file. The index has the lines."""
    lines = read_lines(path)
    while lines and not lines[-1].strip():
        lines.pop()
    above_header = [*takewhile(lambda line: line.startswith("#") or not line.strip(), lines)]
    comments = len(above_header)
    form = csv_form(lines[comments:].__iter__)
    form = replace(form, above=form.above + comments)
    records = list(form.rows(path, iter(lines)))
    header = [name.strip() for name in records[0][1]] if records else []
    if header and all(re.match(r"[-+.]?\d", name) for name in header):
        raise DataError(
            f"{path}: the first line has values ({shown(', '.join(header))}), and no names; write "
            "the names of the columns above it"
        )
    for name in header:
        if header.count(name) > 1:
            raise DataError(f"{path}: two columns are called {name!r}; rename one of them")
    for number, cells in records:
        if len(cells) != len(header):
            raise DataError(
                f"{path}:{number}: expected {counted(len(header), 'cell')} as in the first line, "
                f"found {len(cells)}; the first line has the names of the columns"
            )
    frame = pandas().DataFrame(
        [cells for _, cells in records[1:]], [line for line, _ in records[1:]], header, object
    )
    if comment := " ".join(above_header).strip():
        notes.append(f"comments above the columns are left out: {shown(comment)}")
    written = frame.apply(_with_points, delimiter=form.delimiter)
    if changed := [name for name in header if not written[name].equals(frame[name])]:
        notes.append(
            f"numbers such as 1,234.5 or 1,5 are read as 1234.5 or 1.5: {', '.join(changed)}"
        )
    return written


def _with_points(cells: Any, delimiter: str) -> Any:
    """Return numbers with decimal points, and without separators of thousands.

    Between commas, `1,234.5` is such a number, because it shows both marks. Between semicolons or
    tabs, it is `1.234,5`, and a comma alone is a decimal comma.
    """
    group, mark = (",", ".") if delimiter == "," else (".", ",")
    shows = cells.str.contains(r",\d{3}\.\d" if delimiter == "," else r",\d")
    if not shows.any():
        return cells
    number = rf"\s*[-+]?(?:\d{{1,3}}(?:\{group}\d{{3}})+|\d*)(?:\{mark}\d*)?(?:[eE][-+]?\d+)?\s*"
    written = cells.str.fullmatch(number)
    if not (written & shows).any() or cells[~written].str.contains(rf"\{group}\d|\d\{group}").any():
        return cells
    points = cells.str.replace(group, "", regex=False).str.replace(mark, ".", regex=False)
    return points.where(written, cells)


def _text(table: Any) -> Any:
    """Return a table in memory as text; missing values become empty cells."""
    try:
        frame = pandas().DataFrame(dict(table), dtype=object)
        if frame.index.dtype != "int64":
            frame = frame.reset_index()  # the times of a DataFrame are often its index
    except (TypeError, ValueError):
        raise DataError(
            "series: expected files, or a table of columns of one length, found "
            f"{type(table).__name__}"
        ) from None
    text = frame.rename(columns=str).map(str).where(frame.notna().to_numpy(), "")
    return text.set_axis(range(1, len(text) + 1))


def origin(table: Any, row: int) -> str:
    """Return the file and the line of a row."""
    return "{}:{}".format(*table.index[row])


def column(table: Any, name: str, what: str = "column") -> Any:
    """Return the cells of a column."""
    names = list(table.columns)
    absent = table[name].isna().to_numpy() if name in names else np.ones(1, bool)
    if absent.any():
        path = table.index[int(absent.argmax())][0]
        raise DataError(f"{path}: there is no {what} {name!r}; {nearest(name, names)}")
    return table[name]


def unreadable(table: Any, name: str, row: int, expected: str) -> DataError:
    """Return the error for a cell."""
    found = shown(table[name].iloc[row])
    return DataError(f"{origin(table, row)}: column {name!r}: expected {expected}, found {found}")


def times(table: Any, name: str | None, numbers: bool) -> tuple[str, Times]:
    """Return the time column and its times."""
    names = {each.lower(): each for each in table.columns[::-1]}
    if name is None:
        usual = (names[each] for each in _TIME_NAMES if each in names)
        name = next(usual, None) or next(filter(lambda each: _has_times(table[each]), table), None)
    if name is None:
        raise DataError(
            f"{table.index[0][0]}: there is no time column among {', '.join(table)}; name it with "
            "data.time, and write its times as 2024-01-31 12:00"
        )
    found = read_times(column(table, name, "time column"), numbers=numbers)
    if (bad := np.isnat(found.values.astype("M8[us]"))).any():
        expected = "an unambiguous time such as 2024-01-31 12:00"
        raise unreadable(table, name, int(bad.argmax()), expected)
    return name, found


def _has_times(cells: Any) -> bool:
    """Return whether the first of some cells is a time, and no number."""
    values = read_times(cells).values
    is_number = not np.isnan(numbers(cells[:1])[0][0])
    return not is_number and values.dtype.kind == "M" and not np.isnat(values[0])


def numbers(cells: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of cells, NaN for missing values, and which cells are neither."""
    cells = cells.str.strip().str.lower().replace({"true": "1", "false": "0"})
    found = np.array(pandas().to_numeric(cells, errors="coerce"), float)
    found[np.abs(found) > _LARGEST] = np.nan
    return found, np.isnan(found) & ~cells.isin(_MISSING).to_numpy()


def table_lines(table: Any) -> list[str]:
    """Return a table in memory as lines of CSV; None and NaN become empty cells."""
    text: str = _text(table).to_csv(index=False, lineterminator="\n")
    return text.removesuffix("\n").split("\n")
