"""Read files of bundles, checkpoints and runs: only regular files, up to a size.

A packed bundle is one file. Its members are read under the names they would have if that file were
a directory: `NAME.crosshead.zip/config.json`.
"""

import contextlib
import errno
import io
import json
import lzma
import os
import re
import shutil
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from crosshead.errors import BundleError, DamagedBundle
from crosshead.system.lines import head_of, kind_of

LARGEST_HEADER = 1 << 22
"""The largest header of a safetensors file in bytes: names and shapes of forty thousand tensors.
Larger headers would take long to refuse."""

LARGEST_METADATA = 1 << 25
"""The largest metadata file of a tokenizer in bytes: about 600,000 words."""

LARGEST_CONFIG = 1 << 20
"""The largest `config.json` in bytes."""

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


class NotRegularError(OSError):
    """A path that is no regular file but a directory, a named pipe or a device.

    `strerror` names it.
    """


def open_regular(path: Path) -> io.BufferedReader:
    """Open a regular file for reading. A named pipe is refused without waiting for it."""
    _check_regular(os.stat(path).st_mode, path)
    # The file may have been replaced since, so that it is checked again after opening.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _check_regular(os.fstat(descriptor).st_mode, path)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_stored(path: Path, most: int = LARGEST_METADATA) -> bytes:
    """Read a file of a bundle."""
    with open_stored(path) as (file, size):
        if size > most:
            raise DamagedBundle(path, f"{size:,} bytes, expected at most {most:,}")
        return file.read(size)


@contextlib.contextmanager
def open_stored(path: Path) -> Iterator[tuple[io.BufferedIOBase, int]]:
    """Open a file of a bundle of any size for reading."""
    with contextlib.ExitStack() as stack:
        try:
            found = _opened(path, stack)
        except FileNotFoundError:
            raise DamagedBundle(path, "missing") from None
        except NotRegularError as error:
            raise DamagedBundle(path, str(error.strerror)) from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise BundleError(f"{path}: cannot be read: {reason}") from None
        try:
            yield found
        except BROKEN:
            raise DamagedBundle(path, "changed after it was packed") from None


def stored_size(path: Path) -> int:
    """Return the size of a bundle's file in bytes."""
    with open_stored(path) as (_, size):
        return size


def packed_names(archive: Path) -> list[str]:
    """Return the names of the files in a packed bundle."""
    try:
        with open_regular(archive) as file:
            return _archive(archive, file).namelist()
    except NotRegularError as error:
        kind = str(error.strerror).partition(",")[0]
        expected = "the directory of a bundle, or a file that `crosshead pack` wrote"
        raise BundleError(f"{archive}: {kind}, expected {expected}") from None
    except OSError as error:
        raise BundleError(f"{archive}: cannot be read: {error.strerror}") from None


def read_metadata(path: Path, most: int = LARGEST_METADATA) -> dict[str, Any]:
    """Read the JSON object in a file of a bundle."""
    return parse_metadata(read_stored(path, most), path)


def parse_metadata(data: bytes, path: Path) -> dict[str, Any]:
    """Return the JSON object in `data`, the content of `path`."""
    try:
        found = json.loads(data.decode())
        if _SURROGATE.search(data):
            json.dumps(found, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise DamagedBundle(path, f"not valid JSON ({where})") from None
    except UnicodeEncodeError as error:
        surrogate = f"U+{ord(error.object[error.start]):04X}"
        raise DamagedBundle(path, f"contains {surrogate}, a lone surrogate: not text") from None
    except (ValueError, RecursionError):
        raise DamagedBundle(path, "not valid JSON") from None
    if not isinstance(found, dict):
        raise DamagedBundle(path, f"expected a JSON object, found {type(found).__name__}")
    return found


def _opened(path: Path, stack: contextlib.ExitStack) -> tuple[io.BufferedIOBase, int]:
    """Open a file until `stack` is closed, and return it with its size."""
    if not path.parent.is_file():
        file = stack.enter_context(open_regular(path))
        return file, os.fstat(file.fileno()).st_size
    archive = _archive(path.parent, stack.enter_context(open_regular(path.parent)))
    try:
        member, size = open_member(archive, path.name)
        return stack.enter_context(member), size
    except NotPackedError as error:
        raise DamagedBundle(path, str(error)) from None


def _archive(path: Path, file: io.BufferedReader) -> zipfile.ZipFile:
    try:
        return open_archive(file)
    except NotPackedError as error:
        raise not_packed(path, str(error)) from None


def not_packed(path: Path, found: str) -> BundleError:
    """Return the error for a file that is no packed bundle; `found` says why."""
    kind = kind_of(head_of(path))
    return BundleError(
        f"{path}: {kind.words if kind else 'a file'}; expected the directory of a bundle, or a "
        f"file that `crosshead pack` wrote ({found}); if it is an archive, unpack it and give the "
        "directory"
    )


def _check_regular(mode: int, path: Path) -> None:
    if not stat.S_ISREG(mode):
        kind = "a directory" if stat.S_ISDIR(mode) else "a pipe or a device"
        raise NotRegularError(errno.EINVAL, f"{kind}, expected a file", str(path))


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
