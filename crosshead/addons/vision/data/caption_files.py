"""Files whose lines name an image and say something about it: captions, and pairs of sentences."""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from crosshead.system.lines import check_regular, iter_lines
from crosshead.text.parallel.tables import Form, Row, chosen_cells, csv_form, is_csv, is_jsonl


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


def image_rows(path: Path, names: Sequence[str]) -> Iterator[Row]:
    """Yield the line and the cells of each row that is not empty.

    The columns have these names in JSON Lines and in CSV, which is a file whose name ends in `.csv`
    or whose first line is the names. Other files have these columns between tabs, without names.
    """
    check_regular(path)
    lines = partial(iter_lines, path)
    is_table = is_csv(path) or re.fullmatch("[,;]".join(names), next(lines(), ""))
    fields = names if is_table or is_jsonl(path) else []
    form = csv_form(lines) if is_table else Form()
    advice = f"; the columns are {', '.join(names)}"
    for number, cells in chosen_cells(path, lines(), fields, form, len(names), advice):
        if any(cells):
            yield number, [" ".join(cell.split()) for cell in cells]


def read_captions(path: Path) -> Iterator[ReadCaption]:
    """Yield the captions of a file; a number behind an image counts its captions: `dog.jpg#0`."""
    for number, (image, text) in image_rows(path, ("image", "caption")):
        is_flickr = not (is_jsonl(path) or is_csv(path))
        yield ReadCaption(number, without_number(image) if is_flickr else image, text)


def without_number(name: str) -> str:
    """Return the name of an image without the number of its caption, as in `dog.jpg#0`."""
    head, _, number = name.rpartition("#")
    return head if head and number.isdigit() else name


CAPTIONS = CaptionFormat(
    "caption", read_captions, lambda row: not row.text, valid_flag="--valid-captions"
)
"""The files of captions."""
