"""Atomic files: written beside their place, flushed to disk, then renamed."""

import contextlib
import errno
import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from crosshead.errors import UserError

StrPath = str | os.PathLike[str]
"""The name of a file or directory, as text or as a path."""

Write = Callable[[bytes], None]
"""A function that appends to a file."""


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[Write]:
    """Write a file piece by piece, and put it in its place if the block ends without an error.

    Until then an earlier file at `path` stays, and after an error nothing of the new file remains.
    A device or a named pipe is written to directly, because it cannot be replaced.

    Yields:
        A function that appends to the file.

    Raises:
        UserError: If the file cannot be written (no such directory, no permission, disk full).
    """
    with _unfinished(path, writes_to_devices=True) as file:
        yield file.write
        file.finish()
        file.move()


def atomic_write(path: Path, data: bytes) -> None:
    """Write `data` to `path`, so that a reader sees either the earlier file or the new one.

    Raises:
        UserError: If the file cannot be written, or `path` is a device or a named pipe. An earlier
            file then stays intact.
    """
    atomic_write_all(path.parent, {path.name: data})


def atomic_write_all(directory: Path, contents: dict[str, bytes]) -> None:
    """Write several files of a directory. All are on the disk before any takes its place.

    The files are moved in the order of `contents`.

    Args:
        directory: The directory.
        contents: The bytes of each file by its name.

    Raises:
        UserError: If a file cannot be written, or a device or a named pipe is in its place. All
            earlier files then stay intact.
    """
    with contextlib.ExitStack() as stack:
        files = []
        for name, data in contents.items():
            file = stack.enter_context(_unfinished(directory / name, writes_to_devices=False))
            file.write(data)
            file.finish()
            files.append(file)
        for file in files:
            file.move()


def real_path(path: Path) -> Path:
    """Return a path without links. A link that leads to itself stays as it is."""
    return Path(os.path.realpath(path))


def make_directory(directory: Path) -> None:
    """Make a directory and its parents, if necessary.

    Raises:
        UserError: If it cannot be made.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = f"{error.strerror}; name another place"
        raise UserError(f"{directory}: cannot make the directory: {reason}") from None


def write_all(file: io.FileIO, data: bytes) -> None:
    """Write all of `data` to an unbuffered file, whose `write` may accept only a part."""
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


@contextlib.contextmanager
def _unfinished(path: Path, *, writes_to_devices: bool) -> Iterator["_Unfinished"]:
    """Yield a file that is deleted unless it is moved to its place."""
    file = _Unfinished(path, writes_to_devices=writes_to_devices)
    try:  # before the file is opened: Ctrl-C may come just afterwards
        file.open()
        yield file
    finally:
        file.discard()


class _Unfinished:
    """A file that is written beside its place, and then moved there or deleted."""

    _file: io.FileIO
    """The open file; missing until `open` has opened it."""

    def __init__(self, path: Path, *, writes_to_devices: bool) -> None:
        self._path, self._target = path, real_path(path)
        self._replaceable = self._target.is_file() or not self._target.exists()
        if not (self._replaceable or writes_to_devices or self._target.is_dir()):
            raise UserError(
                f"{path}: a named pipe or a device, expected a file; remove it, or name another "
                "place"
            )
        self._beside = self._target
        if self._replaceable:
            self._beside = self._target.with_name(f".{self._target.name}.{os.getpid()}.tmp")

    def open(self) -> None:
        """Open the file beside its place."""
        with explain_os_errors(self._path):
            # Unbuffered, so that closing the file does not write again what a full disk refused.
            self._file = self._beside.open("wb", buffering=0)

    def discard(self) -> None:
        """Close the file if it is open, and delete it if it is still beside its place."""
        if hasattr(self, "_file"):
            self._file.close()
        if self._replaceable and os.path.exists(self._beside):
            self._beside.unlink()

    def write(self, data: bytes) -> None:
        """Append to the file."""
        with explain_os_errors(self._path):
            write_all(self._file, data)

    def finish(self) -> None:
        """Flush the file to the disk."""
        with explain_os_errors(self._path):
            if self._replaceable:
                os.fsync(self._file.fileno())
            self._file.close()

    def move(self) -> None:
        """Move the finished file to its place."""
        if self._replaceable:
            with explain_os_errors(self._path):
                self._beside.replace(self._target)
                synchronise(self._target.parent)


@contextlib.contextmanager
def explain_os_errors(path: Path) -> Iterator[None]:
    """Turn system errors in a block that writes `path` into `UserError`."""
    try:
        yield
    except BrokenPipeError:
        raise  # a closed pipe is no mistake of the user; the command line ends quietly
    except OSError as error:
        reason = f"{error.strerror or error}; {_what_to_do(error, path)}"
        raise UserError(f"{path}: cannot be written: {reason}") from None


def _what_to_do(error: OSError, path: Path) -> str:
    """Return advice for a file that cannot be written."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return f"make the directory {path.parent} first, or name another place"
    if isinstance(error, IsADirectoryError):
        return "name a file in it"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        intact = "the earlier file is intact; " if path.is_file() else ""
        return f"{intact}free some space and try again"
    return "name another place"


def synchronise(path: Path) -> None:
    """Flush a file, or the renames in a directory, to the disk: they survive a power failure."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def synchronise_all(directory: Path) -> None:
    """Flush a directory to the disk, with every file and directory below it."""
    for each in (*directory.rglob("*"), directory):
        synchronise(each)
