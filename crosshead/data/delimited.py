"""Files of cells, TSV and CSV: their delimiter, their quoting, and their records.

A spreadsheet writes a cell that holds a delimiter, a quote or a line break between quotes, and a
quote inside of it twice (RFC 4180, section 2). `.csv` is always read so. `.tsv`, and any other
name, is read so where the whole file agrees with it, since text may begin with a quote by itself.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np

from crosshead.data.languages import language_code
from crosshead.errors import DataError

Lines = Callable[[], Iterator[str]]
"""A function that reads the lines of a file from the beginning."""

Record = tuple[int, list[str]]
"""The line on which some cells begin, counted from 1, and the cells."""

SAMPLE = 100
"""So many records tell which character stands between cells, and whether a header is above them."""

_CSV_DELIMITERS = (",", ";", "\t")
_MOST_LINES = 1000
"""A quote that is not closed after so many lines is not the beginning of a cell."""

_LOOKS_QUOTED = re.compile(r'(?:^|\t)"(?:[^"\t]|"")*""(?:[^"\t]|"")*"(?=\t|$)')


def is_csv(path: Path) -> bool:
    """Return whether a file is CSV, by its name."""
    return path.name.removesuffix(".gz").endswith(".csv")


@dataclass(frozen=True)
class Layout:
    """How the cells of a file are written."""

    delimiter: str = "\t"
    quoted: bool = False
    """Whether cells may stand between quotes."""
    broken: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    """The records, counted from 0 and rising, that take more than one line."""
    extra: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    """How many lines more the records of `broken` take, up to and with each."""
    notes: tuple[str, ...] = ()
    """What a reader should know of it, in lines that begin with the name of the file."""

    def line(self, record: int) -> int:
        """Return the line on which record `record` (from 0) begins, counted from 1."""
        before = int(np.searchsorted(self.broken, record))
        return record + 1 + (int(self.extra[before - 1]) if before else 0)

    def records(self, path: Path, lines: Iterator[str]) -> Iterator[Record]:
        """Yield the cells of each record; a line break in a cell becomes a space.

        Raises:
            DataError: A quote is misplaced or not closed; the message names file and line.
        """
        if not self.quoted:
            for number, line in enumerate(lines, 1):
                yield number, line.split(self.delimiter)
            return
        for number, cells, _ in _quoted_records(path, lines, self.delimiter):
            yield number, [cell.text for cell in cells]

    @property
    def between(self) -> str:
        """What stands between two cells, in words."""
        return {"\t": "tabs", ",": "commas", ";": "semicolons"}[self.delimiter]


def layout_of(path: Path, lines: Lines) -> Layout:
    """Find out how a file of cells is written, from all of it.

    Args:
        path: The name of the file, which tells CSV from TSV and begins messages.
        lines: Reads the file; it is called several times.

    Raises:
        DataError: The file cannot be read, or is CSV with misplaced quotes.
    """
    delimiter = _csv_delimiter(lines) if is_csv(path) else "\t"
    begins = f'{delimiter}"'
    if not any(line.startswith('"') or begins in line for line in lines()):
        return Layout(delimiter, is_csv(path), notes=_csv_notes(path, delimiter))
    if is_csv(path):
        return _survey(path, lines(), delimiter).layout(
            path, delimiter, _csv_notes(path, delimiter)
        )
    try:
        survey = _survey(path, lines(), delimiter)
    except DataError:
        return Layout(notes=_unquoted_notes(path, lines))
    if not survey.is_spreadsheets or (survey.broken and _is_rectangular(lines)):
        return Layout(notes=_unquoted_notes(path, lines))
    note = (
        f"{path}: cells are quoted as a spreadsheet writes them; the quotes around a cell are left "
        'out, and "" inside is read as one quote'
    )
    return survey.layout(path, delimiter, (note,))


def looks_like_header(first: Sequence[str], following: Sequence[Sequence[str]]) -> bool:
    """Return whether the cells of a first line look like names of columns.

    They do where each is one word, and where almost no line below has single words only.

    Args:
        first: The cells of the first line that would be trained on: source and target.
        following: The same cells of some lines below.
    """
    if not all(_WORD.fullmatch(cell.strip()) for cell in first):
        return False
    names = [cell.strip().lower() for cell in first]
    if all(name in _USUAL_NAMES or language_code(name) for name in names):
        return True
    alike = sum(all(_WORD.fullmatch(cell.strip()) for cell in row) for row in following)
    return len(following) >= 5 and alike <= len(following) / 10


_WORD = re.compile(r"[\w-]{1,30}")
_USUAL_NAMES = frozenset(
    {"source", "target", "src", "tgt", "trg", "text", "translation", "sentence", "input", "output"}
)
"""Names of columns, beside language codes, that are known without a look at the lines below."""


@dataclass(frozen=True)
class _Cell:
    text: str
    quoted: bool
    needed: bool = False
    """Whether it holds what a spreadsheet puts between quotes: a delimiter, quote or line break."""
    broken: bool = False
    """Whether it holds a line break."""


@dataclass
class _Survey:
    """What the records of a file show of its quoting."""

    broken: list[int] = field(default_factory=list)
    extra: list[int] = field(default_factory=list)
    """As those of `Layout`, but for the sum."""
    broken_cells: int = 0
    first_broken: int = 0
    """The line of the first record with a line break in a cell."""
    quoted: int = 0
    plain: int = 0
    needed: int = 0
    with_comma: Counter[bool] = field(default_factory=Counter)
    """Cells that hold a comma, by whether they are quoted."""
    widths: set[int] = field(default_factory=set)
    """How many cells records have."""
    stray: int = 0
    """Cells without quotes around them that hold a quote: no spreadsheet writes them."""

    @property
    def is_spreadsheets(self) -> bool:
        """Whether a spreadsheet, or a library for tables, has put the quotes there.

        It quotes all cells that need it: those with a quote, a delimiter or a line break, for
        Excel those with a comma too. Or it quotes every cell.
        """
        if self.stray or not self.quoted or len(self.widths) > 1:
            return False
        as_excel = self.with_comma[True] == self.quoted and not self.with_comma[False]
        return self.needed > 0 or self.plain == 0 or as_excel

    def layout(self, path: Path, delimiter: str, notes: tuple[str, ...]) -> Layout:
        """The layout with these quotes."""
        if self.broken:
            notes = (
                *notes,
                f"{path}:{self.first_broken}: a cell holds a line break, which is read as a space "
                f"(such cells in the file: {self.broken_cells:,})",
            )
        broken, extra = np.array(self.broken, np.int64), np.cumsum(self.extra, dtype=np.int64)
        return Layout(delimiter, True, broken, extra, notes)


def _survey(path: Path, lines: Iterator[str], delimiter: str) -> _Survey:
    """Raises `DataError` for a misplaced quote."""
    found = _Survey()
    for record, (number, cells, extra) in enumerate(_quoted_records(path, lines, delimiter)):
        if extra:
            found.first_broken = found.first_broken or number
            found.broken.append(record)
            found.extra.append(extra)
        found.widths.add(len(cells))
        for cell in cells:
            if not cell.text:
                continue
            found.quoted += cell.quoted
            found.plain += not cell.quoted
            found.needed += cell.needed
            found.broken_cells += cell.broken
            found.with_comma[cell.quoted] += "," in cell.text
            found.stray += not cell.quoted and '"' in cell.text
    return found


def _is_rectangular(lines: Lines) -> bool:
    """Whether every line has as many tabs as the first, so that no cell goes across two of them."""
    return len({line.count("\t") for line in lines()}) == 1


def _quoted_records(
    path: Path, lines: Iterator[str], delimiter: str
) -> Iterator[tuple[int, list[_Cell], int]]:
    """The line of each record, its cells, and how many lines more than one it takes.

    Raises `DataError` for a misplaced quote.
    """
    number = 1
    for line in lines:
        extra = 0
        while (cells := _cells(line, delimiter, f"{path}:{number}")) is None:
            following = next(lines, None)
            extra += 1
            if following is None or extra > _MOST_LINES:
                raise DataError(
                    f"{path}:{number}: the quote that begins a cell here is not closed"
                    f"{f' within {_MOST_LINES:,} lines' if following is not None else ''}; close "
                    'it, or write a quote that belongs to the text as """"'
                )
            line = f"{line}\n{following}"
        yield number, cells, extra
        number += 1 + extra


def _cells(text: str, delimiter: str, where: str) -> list[_Cell] | None:
    """The cells of a record, or None where its last quote is not closed yet."""
    if '"' not in text:
        return [_Cell(cell, False) for cell in text.split(delimiter)]
    cells = []
    at = 0
    while True:
        if text.startswith('"', at):
            end = _closing(text, at + 1)
            if end < 0:
                return None
            inside = text[at + 1 : end]
            needed = any(each in inside for each in ('"', "\n", delimiter))
            shown = inside.replace('""', '"').replace("\n", " ")
            cells.append(_Cell(shown, True, needed, "\n" in inside))
            end += 1
            if end < len(text) and text[end] != delimiter:
                raise DataError(
                    f"{where}: {text[end : end + 20]!r} follows the quote that ends a cell; write "
                    'a quote inside of a quoted cell twice ("")'
                )
        else:
            end = text.find(delimiter, at)
            end = len(text) if end < 0 else end
            cells.append(_Cell(text[at:end], False))
        if end >= len(text):
            return cells
        at = end + 1


def _closing(text: str, at: int) -> int:
    """The place of the quote that ends a cell, from `at` on, or -1."""
    while (end := text.find('"', at)) >= 0:
        if not text.startswith('"', end + 1):
            return end
        at = end + 2
    return -1


def _csv_delimiter(lines: Lines) -> str:
    """The character that gives the first records of a CSV as many cells as the first has."""

    def agreement(delimiter: str) -> float:
        counts = []
        try:
            for _, cells, _ in islice(_quoted_records(Path(), lines(), delimiter), SAMPLE):
                counts.append(len(cells))
        except DataError:
            counts.append(0)
        return counts.count(counts[0]) / len(counts) if counts and counts[0] > 1 else 0.0

    return max(_CSV_DELIMITERS, key=agreement)


def _csv_notes(path: Path, delimiter: str) -> tuple[str, ...]:
    if not is_csv(path):
        return ()
    return (f"{path}: read as CSV with {Layout(delimiter).between} between the cells",)


def _unquoted_notes(path: Path, lines: Lines) -> tuple[str, ...]:
    """A warning where some cells look like those of a spreadsheet, and the file does not."""
    found = [
        number
        for number, line in enumerate(lines(), 1)
        if '""' in line and _LOOKS_QUOTED.search(line)
    ]
    if not found:
        return ()
    return (
        f"warning: {path}:{found[0]}: a cell is quoted as a spreadsheet writes it, but others have "
        f"quotes of their own; all quotes ({len(found):,} such lines) are read as text: save the "
        "file as .csv, or remove the quotes",
    )
