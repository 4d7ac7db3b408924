"""Files that are whole or absent: written beside their place, synchronised, then renamed."""

import contextlib
import errno
import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

from crosshead.errors import UserError

StrPath = str | os.PathLike[str]
"""The name of a file or directory, as text or as a path."""

Write = Callable[[bytes], None]
"""Appends to a file that is being written."""


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[Write]:
    """Write a file piece by piece: it takes its place when the block ends without an error.

    Until then an earlier file at `path` stays as it is, and after an error nothing is left of the
    new one. A device or a named pipe cannot be replaced and is written to directly. Raises
    `UserError` where the file cannot be written (no such directory, no permission, disk full).
    """
    with _Unfinished(path, writes_to_devices=True) as file:
        yield file.write
        file.finish()
        file.move()


def atomic_write(path: Path, data: bytes) -> None:
    """Write `data` to `path` as a whole: a reader sees the earlier file or this one.

    Raises `UserError` where the file cannot be written, and where a device or a named pipe stands
    in its place; the earlier file is intact then.
    """
    atomic_write_all(path.parent, {path.name: data})


def atomic_write_all(directory: Path, contents: dict[str, bytes]) -> None:
    """Write several files of a directory: all are on the disk before any takes its place.

    The files are moved in the order of `contents`. Raises `UserError` where one cannot be written,
    and where a device or a named pipe stands in its place; all the earlier files are intact then.
    """
    with contextlib.ExitStack() as stack:
        files = []
        for name, data in contents.items():
            file = stack.enter_context(_Unfinished(directory / name, writes_to_devices=False))
            file.write(data)
            file.finish()
            files.append(file)
        for file in files:
            file.move()


def real_path(path: Path) -> Path:
    """Return a path without links; a link that leads to itself stays, and raises nothing."""
    return Path(os.path.realpath(path))


def make_directory(directory: Path) -> None:
    """Make a directory, and those above it, unless it is there; raises `UserError`."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{directory}: cannot be made a directory: {error.strerror}") from None


def write_all(file: io.FileIO, data: bytes) -> None:
    """Write all of `data` to an unbuffered file, which may take less of it at a time."""
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


class _Unfinished:
    """A file that is written beside its place, and removed unless it is moved there."""

    def __init__(self, path: Path, *, writes_to_devices: bool) -> None:
        self._path, self._target = path, real_path(path)
        self._replaceable = self._target.is_file() or not self._target.exists()
        if not (self._replaceable or writes_to_devices or self._target.is_dir()):
            raise UserError(
                f"{path}: is a named pipe or a device, expected a file; remove it, or name another "
                "place"
            )
        self._beside = self._target
        if self._replaceable:
            self._beside = self._target.with_name(f".{self._target.name}.{os.getpid()}.tmp")
        with explained(path):
            # Unbuffered: what a full disk refused must not come up again when the file is closed.
            self._file = self._beside.open("wb", buffering=0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()
        if self._replaceable:
            self._beside.unlink(missing_ok=True)

    def write(self, data: bytes) -> None:
        """Append to the file."""
        with explained(self._path):
            write_all(self._file, data)

    def finish(self) -> None:
        """Bring all that was written to the disk."""
        with explained(self._path):
            if self._replaceable:
                os.fsync(self._file.fileno())
            self._file.close()

    def move(self) -> None:
        """Put the finished file in its place."""
        if self._replaceable:
            with explained(self._path):
                self._beside.replace(self._target)
                synchronise(self._target.parent)


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """A block that writes `path`: what the system says against it becomes a `UserError`."""
    try:
        yield
    except BrokenPipeError:
        raise  # a reader that left is no mistake; the command line ends quietly
    except OSError as error:
        reason = f"{error.strerror or error}; {_what_to_do(error, path)}"
        raise UserError(f"{path}: cannot be written: {reason}") from None


def _what_to_do(error: OSError, path: Path) -> str:
    """Advice for somebody whose file cannot be written."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return f"make the directory {path.parent} first, or name another place"
    if isinstance(error, IsADirectoryError):
        return "name a file in it"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        intact = "the earlier file is intact; " if path.is_file() else ""
        return f"{intact}free some space and try again"
    return "name another place"


def synchronise(directory: Path) -> None:
    """Make a rename in `directory` survive a power failure."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
