"""Files of captions: their formats, and the format of similar files."""

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from crosshead.caller import option
from crosshead.errors import DataError
from crosshead.system.lines import check_regular, iter_lines
from crosshead.text.parallel.delimited import is_csv

_COLUMNS = ["image", "caption"]
"""The keys of a line of JSON, and the columns of CSV."""

_CSV_DELIMITERS = (",", ";")
"""The characters between the columns of CSV. Spreadsheets write semicolons where a comma is the
decimal point."""


class ReadCaption(NamedTuple):
    """A line of a file of captions."""

    line: int
    image: str
    """The name of the image."""
    text: str
    source: str = ""
    """The sentence that `text` translates; empty for a caption of the image alone."""


class CaptionFormat(NamedTuple):
    """A kind of files whose lines name an image and say something about it."""

    unit: str
    """The noun for a line."""
    read: Callable[[Path], Iterator[ReadCaption]]
    """Yields the lines of a file."""
    is_empty: Callable[[ReadCaption], bool]
    """Returns whether a line says nothing."""
    valid_flag: str
    """The option that names files for validation."""


def read_captions(path: Path) -> Iterator[ReadCaption]:
    """Yield the captions of a file."""
    of_line: Callable[[str, str], Sequence[str]] = _of_table
    lines = numbered_lines(path)
    if is_json_lines(path):
        of_line = partial(texts_of_json, keys=_COLUMNS)
    else:
        first = next(lines, None)
        if first is not None and (delimiter := _csv_delimiter(first[1], path, first[0])):
            of_line = partial(_of_csv, delimiter=delimiter)
        elif first is not None:
            lines = chain([first], lines)
    for number, line in lines:
        name, text = of_line(line, f"{path}:{number}")
        yield ReadCaption(number, name, " ".join(text.split()))


def is_json_lines(path: Path) -> bool:
    """Return whether the name of a file says that it is JSON Lines, perhaps compressed."""
    return path.name.removesuffix(".gz").endswith(".jsonl")


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file that are not blank, with their numbers from 1."""
    check_regular(path)
    for number, line in enumerate(iter_lines(path), 1):
        if line.strip():
            yield number, line


def without_number(name: str) -> str:
    """Return the name of an image without the number of its caption, as in `dog.jpg#0`."""
    head, _, number = name.rpartition("#")
    return head if head and number.isdigit() else name


CAPTIONS = CaptionFormat(
    "caption", read_captions, lambda row: not row.text, valid_flag="--valid-captions"
)
"""The files of captions."""


def texts_of_json(line: str, where: str, keys: Sequence[str]) -> list[str]:
    """Return the texts in a line of JSON Lines."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    if isinstance(row, dict):
        found = [row.get(key) for key in keys]
        texts = [text for text in found if isinstance(text, str)]
        if len(texts) == len(keys):
            return texts
    wanted = " and ".join([", ".join(f"`{key}`" for key in keys[:-1]), f"`{keys[-1]}`"])
    advice = "" if isinstance(row, dict) else "; write one object a line (JSON Lines)"
    raise DataError(
        f"{where}: expected an object with the texts {wanted}, found {line[:60]!r}{advice}"
    )


def _csv_delimiter(line: str, path: Path, number: int) -> str | None:
    """Return the delimiter if a first line names the columns of CSV, or None for other formats."""
    if "\t" in line:
        return None
    for mark in ",;|":
        cells = [cell.strip(' "').lower() for cell in line.split(mark)]
        if cells == _COLUMNS and mark in _CSV_DELIMITERS:
            return mark
        if len(cells) > 1 and (is_csv(path) or all(map(str.isidentifier, cells))):
            raise DataError(
                f"{path}:{number}: expected the columns `image,caption` or `image;caption` in the "
                f"first line of CSV, found {line[:60]!r}; keep only these two columns, and name "
                "them so"
            )
    return None


def _of_csv(line: str, where: str, delimiter: str) -> list[str]:
    """Return image and caption of a line of CSV."""
    try:
        name, text = next(csv.reader([line], delimiter=delimiter, strict=True))
    except (ValueError, csv.Error):
        between = "a comma" if delimiter == "," else "a semicolon"
        raise DataError(
            f"{where}: expected an image, {between} and a caption, in quotation marks if it has "
            f"`{delimiter}`, found {line[:60]!r}"
        ) from None
    return [name, text]


def _of_table(line: str, where: str) -> list[str]:
    """Return image and caption of a line `image#n<TAB>caption`."""
    name, *texts = line.split("\t")
    if len(texts) > 1:
        raise DataError(
            f"{where}: expected `image#n<TAB>caption`, found {len(texts) + 1} cells; for pairs of "
            f"sentences use {option('pairs')}, or remove the tabs from the caption"
        )
    if not texts or not name.strip():
        raise DataError(
            f"{where}: expected `image#n<TAB>caption`, found {line[:60]!r}; write JSON as one "
            "object a line (JSON Lines) and end the name of the file in .jsonl, or begin CSV with "
            "the line image,caption"
        )
    return [without_number(name), texts[0]]
