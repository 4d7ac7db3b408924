"""Packed bundles: uncompressed zip archives, written and read by `zipfile`."""

import io
import lzma
import os
import shutil
import struct
import zipfile
import zlib
from collections.abc import Callable, Sequence
from typing import BinaryIO

MOST_MEMBERS = 20_000
"""The largest number of members of an archive: one for each array of a model."""

BROKEN = (zipfile.BadZipFile, EOFError)
"""Errors while reading a member whose bytes have changed."""

_NO_ARCHIVE = (*BROKEN, NotImplementedError, ValueError, OverflowError, struct.error)

UNREADABLE = (*_NO_ARCHIVE, RuntimeError, lzma.LZMAError, zlib.error)
"""Errors of archives that are damaged, encrypted or packed in an unknown way."""


class NotPackedError(ValueError):
    """A file that is no packed bundle. The message is a clause with the reason."""


def new_archive(write: Callable[[bytes], None]) -> zipfile.ZipFile:
    """Return an empty archive, to be filled with `add` and closed.

    `write` appends to the archive's file.
    """
    return zipfile.ZipFile(_Sink(write), "w", zipfile.ZIP_STORED)


def add(archive: zipfile.ZipFile, name: str, file: io.BufferedIOBase, size: int) -> None:
    """Copy a file into a new archive. Equal files give equal bytes."""
    member = zipfile.ZipInfo(name)  # dated 1980-01-01, the earliest date of zip
    member.create_system, member.external_attr = 3, 0o100644 << 16
    member.file_size = size  # 4 GiB or more need larger fields
    with archive.open(member, "w") as out:
        shutil.copyfileobj(file, out, 1 << 20)


def open_archive(file: BinaryIO) -> zipfile.ZipFile:
    """Open an archive, after checking that its members are uncompressed and fit its size."""
    try:
        archive = zipfile.ZipFile(file)
    except _NO_ARCHIVE:
        raise NotPackedError("it is not a zip archive") from None
    members = archive.infolist()
    check_names(members)
    for each in members:
        if each.header_offset < 0:
            raise NotPackedError(
                f"{each.filename[:40]!a} has a wrong offset in the archive's index"
            )
        is_stored = each.compress_type == zipfile.ZIP_STORED
        if not is_stored or each.flag_bits & 1 or each.file_size != each.compress_size:
            raise NotPackedError(f"{each.filename[:40]!a} in it is compressed or encrypted")
    if sum(each.file_size for each in members) > os.fstat(file.fileno()).st_size:
        raise NotPackedError("its members together are larger than the archive")
    return archive


def check_names(members: Sequence[zipfile.ZipInfo]) -> None:
    """Check that the members of an archive are not too many, and that no name occurs twice."""
    if len(members) > MOST_MEMBERS:
        raise NotPackedError(
            f"the archive has {len(members):,} members, expected at most {MOST_MEMBERS:,}"
        )
    if len({each.filename for each in members}) < len(members):
        raise NotPackedError("a name occurs twice in the archive")


def is_litter(name: str) -> bool:
    """Return whether a member of an archive is a file that macOS adds, and no part of a model."""
    folders, last = name.split("/")[:-1], name.split("/")[-1]
    return "__MACOSX" in folders or last == ".DS_Store" or last.startswith("._")


def content_names(archive: zipfile.ZipFile) -> dict[str, str]:
    """Return the names of the files in an archive, without a folder that holds all of them."""
    names = [each for each in archive.namelist() if each[-1:] != "/" and not is_litter(each)]
    tops = {each.partition("/")[0] if "/" in each else "" for each in names}
    top = f"{tops.pop()}/" if len(tops) == 1 and "" not in tops else ""
    return {each.removeprefix(top): each for each in names}


def open_member(archive: zipfile.ZipFile, name: str) -> tuple[io.BufferedIOBase, int]:
    """Open a member of an archive, and return it with its size in bytes."""
    if name not in archive.namelist():
        raise FileNotFoundError(name)
    member = archive.getinfo(name)
    try:
        return archive.open(member), member.file_size  # type: ignore[return-value]
    except _NO_ARCHIVE:
        raise NotPackedError(f"{name!a} has a wrong offset in the archive's index") from None


class _Sink(io.RawIOBase):
    """A file that only supports appending."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._append = write

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        """Append to the file."""
        self._append(data)
        return len(data)
