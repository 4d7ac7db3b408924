"""The form of a packed bundle: an uncompressed zip archive whose bytes follow from its files.

Every field of its headers is fixed but the names, sizes and CRC-32 of the files. The reader writes
the headers again and compares them to the byte, so that no other archive passes for one.
"""

import os
import re
import struct
from collections.abc import Sequence
from typing import BinaryIO, NamedTuple

LARGEST = (1 << 32) - (1 << 20)
"""The bytes of all files of an archive: the form counts them in 32 bits."""

_MOST_FILES = 16
_NAME = re.compile(r"[A-Za-z][A-Za-z.]{0,63}")

# PKWARE's APPNOTE, sections 4.3.7, 4.3.12 and 4.3.16.
_LOCAL, _CENTRAL, _END = (struct.Struct(f"<4s{rest}") for rest in ("5H3L2H", "6H3L5H2L", "4H2LH"))
_VERSION, _STORED, _TIME, _DATE = 20, 0, 0, (1 << 5) | 1  # 1980-01-01, the first day of zip
_UNIX, _MODE = 3 << 8, 0o100644 << 16


class NotPackedError(ValueError):
    """A file that is no packed bundle; the message is a clause that says why."""


class Entry(NamedTuple):
    """A file of an archive."""

    name: str
    size: int
    crc: int


def header(entry: Entry) -> bytes:
    """The bytes that stand before a file's own."""
    fields = _VERSION, 0, _STORED, _TIME, _DATE, entry.crc, entry.size, entry.size
    name = entry.name.encode()
    return _LOCAL.pack(b"PK\x03\x04", *fields, len(name), 0) + name


def end(entries: Sequence[Entry]) -> bytes:
    """The bytes that stand behind the last file: the central directory and its end."""
    parts, at = [], 0
    for entry in entries:
        name = entry.name.encode()
        fields = _VERSION, 0, _STORED, _TIME, _DATE, entry.crc, entry.size, entry.size
        place = len(name), 0, 0, 0, 0, _MODE, at
        parts.append(_CENTRAL.pack(b"PK\x01\x02", _UNIX | _VERSION, *fields, *place) + name)
        at += len(header(entry)) + entry.size
    size = sum(map(len, parts))
    count = len(entries)
    return b"".join(parts) + _END.pack(b"PK\x05\x06", 0, 0, count, count, size, at, 0)


def members(file: BinaryIO) -> dict[str, tuple[int, int]]:
    """Find the files of an archive; nothing of their contents is read.

    Args:
        file: An open regular file.

    Returns:
        The first byte and the size of each file, by name.

    Raises:
        NotPackedError: If the file is not an archive that `header` and `end` describe.
    """
    total = os.fstat(file.fileno()).st_size
    entries: list[Entry] = []
    found: dict[str, tuple[int, int]] = {}
    at = 0
    while len(entries) <= _MOST_FILES:
        file.seek(at)
        raw = file.read(_LOCAL.size)
        if raw[:4] != b"PK\x03\x04" or len(raw) < _LOCAL.size:
            break
        *_, crc, _, size, name_size, _ = _LOCAL.unpack(raw)
        raw += file.read(min(name_size, 64))
        entry = Entry(raw[_LOCAL.size :].decode("ascii", "replace"), size, crc)
        start = at + len(raw)
        if (
            not _NAME.fullmatch(entry.name)
            or entry.name in found
            or raw != header(entry)
            or start + size > total
        ):
            number = len(entries) + 1
            raise NotPackedError(f"entry {number} of the archive, {entry.name[:40]!a}, is not")
        entries.append(entry)
        found[entry.name] = (start, size)
        at = start + size
    if not entries:
        raise NotPackedError("it is no such archive")
    expected = end(entries)
    file.seek(at)
    if len(entries) > _MOST_FILES or total - at != len(expected) or file.read() != expected:
        raise NotPackedError("the end of the archive is not")
    return found
