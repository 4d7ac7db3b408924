"""Files that are whole or absent: written beside their place, synchronised, then renamed."""

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from io import FileIO
from pathlib import Path

from crosshead.errors import UserError

Write = Callable[[bytes], None]
"""Appends to a file that is being written."""


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[Write]:
    """Write a file piece by piece: it takes its place when the block ends without an error.

    Until then an earlier file at `path` stays as it is, and after an error nothing is left of the
    new one. A device or a named pipe cannot be replaced and is written to directly. Raises
    `UserError` where the file cannot be written (no such directory, no permission, disk full).
    """
    target = Path(os.path.realpath(path))
    replaceable = target.is_file() or not target.exists()
    beside = target.with_name(f".{target.name}.{os.getpid()}.tmp") if replaceable else target
    with _explained(path):
        # Unbuffered: what a full disk refused must not come up again when the file is closed.
        file = beside.open("wb", buffering=0)
    try:
        with file:
            yield _writer(file, path)
            if replaceable:
                with _explained(path):
                    os.fsync(file.fileno())
        if replaceable:
            with _explained(path):
                beside.replace(target)
                synchronise(target.parent)
    except BaseException:
        if replaceable:
            beside.unlink(missing_ok=True)
        raise


def atomic_write(path: Path, data: bytes) -> None:
    """Write `data` to `path` as a whole: a reader sees the earlier file or this one.

    Raises `UserError` where the file cannot be written; the earlier file is intact then.
    """
    with atomic_file(path) as write:
        write(data)


def atomic_write_all(directory: Path, contents: dict[str, bytes]) -> None:
    """Write several files of a directory: all are complete beside their places before any is moved.

    The files are moved in the order of `contents`. Raises `UserError` where one cannot be written;
    all the earlier files are intact then.
    """
    with contextlib.ExitStack() as stack:
        # An exit stack leaves in reverse, and leaving is what moves a file.
        for name, data in reversed(contents.items()):
            stack.enter_context(atomic_file(directory / name))(data)


def _writer(file: FileIO, path: Path) -> Write:
    def write(data: bytes) -> None:
        with _explained(path):
            rest = memoryview(data)
            while rest:
                rest = rest[file.write(rest) :]

    return write


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn what the system says about `path` into one line."""
    try:
        yield
    except BrokenPipeError:
        raise  # a reader that left is no mistake; the command line ends quietly
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            reason += "; an earlier file is intact; free some space and try again"
        raise UserError(f"{path}: cannot be written: {reason}") from None


def synchronise(directory: Path) -> None:
    """Make a rename in `directory` survive a power failure."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
