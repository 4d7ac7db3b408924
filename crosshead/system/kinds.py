"""Kinds of files, recognised by their first bytes, and the advice for a file of the wrong kind."""

import gzip
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from crosshead.errors import DataError

HEAD = 1 << 16
"""The number of bytes that show the kind of a file."""

_SAVE = "save it as text in the program that opens it"
_AS_CSV = "save a spreadsheet as 'CSV UTF-8' (in Excel: File, Save As) and give the .csv file"
_FORMAT = "`crosshead translate --format` translates it"
_COPY = "copy one column, without its name, into such a file"


class Kind(NamedTuple):
    """A kind of file that is no text with one sentence per line."""

    pattern: bytes
    """A regular expression that matches the beginning of such a file."""
    words: str
    """A noun for messages, such as `a PDF document`."""
    advice: str
    """A clause that says what to do."""
    format: str | None = None
    """The format of documents that it is, if documents of this kind are translated."""


ARCHIVE = Kind(rb"PK\x03\x04", "a zip archive", "unpack it and give a file of text")
"""A zip archive that is no document: a packed bundle, for example."""

# The names of members follow 26 bytes behind their mark, wherever the member is.
_MEMBER = rb"(?=PK\x03\x04).*?PK\x03\x04.{26}(?:%b)"
_BINARY = (
    Kind(_MEMBER % rb"xl/|mimetype[\w./-]*spreadsheet", "a spreadsheet", _AS_CSV),
    Kind(_MEMBER % rb"word/|ppt/|mimetype|content\.xml", "a document of an office program", _SAVE),
    ARCHIVE,
    Kind(rb"\xd0\xcf\x11\xe0", "a spreadsheet or document of an old version of Office", _AS_CSV),
    Kind(rb"\x1f\x8b", "a gzip file whose name does not end in .gz", "rename it"),
    Kind(rb"%PDF-\d", "a PDF document", _SAVE),
)
_STRING = rb'"(?:[^"\\\n]|\\.)*"\s*'
_TEXTS = (
    Kind(rb"\s*WEBVTT(?!\S).*-->", "WebVTT subtitles", "convert them to SubRip (.srt)"),
    Kind(rb"(?m).*?^[ \t]*\d+:\d\d:\d\d[,.]\d+ *-->", "SubRip subtitles", _FORMAT, "srt"),
    Kind(rb"(?i)\s*+(?:<\?xml[^>]*+>\s*+)?+(?:<!--(?:(?!-->).)*+-->\s*+)*+<(?:!DOCTYPE )?html\b",
         "an HTML document", _FORMAT, "html"),
    Kind(rb"\s*<(?:\?xml|!DOCTYPE|(?:tmx|xliff)\b|[^<>]*\sxmlns=)", "an XML file",
         "copy its sentences into such a file"),
    Kind(rb"[\[\s]*\{\s*%b:|\s*\[[\[\s]*%b(?:,\s*\"|[\]\s]*\Z)|\s*[\[{][][{}\s\d.,-]*\Z"
         % (_STRING, _STRING), "a JSON file", "copy the values of one key into such a file"),
)  # fmt: skip
_TABLE = Kind(rb"", "a table", _COPY)


def check_text(head: bytes, name: str) -> None:
    """Raise `DataError` if a file is no text."""
    if kind := _first(_BINARY, head):
        raise DataError(f"{name}: {kind.words}, expected text; {kind.advice}")


def check_sentences(head: bytes, name: str) -> None:
    """Raise `DataError` if the lines of a file are no sentences."""
    if kind := kind_of(head, name):
        raise DataError(
            f"{name}: {kind.words}, expected text with one sentence per line; {kind.advice}"
        )


def kind_of(head: bytes, name: str = "") -> Kind | None:
    """Return the kind of a file, or None for text whose lines may be sentences.

    Only the name of a file tells a table with commas from sentences.
    """
    if kind := _first((*_BINARY, *_TEXTS), head):
        return kind
    if name.lower().removesuffix(".gz").endswith(".csv"):
        return _TABLE
    lines = [line for line in head[:HEAD].split(b"\n")[:-1] if line.strip()]
    cells = {line.count(b"\t") for line in lines}
    return _TABLE if len(lines) > 1 and len(cells) == 1 and 0 not in cells else None


def _first(kinds: Sequence[Kind], head: bytes) -> Kind | None:
    head = head[:HEAD].removeprefix(b"\xef\xbb\xbf")
    return next((each for each in kinds if re.match(each.pattern, head, re.DOTALL)), None)


def head_of(path: Path) -> bytes:
    """Return the first bytes of a regular file, gunzipped if its name ends in `.gz`.

    There are none if the file cannot be read; reading all of it raises a clearer error.
    """
    if not path.is_file():
        return b""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            return file.read(HEAD)
    except (OSError, EOFError, zlib.error):
        return b""
