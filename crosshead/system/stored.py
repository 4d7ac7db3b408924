"""Files of bundles, checkpoints and runs as they are read: regular ones alone, up to a size.

A bundle that `crosshead pack` has written is one file. What is in it is read under the names that
it would have if that file were a directory: `NAME.crosshead.zip/config.json`.
"""

import contextlib
import errno
import io
import json
import os
import re
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from crosshead.errors import BundleError, DamagedBundle
from crosshead.system.archive import BROKEN, NotPackedError, open_archive, open_member

LARGEST_HEADER = 1 << 22
"""Bytes of names and shapes in a safetensors file: forty thousand tensors. More would take long to
refuse."""

LARGEST_METADATA = 1 << 25
"""Bytes of a tokenizer's file, the largest that is read as a whole: some 600,000 words."""

LARGEST_CONFIG = 1 << 20
"""Bytes of `config.json`."""

_KINDS = {
    stat.S_ISDIR: "a directory",
    stat.S_ISFIFO: "a named pipe",
    stat.S_ISCHR: "a device",
    stat.S_ISBLK: "a device",
    stat.S_ISSOCK: "a socket",
}

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


class NotRegularError(OSError):
    """Something else than a file: a directory, a named pipe, a device. `strerror` says which."""


def open_regular(path: Path) -> io.BufferedReader:
    """Open a regular file to read; a named pipe, say, is refused and never waited for.

    Raises:
        NotRegularError: If `path` is something else.
        OSError: If it cannot be opened.
    """
    _check_regular(os.stat(path).st_mode, path)
    # Another may stand there by now.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _check_regular(os.fstat(descriptor).st_mode, path)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_stored(path: Path, most: int = LARGEST_METADATA) -> bytes:
    """Read a file of a bundle.

    Args:
        path: The file, in a directory or in a packed bundle.
        most: The largest size that is read, in bytes.

    Raises:
        DamagedBundle: If it is missing, is no regular file, or is larger.
        BundleError: If it may not be read.
    """
    with open_stored(path) as (file, size):
        if size > most:
            raise DamagedBundle(path, f"{size:,} bytes, expected at most {most:,}")
        return file.read(size)


@contextlib.contextmanager
def open_stored(path: Path) -> Iterator[tuple[io.BufferedIOBase, int]]:
    """Open a file of a bundle to read, however large it is.

    Args:
        path: The file, in a directory or in a packed bundle.

    Yields:
        The open file, and its size in bytes.

    Raises:
        DamagedBundle: If it is missing, is no regular file, or does not have the checksum that the
            archive states.
        BundleError: If it may not be read.
    """
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
            raise DamagedBundle(path, "is not what was packed") from None


def stored_size(path: Path) -> int:
    """The bytes of a file of a bundle; raises what `read_stored` raises."""
    with open_stored(path) as (_, size):
        return size


def packed_names(archive: Path) -> list[str]:
    """The names of the files in a packed bundle.

    Raises:
        BundleError: If the file is none, or cannot be read.
    """
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
    """Read the JSON object in a file of a bundle.

    Raises:
        DamagedBundle: If there is none, or one with text that is not Unicode.
        BundleError: If the file may not be read.
    """
    return parse_metadata(read_stored(path, most), path)


def parse_metadata(data: bytes, path: Path) -> dict[str, Any]:
    """The JSON object that is the contents of `path`; raises what `read_metadata` raises."""
    try:
        found = json.loads(data.decode())
        if _SURROGATE.search(data):
            json.dumps(found, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise DamagedBundle(path, f"not valid JSON ({where})") from None
    except UnicodeEncodeError as error:
        surrogate = f"U+{ord(error.object[error.start]):04X}"
        raise DamagedBundle(path, f"holds {surrogate}, a lone surrogate: not text") from None
    except (ValueError, RecursionError):
        raise DamagedBundle(path, "not valid JSON") from None
    if not isinstance(found, dict):
        raise DamagedBundle(path, f"expected a JSON object, found {type(found).__name__}")
    return found


def _opened(path: Path, stack: contextlib.ExitStack) -> tuple[io.BufferedIOBase, int]:
    """Open a file until `stack` is closed; return it and its size."""
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
        raise BundleError(
            f"{path}: a file; expected the directory of a bundle, or a file that `crosshead "
            f"pack` wrote ({error}); if it is an archive, unpack it and give the directory"
        ) from None


def _check_regular(mode: int, path: Path) -> None:
    if not stat.S_ISREG(mode):
        kind = next((kind for test, kind in _KINDS.items() if test(mode)), "no regular file")
        raise NotRegularError(errno.EINVAL, f"{kind}, expected a file", str(path))
