"""Kinds of files, recognised by their first bytes, and the advice for a file of the wrong kind."""

import gzip
import json
import re
import zlib
from pathlib import Path
from typing import NamedTuple

from crosshead.errors import DataError

HEAD = 1 << 16
"""The number of bytes that show the kind of a file."""

_AS_TEXT = "save it as text in the program that opens it"
_AS_CSV = "save a spreadsheet as 'CSV UTF-8' (in Excel: File, Save As) and give the .csv file"
_EXPORT = "export its sentences of one language as text from a translation program"
_COLUMN = "copy one column, without its name, into such a file"


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


def _member(names: bytes) -> bytes:
    """Return the pattern of a zip archive with a member whose name begins like one of `names`."""
    return rb"(?=PK\x03\x04).*?PK\x03\x04.{26}(?:" + names + rb")"


ARCHIVE = Kind(rb"PK\x03\x04", "a zip archive", "unpack it and give a file of text")
"""A zip archive that is no document: a packed bundle, for example."""

_BINARY = (
    Kind(_member(rb"xl/|mimetype[\w./-]*spreadsheet"), "a spreadsheet", _AS_CSV),
    Kind(_member(rb"word/"), "a Word document", _AS_TEXT),
    Kind(_member(rb"ppt/"), "a PowerPoint presentation", _AS_TEXT),
    Kind(_member(rb"mimetypeapplication/epub"), "an EPUB book", _AS_TEXT),
    Kind(_member(rb"mimetypeapplication/vnd\.oas|content\.xml"), "an OpenDocument file", _AS_TEXT),
    ARCHIVE,
    Kind(
        rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
        "a spreadsheet or document of an old version of Office", _AS_CSV,
    ),
    Kind(rb"\x1f\x8b", "a gzip file whose name does not end in .gz", "rename it"),
    Kind(rb"%PDF-", "a PDF document", _AS_TEXT),
    Kind(rb"\x89PNG|\xff\xd8\xff|GIF8[79]a[^ -~]|RIFF.{4}WEBP", "an image", "name another file"),
    Kind(rb"OggS\0|ID3[\2-\4]|fLaC|RIFF.{4}(?:WAVE|AVI )|.{4}ftyp", "audio or video",
         "name another file"),
    Kind(rb"BZh[1-9]1AY|\xfd7zXZ|7z\xbc\xaf|Rar!\x1a|\x28\xb5\x2f\xfd", "a compressed file",
         ARCHIVE.advice),
)  # fmt: skip

_XML = rb"\s*<(?:\?xml|!DOCTYPE|tmx|xliff)\b"
_TEXTS = (
    Kind(rb"WEBVTT(?![^\s])", "WebVTT subtitles", "convert them to SubRip (.srt)"),
    Kind(rb"\s*\d+\s*\n\s*\d+:\d\d:\d\d[,.]\d+ +-->", "SubRip subtitles",
         "`crosshead translate --format srt` translates them", "srt"),
    Kind(rb"\[Script Info\]", "SubStation subtitles", "convert them to SubRip (.srt)"),
    Kind(rb"(?i)\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!DOCTYPE )?html\b", "an HTML document",
         "`crosshead translate --format html` translates it", "html"),
    Kind(_XML + rb".*?<(?:tmx|xliff)\b|\s*<(?:tmx|xliff)\b", "a file of a translation program "
         "(TMX or XLIFF)", _EXPORT),
    Kind(rb'(?:#.*?\n|\s)*msgid ".*\nmsgstr', "a file of a translation program (PO)", _EXPORT),
    Kind(_XML, "an XML file", "copy its sentences into such a file"),
    Kind(rb"\{\\rtf", "a document in rich text", _AS_TEXT),
    Kind(rb'[\[\s]*\{\s*"[^"\n]*"\s*:|\s*\[\s*"[^"\n]*"\s*,\s*"', "a JSON file",
         "copy the values of one key into such a file (jq -r .KEY IN > OUT)"),
)  # fmt: skip

_TABLES = (
    (re.compile(rb"\t"), 2, Kind(b"", "a table", f"{_COLUMN} (cut -f 1 IN > OUT)")),
    (re.compile(rb"(?<=[^\d\s])[,;](?=[^\d\s])"), 3, Kind(b"", "a table", _COLUMN)),
)
"""The mark between two cells, the least number of lines with equally many marks, and the kind."""


def check_text(head: bytes, name: str) -> None:
    """Raise `DataError` if a file is no text.

    Args:
        head: The first bytes of the file.
        name: The name of the file, for the message.
    """
    if kind := _first(_BINARY, head):
        raise DataError(f"{name}: {kind.words}, expected text; {kind.advice}")


def check_sentences(head: bytes, name: str) -> None:
    """Raise `DataError` if the lines of a file are no sentences.

    Args:
        head: The first bytes of the file.
        name: The name of the file, for the message.
    """
    check_text(head, name)
    if kind := kind_of(head):
        raise DataError(
            f"{name}: {kind.words}, expected text with one sentence per line; {kind.advice}"
        )


def kind_of(head: bytes) -> Kind | None:
    """Return the kind of a file, or None for text whose lines may be sentences.

    Args:
        head: The first bytes of the file.
    """
    head = head[:HEAD].removeprefix(b"\xef\xbb\xbf")
    return _first((*_BINARY, *_TEXTS), head) or _json(head) or _table(head)


def head_of(path: Path) -> bytes:
    """Return the first bytes of a regular file, gunzipped if its name ends in `.gz`.

    There are none if the file cannot be read; reading all of it raises a clearer error.
    """
    try:
        if not path.is_file():
            return b""
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            return file.read(HEAD)
    except (OSError, EOFError, zlib.error):
        return b""


def _first(kinds: tuple[Kind, ...], head: bytes) -> Kind | None:
    found = (each for each in kinds if re.match(each.pattern, head[:HEAD], re.DOTALL))
    return next(found, None)


def _json(head: bytes) -> Kind | None:
    """Return the kind of JSON if the bytes are a whole list or object."""
    try:
        return _TEXTS[-1] if isinstance(json.loads(head), list | dict) else None
    except (ValueError, RecursionError):
        return None


def _table(head: bytes) -> Kind | None:
    """Return the kind of a table if all lines have the same number of cells, but not one."""
    lines = re.sub(rb'"(?:[^"]|"")*"', b"x", head).split(b"\n")[:-1]
    for mark, least, kind in _TABLES:
        counts = {len(mark.findall(line)) for line in lines if line.strip()}
        if len(lines) >= least and len(counts) == 1 and 0 not in counts:
            return kind
    return None
