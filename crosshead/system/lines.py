"""Read lines of text files, plain or gzipped.

Only a line feed ends a line, and a carriage return before it is removed. Form feeds, NUL, U+0085
and U+2028 stay inside their line. A byte order mark at the beginning of a file is removed. Nothing
else is changed, dropped or repaired.
"""

import gzip
import hashlib
import stat
import zlib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import IO

from crosshead.errors import DataError, why_unreadable
from crosshead.system.encodings import conversion, legacy_advice, wide_encoding
from crosshead.system.kinds import check_text

LONGEST_LINE = 1 << 24
"""The largest size of a line in bytes. A device or a sparse file may have no line end at all."""

LONGEST_TEXT = 1 << 30
"""The largest size in bytes of a line in a file that is read as one text."""

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
    return chain.from_iterable(_line_blocks(path, longest))


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


def too_long(name: str, number: int, longest: int) -> DataError:
    """Return the error for a line without an end."""
    return DataError(
        f"{name}:{number}: more than {longest:,} bytes without a line feed; expected lines of "
        "text; name another file, or break the line"
    )


def split_lines(raw: bytes, name: str, before: int = 0) -> list[str]:
    r"""Return the lines in the bytes of a file.

    `\n` ends a line, and a `\r` before it is removed. The last line needs no end. A byte order mark
    at the beginning is removed.
    """
    if not before:
        check_text(raw, name)
    wide = None if before else wide_encoding(raw)
    if wide is not None:
        raise DataError(
            f"{name}: {wide}, expected UTF-8; convert the file: {conversion(wide, name)}"
        )
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = before + raw.count(b"\n", 0, error.start) + 1
        byte = error.start - raw.rfind(b"\n", 0, error.start)
        raise DataError(
            f"{name}:{line}:{byte}: not UTF-8 (byte 0x{raw[error.start]:02X}); "
            + legacy_advice(raw, name)
        ) from None
    if not before:
        text = text.removeprefix("\ufeff")
    if not text:
        return []
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n")


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


def _line_blocks(path: Path, longest: int) -> Iterator[list[str]]:
    """Yield lists of lines, one for each block of bytes."""
    before = held = 0
    pieces: list[bytes] = []
    for block in _byte_blocks(path):
        head, end, rest = block.rpartition(b"\n")
        if end:
            lines = split_lines(b"".join([*pieces, head, end]), str(path), before)
            yield lines
            before += len(lines)
            pieces, held = [], 0
        pieces.append(rest)
        held += len(rest)
        if held > longest:
            raise too_long(str(path), before + 1, longest)
    yield split_lines(b"".join(pieces), str(path), before)


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
