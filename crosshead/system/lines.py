"""Lines of text files, plain or gzipped.

Only a line feed ends a line, and one carriage return before it is removed: form feeds, NUL,
U+0085 and U+2028 stay inside their line. A byte order mark at the beginning of a file is removed.
Nothing else is changed, dropped or repaired.
"""

import gzip
import hashlib
import stat
import zlib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from crosshead.errors import DataError, why_unreadable
from crosshead.system.encodings import archive_advice, conversion, legacy_advice, wide_encoding

LONGEST_LINE = 1 << 24
"""Bytes of the longest line that is read. A device or a sparse file may never end one."""

LONGEST_TEXT = 1 << 30
"""Bytes of the longest file that is read as one text, whose line breaks have no meaning."""

_BLOCK = 1 << 20


def read_lines(path: Path, longest: int = LONGEST_LINE) -> list[str]:
    """Return the lines of a text file (`.gz`: gunzipped), without their ends.

    An empty file has none.

    Args:
        path: The file.
        longest: The bytes that a line may have.

    Raises:
        DataError: If the file is missing, unreadable, damaged or not UTF-8, has a line that is too
            long, or does not fit into memory.
    """
    try:
        return list(iter_lines(path, longest))
    except MemoryError:
        raise DataError(
            f"{path}: does not fit into memory; take a part of it, or a machine with more"
        ) from None


def iter_lines(path: Path, longest: int = LONGEST_LINE) -> Iterator[str]:
    """Yield the lines of `read_lines`, of which few are held at a time."""
    return chain.from_iterable(_line_blocks(path, longest))


def check_regular(path: Path) -> None:
    """Raise `DataError` for a pipe, a device or a socket, which cannot be read several times.

    A path that leads to nothing or to a directory passes: reading it says what is wrong.
    """
    try:
        mode = path.stat().st_mode
    except OSError:
        return
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return
    kind = "pipe" if stat.S_ISFIFO(mode) else "socket" if stat.S_ISSOCK(mode) else "device"
    raise DataError(f"{path}: a {kind}, and text is read several times; write it to a file first")


def too_long(name: str, number: int, longest: int) -> DataError:
    """Return the error for a line that does not end."""
    return DataError(
        f"{name}:{number}: more than {longest:,} bytes without a line feed; expected text, in "
        "lines; name another file, or break the line"
    )


def split_lines(raw: bytes, name: str, before: int = 0) -> list[str]:
    r"""The lines of a file's bytes; `name` is what errors call the file.

    `\n` ends a line, and one `\r` before it goes with it; the last line needs no end. A byte order
    mark in front is removed. `before` is how many lines of the file stand before these. Raises
    `DataError` with `name:line:byte` where it is not UTF-8, and says which command converts it.
    """
    archive = None if before else archive_advice(raw)
    if archive is not None:
        raise DataError(f"{name}: {archive}")
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
    """The SHA-256 of a file; raises `DataError` where it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise _unreadable(path, error) from None


def _line_blocks(path: Path, longest: int) -> Iterator[list[str]]:
    """The lines of a file, those of a block of bytes at a time."""
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
    """The bytes of a file, gunzipped where its name ends in `.gz`."""
    try:
        file: BinaryIO = path.open("rb")
    except OSError as error:
        raise _unreadable(path, error) from None
    with file:
        if path.suffix != ".gz":
            try:
                while block := file.read(_BLOCK):
                    yield block
            except OSError as error:
                raise _unreadable(path, error) from None
            return
        try:
            with gzip.GzipFile(fileobj=file) as unzipped:
                while block := unzipped.read(_BLOCK):
                    yield block
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(f"{path}: not a whole gzip file ({error}); compress it again") from None


def _unreadable(path: Path, error: OSError) -> DataError:
    return DataError(f"{path}: {why_unreadable(error)}")
