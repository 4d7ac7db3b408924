"""Read lines of text files, plain or gzipped.

Only a line feed ends a line, and a carriage return before it is removed. Form feeds, NUL, U+0085
and U+2028 stay inside their line. A byte order mark at the beginning of a file is removed. Nothing
else is changed, dropped or repaired.
"""

import gzip
import hashlib
import stat
import sys
import zlib
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import IO

from crosshead.errors import DataError, why_unreadable
from crosshead.system.kinds import check_text

LONGEST_LINE = 1 << 24
"""The largest size of a line in bytes. A device or a sparse file may have no line end at all."""

LONGEST_TEXT = 1 << 30
"""The largest size in bytes of a line in a file that is read as one text."""

LARGE = 1 << 22
"""The size in bytes at which a group is complete, whatever its number of lines."""

_BLOCK = 1 << 20


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
    return chain.from_iterable(line_groups(_byte_blocks(path), str(path), longest=longest))


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
