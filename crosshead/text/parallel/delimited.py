"""Read files of cells, TSV and CSV: their delimiter, quoting and records.

A spreadsheet puts quotes around a cell that contains a delimiter, a quote or a line break, and
doubles a quote inside (RFC 4180, section 2). Python's `csv` reads such records. `.csv` files are
always read in this way. TSV files are read so only if the whole file agrees with this form, because
ordinary text may begin with a quote.
"""

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

import numpy as np

from crosshead.errors import DataError
from crosshead.system.encodings import line_feeds
from crosshead.system.lines import LONGEST_LINE
from crosshead.text.parallel.languages import codes_of_names, language_code

Lines = Callable[[], Iterator[str]]
"""A function that reads the lines of a file from the beginning."""

Record = tuple[int, list[str]]
"""The line on which a record begins, counted from 1, and its cells."""

SAMPLE = 100
"""The number of records that decide on the delimiter and on the presence of a header."""

_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs"}
"""Possible delimiters of a CSV, the most likely first, with their names."""

_QUOTED = re.compile(r'"[^"]*"')
"""Text between quotes."""

_LOOKS_QUOTED = re.compile(r'(?:^|\t)"(?:[^"\t]|"")*""(?:[^"\t]|"")*"(?=\t|$)')

# The size limit of `csv` for a cell holds for the whole process. A cell on one line is at most as
# long as the longest line. A higher limit set by the program stays.
csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))


def is_csv(path: Path) -> bool:
    """Return whether a file is CSV, judged by its name."""
    return path.name.removesuffix(".gz").endswith(".csv")


@dataclass(frozen=True)
class Layout:
    """The form of the records of a file."""

    delimiter: str = "\t"
    quoted: bool = False
    """True if some cells stand between quotes."""
    above: int = 0
    """The number of lines above the first record, such as Excel's `sep=;`."""
    broken: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    """The sorted numbers, from 0, of records with more than one line."""
    extra: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    """Cumulative number of extra lines after each record of `broken`."""
    notes: tuple[str, ...] = ()
    """Messages about the file. Each begins with the name of the file."""

    def line(self, record: int) -> int:
        """Return the line on which record `record` (from 0) begins, counted from 1."""
        before = int(np.searchsorted(self.broken, record))
        return self.above + record + 1 + (int(self.extra[before - 1]) if before else 0)

    def records(self, path: Path, lines: Iterator[str]) -> Iterator[Record]:
        """Yield the line number and the cells of each record.

        A line break in a cell becomes a space.
        """
        lines = islice(lines, self.above, None)
        if not self.quoted:
            for number, line in enumerate(lines, self.above + 1):
                yield number, line.split(self.delimiter)
            return
        for number, cells, more in quoted_records(path, lines, self.delimiter, self.above):
            yield number, [cell.replace("\n", " ") for cell in cells] if more else cells

    @property
    def between(self) -> str:
        """The delimiter in words."""
        return _DELIMITERS[self.delimiter]


def place(path: Path, line: int, row: int) -> str:
    """Return the place of a record for a message: its file, its line, and its row if it differs."""
    return f"{path}:{line}" if row == line else f"{path}:{line} (row {row})"


def layout_of(path: Path, lines: Lines) -> Layout:
    """Determine the layout of a file by reading all of it."""
    check_line_ends(path, lines)
    delimiter, above = csv_delimiter(lines) if is_csv(path) else ("\t", 0)
    layout = Layout(delimiter, above=above)
    if is_csv(path):
        note = f"{path}: read as CSV with {layout.between} between the cells"
    else:
        note = (
            f"{path}: cells are quoted as a spreadsheet writes them; the quotes around a cell are "
            'removed, and "" inside is read as one quote'
        )
    begins = f'{delimiter}"'
    if not any(line.startswith('"') or begins in line for line in lines()):
        return replace(layout, notes=(note,) if is_csv(path) else ())
    if is_csv(path):
        records = quoted_records(path, islice(lines(), above, None), delimiter, above)
        return _surveyed(path, layout, records, note)
    try:
        return _surveyed(path, layout, _spreadsheet_records(path, lines()), note)
    except DataError:
        return Layout(notes=_unquoted_notes(path, lines))


def looks_like_header(first: Sequence[str], following: Sequence[Sequence[str]]) -> bool:
    """Return whether the cells of a first line look like column names.

    They do if each names a language, or is a usual name such as `Source text`, or if each is one
    word and almost no line below consists of single words.
    """
    if all(map(_is_usual_name, first)):
        return True
    if not all(_WORD.fullmatch(cell.strip()) for cell in first):
        return False
    alike = sum(all(_WORD.fullmatch(cell.strip()) for cell in row) for row in following)
    return len(following) >= 5 and alike <= len(following) / 10


_WORD = re.compile(r"[\w-]{1,30}")
_USUAL_NAMES = frozenset(
    """
    source target src tgt trg text translation sentence input output original
    übersetzung traduction traducción
    """.split()  # noqa: SIM905
)
"""Words of column names, besides language codes, that need no comparison with the lines below."""
_MOST_WORDS = 3
"""The largest number of words of a column name."""


def _is_usual_name(cell: str) -> bool:
    """Return whether a cell is a usual column name: one to three words, one of them well known.

    A language code counts if it is the only word or has capitals, as in `Text (EN)`.
    """
    words = re.findall(r"[\w-]+", cell)
    if not 1 <= len(words) <= _MOST_WORDS or cell.strip()[-1] in ".!?":
        return False
    return any(
        word.lower() in _USUAL_NAMES
        or word.lower() in codes_of_names()
        or (language_code(word.lower()) is not None and (word.isupper() or len(words) == 1))
        for word in words
    )


_Quoted = tuple[int, list[str], int]
"""The line of a record, its cells, and the number of its extra lines."""


def quoted_records(
    path: Path, lines: Iterator[str], delimiter: str, above: int = 0
) -> Iterator[_Quoted]:
    """Yield each record of lines: its line number, its cells, and its number of extra lines."""
    reader = csv.reader((f"{line}\n" for line in lines), delimiter=delimiter, strict=True)
    read, row = 0, 1
    try:
        for cells in reader:
            yield above + read + 1, cells or [""], reader.line_num - read - 1
            read, row = reader.line_num, row + 1
    except csv.Error:
        raise DataError(
            f"{place(path, above + read + 1, row)}: a quote is misplaced or not closed, or a "
            "carriage return stands outside quotes; put quotes around the whole cell, and double "
            'each quote inside it ("")'
        ) from None


def _surveyed(path: Path, layout: Layout, records: Iterator[_Quoted], note: str) -> Layout:
    """Return the layout with the facts of all quoted `records` of the file."""
    broken, extra, notes, cells_broken = [], [], [note], 0
    for record, (_, cells, more) in enumerate(records):
        if more:
            broken.append(record)
            extra.append(more)
            cells_broken += sum("\n" in cell for cell in cells)
    if broken:
        notes.append(
            f"{path}:{layout.above + broken[0] + 1}: a line break in this cell is read as a space "
            f"(such cells in the file: {cells_broken:,}); below it, line numbers are larger than "
            "the rows of a spreadsheet"
        )
    sums = np.cumsum(extra, dtype=np.int64)
    return replace(
        layout, quoted=True, broken=np.array(broken, np.int64), extra=sums, notes=tuple(notes)
    )


_MARKS = ("", '"\t\n', '"\t\n,')
"""The characters for which a program quotes a cell of a TSV file, or "" if it quotes all with text.
Excel quotes cells with commas, too."""

_EMPTY = re.compile(r'(?<![^\t])""(?![^\t])')
"""Quotes of an empty cell."""


def _spreadsheet_records(path: Path, lines: Iterator[str]) -> Iterator[_Quoted]:
    """Yield the records of a TSV file that a spreadsheet or a table library has written.

    All records have the same number of cells, and quotes for the same characters; see `_MARKS`.
    """
    mismatch = DataError(f"{path}: quotes that belong to the text")
    raw: list[str] = []
    tabs, widths, broken, marks = set(), set(), False, list(_MARKS)

    def kept() -> Iterator[str]:
        for line in lines:
            tabs.add(line.count("\t"))
            raw.append(line)
            yield line

    for number, cells, more in quoted_records(path, kept(), "\t"):
        text = _EMPTY.sub("", "\n".join(raw))
        raw.clear()
        marks = [each for each in marks if _written(cells, each) == text]
        widths.add(len(cells))
        broken = broken or more > 0
        if not marks or len(widths) > 1:
            raise mismatch
        yield number, cells, more
    if broken and len(tabs) == 1:  # every line is a record, so no cell can span two lines
        raise mismatch


def _written(cells: Sequence[str], marks: str) -> str:
    """Return a record of TSV with quotes around the cells that have one of the marks."""
    quoted = (
        '"' + cell.replace('"', '""') + '"'
        if cell and (not marks or not set(marks).isdisjoint(cell))
        else cell
        for cell in cells
    )
    return _EMPTY.sub("", "\t".join(quoted))


def csv_delimiter(lines: Lines) -> tuple[str, int]:
    """Return the delimiter of a CSV, and the number of lines above the records that name it.

    Excel's first line `sep=;` names the delimiter. Without it, the delimiter is the character for
    which the first records agree best in the number of cells.
    """
    first = next(lines(), "")
    if first[:4].lower() == "sep=" and first[4:] in _DELIMITERS:
        return first[4:], 1

    def agreement(delimiter: str) -> float:
        counts = []
        try:
            for _, cells, _ in islice(quoted_records(Path(), lines(), delimiter), SAMPLE):
                counts.append(len(cells))
        except DataError:
            counts.append(0)
        return counts.count(counts[0]) / len(counts) if counts and counts[0] > 1 else 0.0

    return max(_DELIMITERS, key=agreement), 0


def check_line_ends(path: Path, lines: Lines) -> None:
    """Check that carriage returns do not end the lines, as in Excel's CSV (Macintosh).

    They do if the text before the first line feed consists of records between carriage returns.
    """
    first = next(lines(), "")
    if "\r" not in first:
        return
    delimiters, outside = "\t", first
    if is_csv(path):
        delimiters = "".join(_DELIMITERS)
        # The last cell may go on after the line feed; its record may have any delimiter.
        outside, unclosed, _ = _QUOTED.sub("", first).partition('"')
        outside += delimiters if unclosed else ""
    records = [record for record in outside.split("\r") if record]
    if len(records) > 1 and any(all(mark in each for each in records) for mark in delimiters):
        raise DataError(
            f"{path}: carriage returns end its lines, as in Excel's CSV (Macintosh); expected line "
            f"feeds; convert the file: {line_feeds(str(path))}"
        )


def _unquoted_notes(path: Path, lines: Lines) -> tuple[str, ...]:
    """Return a warning if some cells look quoted by a spreadsheet, although the file is not."""
    found = [
        number
        for number, line in enumerate(lines(), 1)
        if '""' in line and _LOOKS_QUOTED.search(line)
    ]
    if not found:
        return ()
    return (
        f"warning: {path}:{found[0]}: a cell is quoted as a spreadsheet writes it, but the quotes "
        "of other cells belong to their text; so all quotes are read as text (lines with quoted "
        f"cells: {len(found):,}): save the file as .csv, or remove the quotes",
    )
