"""Read lines of text files, plain or gzipped, and recognise files that are no such text.

Only a line feed ends a line, and a carriage return before it is removed. Form feeds, NUL, U+0085
and U+2028 stay inside their line. A byte order mark at the beginning of a file is removed. Nothing
else is changed, dropped or repaired.
"""

import gzip
import hashlib
import re
import stat
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import IO, NamedTuple

from crosshead.errors import DataError, why_unreadable

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
    Kind(rb"(?m).*?^[ \t]*(?:\d+:)?\d\d:\d\d[,.]\d+ *-->", "subtitles", _FORMAT, "srt"),
    Kind(rb"(?i)\s*+(?:<\?xml[^>]*+>\s*+)?+(?:<!--(?:(?!-->).)*+-->\s*+)*+<(?:!DOCTYPE )?html\b",
         "an HTML document", _FORMAT, "html"),
    Kind(rb"\s*<(?:\?xml|!DOCTYPE|(?:tmx|xliff)\b|[^<>]*\sxmlns=)", "an XML file",
         "copy its sentences into such a file"),
    Kind(rb"(?:\s*+#[^\n]*+\n)*+\s*+msg(?:id|ctxt)[ \t]+\"", "a catalogue of messages",
         "copy its messages into such a file"),
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


LONGEST_LINE = 1 << 24
"""The largest size of a line in bytes. A device or a sparse file may have no line end at all."""

LONGEST_TEXT = 1 << 30
"""The largest size in bytes of a line in a file that is read as one text."""

LARGE = 1 << 22
"""The size in bytes at which a group is complete, whatever its number of lines."""

_BLOCK = 1 << 15
"""The size in bytes of a block that is read at a time. Larger ones are slower, because the system
has to give new memory for each of them."""


def read_lines(path: Path, longest: int = LONGEST_LINE) -> list[str]:
    """Return the lines of a text file, without their ends. An empty file has no lines."""
    try:
        return list(iter_lines(path, longest))
    except MemoryError:
        raise DataError(
            f"{path}: does not fit into memory; use a part of it, or a machine with more memory"
        ) from None


def iter_lines(path: Path, longest: int = LONGEST_LINE) -> Iterator[str]:
    """Yield the lines that `read_lines` returns, with few of them in memory at a time."""
    # An empty block asks for the lines so far.
    blocks = chain.from_iterable((block, b"") for block in _byte_blocks(path))
    return chain.from_iterable(line_groups(blocks, str(path), longest=longest))


def check_regular(path: Path) -> None:
    """Raise `DataError` for a pipe, a device or a socket, which cannot be read several times.

    A missing path or a directory passes, because reading it raises a clearer error.
    """
    try:
        mode = path.stat().st_mode
    except OSError:
        return
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return
    raise DataError(
        f"{path}: a pipe or a device, but text is read several times; write it to a file first"
    )


def line_groups(
    chunks: Iterable[bytes], name: str, most: int = sys.maxsize, longest: int = LONGEST_LINE
) -> Iterator[list[str]]:
    """Yield the lines in `chunks` in groups of at most `most` lines, or about `LARGE` bytes."""
    pending = bytearray()
    complete = given = 0
    for chunk in chunks:
        pending += chunk
        complete += chunk.count(b"\n")
        while complete >= most or (complete and (not chunk or len(pending) > LARGE)):
            count = min(most, complete)
            end = pending.rindex(b"\n") + 1 if count == complete else _end_of_line(pending, count)
            yield from _decoded(bytes(pending[:end]), name, given)
            del pending[:end]
            complete -= count
            given += count
        if not complete and len(pending) > longest:
            raise DataError(
                f"{name}:{given + 1}: more than {longest:,} bytes without a line feed; expected "
                "lines of text; name another file, or break the line"
            )
    if pending:
        yield from _decoded(bytes(pending), name, given)


def _end_of_line(data: bytearray, count: int) -> int:
    """Return the offset after the first `count` lines of `data`."""
    end = 0
    for _ in range(count):
        end = data.index(b"\n", end) + 1
    return end


def _decoded(raw: bytes, name: str, before: int) -> Iterator[list[str]]:
    """Yield the lines of `raw`, which follow `before` other lines, as one group."""
    if not before:
        check_text(raw, name)  # the bytes up to a line feed may not show the kind
    good = raw
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as error:
        good = raw[: raw.rfind(b"\n", 0, error.start) + 1]
    if lines := split_lines(good, name, before):
        yield lines
    split_lines(raw[len(good) :], name, before + good.count(b"\n"))  # raises for a bad line


def split_lines(raw: bytes, name: str, before: int = 0) -> list[str]:
    r"""Return the lines in the bytes of a file.

    `\n` ends a line, and a `\r` before it is removed. The last line needs no end. A byte order mark
    at the beginning is removed.
    """
    if not before:
        check_text(raw, name)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = before + raw.count(b"\n", 0, error.start) + 1
        byte = error.start - raw.rfind(b"\n", 0, error.start)
        raise DataError(
            f"{name}:{line}:{byte}: not UTF-8 (byte 0x{raw[error.start]:02X}); convert the file "
            "from its own encoding, such as WINDOWS-1252 or UTF-16: "
            "iconv -f ENCODING -t UTF-8 IN > OUT"
        ) from None
    if not before:
        text = text.removeprefix("\ufeff")
    if not text:
        return []
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n")


def is_utf8(text: str) -> bool:
    """Return whether UTF-8 can express a text: a name of a file may hold other bytes."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits.

    Args:
        path: The file.

    Raises:
        DataError: If the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise _unreadable(path, error) from None


def _byte_blocks(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a file, gunzipped if its name ends in `.gz`."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise _unreadable(path, error) from None
    with file:
        if path.suffix == ".gz":
            yield from gunzipped(file, str(path))
            return
        try:
            while block := file.read(_BLOCK):
                yield block
        except OSError as error:
            raise _unreadable(path, error) from None


def gunzipped(file: IO[bytes], name: str) -> Iterator[bytes]:
    """Yield the content of a gzip file."""
    try:
        with gzip.GzipFile(fileobj=file) as unzipped:
            while block := unzipped.read(_BLOCK):
                yield block
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(
            f"{name}: incomplete or damaged gzip file ({error}); compress it again"
        ) from None


def _unreadable(path: Path, error: OSError) -> DataError:
    return DataError(f"{path}: {why_unreadable(error)}")
