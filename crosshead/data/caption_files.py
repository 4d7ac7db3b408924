"""Files of captions: their formats, and the format of similar files."""

import csv
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from crosshead.errors import DataError
from crosshead.system.lines import check_regular, iter_lines

_CSV_HEADER = "image,caption"
"""The first line of captions as CSV."""


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
    """Yield the captions of a file.

    Args:
        path: JSON Lines if the name ends in `.jsonl`; CSV if the first line is `image,caption`;
            otherwise lines `image#n<TAB>caption`.

    Raises:
        DataError: If a line lacks the image or the caption; the message names file and line.
    """
    of_line = _of_json if is_json_lines(path) else _of_table
    for number, line in numbered_lines(path):
        if number == 1 and line.strip().lower() == _CSV_HEADER and of_line is _of_table:
            of_line = _of_csv
            continue
        name, text = of_line(line, f"{path}:{number}")
        yield ReadCaption(number, name, " ".join(text.split()))


def is_json_lines(path: Path) -> bool:
    """Return whether the name of a file says that it is JSON Lines, perhaps compressed.

    Args:
        path: The file.
    """
    return path.name.removesuffix(".gz").endswith(".jsonl")


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file that are not blank, with their numbers from 1.

    Args:
        path: The file.

    Raises:
        DataError: If the file cannot be read.
    """
    check_regular(path)
    for number, line in enumerate(iter_lines(path), 1):
        if line.strip():
            yield number, line


CAPTIONS = CaptionFormat(
    "caption", read_captions, lambda row: not row.text, valid_flag="--valid-captions"
)
"""The files of captions."""


def _of_json(line: str, where: str) -> tuple[str, str]:
    """Return image and caption of a line of JSON."""
    try:
        row = json.loads(line)
        name, text = row["image"], row["caption"]
        if isinstance(name, str) and isinstance(text, str):
            return name, text
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise DataError(
        f"{where}: expected an object with the texts `image` and `caption`, found {line[:60]!r}"
    )


def _of_csv(line: str, where: str) -> tuple[str, str]:
    """Return image and caption of a line of CSV."""
    try:
        name, text = next(csv.reader([line], strict=True))
    except (ValueError, csv.Error):
        raise DataError(
            f"{where}: expected an image, a comma and a caption, in quotation marks if it has "
            f"commas, found {line[:60]!r}"
        ) from None
    return name, text


def _of_table(line: str, where: str) -> tuple[str, str]:
    """Return image and caption of a line `image#n<TAB>caption`."""
    name, tab, text = line.partition("\t")
    if not tab or not name.strip():
        raise DataError(
            f"{where}: expected `image#n<TAB>caption`, found {line[:60]!r}; end the name of a file "
            f"of JSON Lines in .jsonl, and begin CSV with the line {_CSV_HEADER}"
        )
    head, _, number = name.rpartition("#")
    return head if head and number.isdigit() else name, text
