"""Rows of tables: TSV, CSV and JSON Lines, with the file and the line of each row in errors.

A spreadsheet puts quotes around a cell that contains a delimiter, a quote or a line break, and
doubles a quote inside (RFC 4180, section 2). CSV is read so. In other tables quotes are text,
because ordinary text may begin with a quote.
"""

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from crosshead.config import nearest, shown
from crosshead.errors import DataError
from crosshead.system.lines import LONGEST_LINE, is_utf8, kind_of

Row = tuple[int, list[str]]
"""The line on which a row begins, counted from 1, and cells."""

_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs"}
"""Possible delimiters of a CSV, the most likely first, with their names."""

_SAMPLE = 100
"""The number of rows that decide on the delimiter."""

_NUMBER = re.compile(r"[1-9]\d{0,5}")
"""The number of a column. More digits are a name."""

# The size limit of `csv` for a cell holds for the whole process. A cell on one line is at most as
# long as the longest line. A higher limit set by the program stays.
csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))


def is_jsonl(path: Path) -> bool:
    """Return whether a file is JSON Lines, judged by its name."""
    return path.name.removesuffix(".gz").endswith(".jsonl")


def is_csv(path: Path) -> bool:
    """Return whether a file is CSV, judged by its name."""
    return path.name.removesuffix(".gz").endswith(".csv")


def file_kind(path: Path) -> str:
    """Return the format of a table, judged by its name: `jsonl`, `csv` or `tsv`."""
    return "jsonl" if is_jsonl(path) else "csv" if is_csv(path) else "tsv"


def has_header(fields: Sequence[str]) -> bool:
    """Return whether fields are names, which the first row then has, and not numbers of columns."""
    return not all(map(_NUMBER.fullmatch, fields))


@dataclass(frozen=True)
class Form:
    """The form of a file of cells."""

    delimiter: str = "\t"
    quoted: bool = False
    """True if cells may stand between quotes."""
    above: int = 0
    """The number of lines above the first row, such as Excel's `sep=;`."""

    @property
    def between(self) -> str:
        """The delimiter in words."""
        return _DELIMITERS[self.delimiter]

    def rows(self, path: Path, lines: Iterator[str]) -> Iterator[Row]:
        """Yield all rows. A line break in a cell becomes a space."""
        lines = islice(lines, self.above, None)
        if not self.quoted:
            for place, line in enumerate(lines, self.above + 1):
                yield place, line.split(self.delimiter)
            return
        number = self.above + 1
        reader = csv.reader((f"{line}\n" for line in lines), delimiter=self.delimiter, strict=True)
        try:
            for cells in reader:
                last = self.above + reader.line_num
                if last > number:
                    cells = [cell.replace("\n", " ") for cell in cells]
                yield number, cells or [""]
                number = last + 1
        except csv.Error:
            raise DataError(
                f"{path}:{number}: a quote is misplaced or not closed, or a carriage return stands "
                'outside quotes; quote whole cells, double each quote inside ("") and end lines in '
                "line feeds"
            ) from None


def csv_form(lines: Callable[[], Iterator[str]]) -> Form:
    """Return the form of a CSV.

    Excel's first line `sep=;` names the delimiter. Without it, the delimiter is the character for
    which the first rows agree best in the number of cells.
    """
    first = next(lines(), "")
    if first[:4].lower() == "sep=" and first[4:] in _DELIMITERS:
        return Form(first[4:], quoted=True, above=1)

    def agreement(form: Form) -> float:
        counts = []
        try:
            counts += [len(cells) for _, cells in islice(form.rows(Path(), lines()), _SAMPLE)]
        except DataError:
            return 0.0
        return counts.count(counts[0]) / len(counts) if counts and counts[0] > 1 else 0.0

    return max((Form(each, quoted=True) for each in _DELIMITERS), key=agreement)


def chosen_cells(
    path: Path,
    lines: Iterator[str],
    fields: Sequence[str],
    form: Form,
    columns: int = 2,
    advice: str = "",
) -> Iterator[Row]:
    """Yield the cells of some fields from each row, and empty cells for an empty line.

    Fields are names of columns or keys of JSON, or numbers of columns from 1. Without fields, a
    table has this number of columns. A row with more filled cells than the first is refused: its
    text was cut at a delimiter. Tabs hardly occur in text, so numbered columns of a TSV may have
    further ones after them.
    """
    if is_jsonl(path):
        for number, line in enumerate(lines, 1):
            where = f"{path}:{number}"
            yield number, _of_json(line, fields, where) if line.strip() else [""] * len(fields)
        return
    rows = form.rows(path, lines)
    places, width = list(range(columns)), columns
    if has_header(fields):
        number, header = next(rows, (1, [""]))
        places, width = _places(f"{path}:{number}", header, fields), len(header)
    elif fields:
        places, width = [int(field) - 1 for field in fields], 0
    for number, cells in rows:
        if cells == [""]:
            yield number, [""] * len(places)
            continue
        width = width or (len(cells) if form.quoted else LONGEST_LINE)
        if len(cells) <= max(places) or any(map(str.strip, cells[width:])):
            raise DataError(
                f"{path}:{number}: {_misfit(cells, max(places) + 1, width, form)}{advice}"
            )
        yield number, [cells[place] for place in places]


def _places(where: str, header: Sequence[str], fields: Sequence[str]) -> list[int]:
    """Return the places of named columns. White space around a cell is no part of its name."""
    names = [cell.strip() for cell in header]
    for field in fields:
        if names.count(field) > 1:
            raise DataError(f"{where}: two columns are called {field!r}; rename one of them")
        if field not in names:
            raise DataError(
                f"{where}: no column {field!r} in the first line; {nearest(field, names)}"
                f"{_another_kind(header)}"
            )
    return [names.index(field) for field in fields]


def _misfit(cells: Sequence[str], least: int, width: int, form: Form) -> str:
    """Return the fault of a row with too few or too many cells, and what to do."""
    wanted = f"at least {least}" if len(cells) < least else f"{width:,}"
    found = f"{len(cells):,} ({shown(list(cells))})"
    inside = "quote cells that contain" if form.quoted else "complete the line, or remove"
    return (
        f"expected {wanted} columns between {form.between}, found {found}; {inside} "
        f"{form.between}{_another_kind(cells)}"
    )


def _another_kind(cells: Sequence[str]) -> str:
    """Return a clause about the formats of tables if a row has one cell alone."""
    if len(cells) > 1 or not (kind := kind_of(cells[0].encode())):
        return ""
    return f" (this is {kind.words}; a table is TSV, CSV named .csv, or JSON Lines named .jsonl)"


def field_of(row: Mapping[Any, Any], field: str | int) -> Any:
    """Return the value of a field in a mapping; `a.b` may be `b` inside `a`."""
    if field in row:
        return row[field]
    outer, _, inner = str(field).partition(".")
    if not isinstance(row.get(outer), Mapping):
        raise KeyError(field)
    return field_of(row[outer], inner)


def field_names(row: Mapping[str, Any]) -> list[str]:
    """Return the names that `field_of` takes for the values of a mapping."""
    return [
        name
        for outer, value in row.items()
        for name in (
            [f"{outer}.{inner}" for inner in value] if isinstance(value, Mapping) else [str(outer)]
        )
    ]


def _of_json(line: str, fields: Sequence[str], where: str) -> list[str]:
    """Return the texts of some fields in a line of JSON."""
    try:
        row = json.loads(line, parse_int=float)  # Python refuses to read thousands of digits as int
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        raise DataError(
            f"{where}: expected a JSON object with {', '.join(fields)}, found {line[:40]!r}; write "
            "one object on every line (JSON Lines)"
        )
    texts = []
    for field in fields:
        try:
            texts.append(field_of(row, field))
        except KeyError:
            hint = nearest(field, field_names(row))
            raise DataError(f"{where}: no field {field!r}; {hint}") from None
        if not isinstance(texts[-1], str) or not (texts[-1].isascii() or is_utf8(texts[-1])):
            raise DataError(f"{where}: field {field!r} is no text but {shown(texts[-1])}")
    return texts
