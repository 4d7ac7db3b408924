"""Output places: files and directories that appear as a whole, or not at all.

`NAME` is written as `.NAME.NUMBER.crosshead`, beside its place, flushed to the disk, and renamed.
The process that writes it holds the system's lock on it, which ends with the process, even after a
kill. So the next process that writes `NAME` finds and removes what dead processes have left. On a
file system without locks no process can know that another is dead, and nothing is removed.
"""

import contextlib
import ctypes
import errno
import filecmp
import io
import itertools
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from crosshead.caller import option
from crosshead.errors import UserError

StrPath = str | os.PathLike[str]
"""The name of a file or directory, as text or as a path."""

Write = Callable[[bytes], None]
"""A function that appends to a file."""

_HIDDEN = re.compile(r"\.(.+)\.\d+\.crosshead", re.DOTALL)
_HERE, _EXCHANGE = -100, 2
"""Linux's AT_FDCWD and RENAME_EXCHANGE."""


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[Write]:
    """Write a file piece by piece, and put it in its place if the block ends without an error.

    Until then an earlier file at `path` stays, and after an error nothing of the new file remains.
    A device or a named pipe is written to directly, because it cannot be replaced.
    """
    with contextlib.closing(_Unfinished(path, writes_to_devices=True)) as file:
        yield file.write
        file.finish()
        file.move()


def atomic_write(path: Path, data: bytes) -> None:
    """Write `data` to `path`, so that a reader sees either the earlier file or the new one."""
    atomic_write_all(path.parent, {path.name: data})


def atomic_write_all(
    directory: Path, contents: Mapping[str, bytes | Iterator[bytes]], *, new: Collection[str] = ()
) -> None:
    """Write several files of a directory. All are on the disk before any takes its place.

    A large file may be given piece by piece.

    The files are moved in the order of `contents`. If one cannot be moved, those that replaced no
    earlier file are removed again.
    """
    with contextlib.ExitStack() as stack, contextlib.ExitStack() as undone:
        files = {}
        for name, data in contents.items():
            files[name] = file = _Unfinished(directory / name, writes_to_devices=False)
            stack.callback(file.close)
            for piece in [data] if isinstance(data, bytes) else data:
                file.write(piece)
            file.finish()
        for file in map(files.__getitem__, new):
            if file.replaces_another():
                raise UserError(
                    f"{file.path}: another file is there; move it, or name another place"
                )
        for file in files.values():
            if not file.path.exists():
                undone.callback(file.path.unlink, missing_ok=True)
            file.move()
        undone.pop_all()


def real_path(path: Path) -> Path:
    """Return a path without links. A link that leads to itself stays as it is."""
    return Path(os.path.realpath(path))


def make_directory(directory: Path) -> None:
    """Make a directory and its parents, if necessary."""
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
def made_directory(directory: Path) -> Iterator[None]:
    """Make a directory and its parents for the block, which removes those that it leaves empty."""
    made = [each for each in (directory, *directory.parents) if not each.exists()]
    make_directory(directory)
    identity = directory.stat()
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # if it is not empty
            for each in made if os.path.samestat(identity, directory.stat()) else ():
                each.rmdir()


@contextlib.contextmanager
def hidden_directory(path: Path) -> Iterator[Path]:
    """Yield an empty directory beside a place, and remove it at the end unless it was put there."""
    place = real_path(path)
    with made_directory(place.parent):
        with explain_os_errors(path):
            hidden, descriptor = claim(place, _new_directory)
        try:
            yield hidden
        finally:
            if is_same(hidden, descriptor):
                shutil.rmtree(hidden, ignore_errors=True)
            os.close(descriptor)


@contextlib.contextmanager
def output_directory(path: Path) -> Iterator[Path]:
    """Yield a directory to fill, which stands at `path` if the block ends without an error.

    A new directory is there as a whole or not at all. An empty directory at `path`, such as a
    mounted volume, is filled itself.
    """
    place = real_path(path)
    if place.is_dir() and (is_unused(place) or is_unfinished(place)):
        yield place
    elif os.path.lexists(place):
        raise UserError(f"{path}: already exists; give a new directory with {option('out')}")
    else:
        with hidden_directory(path) as hidden:
            yield hidden
            with explain_os_errors(path):
                put(hidden, place, replace=False)


def put(hidden: Path, place: Path, *, replace: bool) -> None:
    """Put a finished directory in its place, after its files are flushed to the disk.

    Where the file system can exchange two names (Linux: most local ones), a kill leaves the old
    directory or the new one at the place.
    """
    synchronise_all(hidden)
    if not (replace and os.path.lexists(place)):
        hidden.replace(place)
    elif not exchange(hidden, place):
        former = hide(place)
        try:
            hidden.replace(place)
        except BaseException:
            former.rename(place)
            raise
        hidden = former
    synchronise(place.parent)
    if hidden.exists():
        remove(hidden)


def hide(place: Path) -> Path:
    """Rename a directory to the name of a leftover, so that no part of it is at the place later."""
    return place.rename(next(each for each in hidden_names(place) if not os.path.lexists(each)))


def exchange(one: Path, other: Path) -> bool:
    """Exchange two names at once; return False if the system or the file system cannot."""
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    if not call(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE):
        return True
    if (number := ctypes.get_errno()) in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
        return False
    raise OSError(number, os.strerror(number), str(one))


def _new_directory(path: Path) -> int:
    """Make a directory and open it; raise `FileExistsError` if it is there, or taken away."""
    path.mkdir()
    try:
        return os.open(path, os.O_RDONLY)
    except FileNotFoundError:  # another process took it for a leftover
        raise FileExistsError(path) from None


class _Unfinished:
    """A file that is written beside its place, and then moved there or deleted."""

    def __init__(self, path: Path, *, writes_to_devices: bool) -> None:
        self.path, self._target = path, real_path(path)
        self._hidden: Path | None = None
        is_replaceable = self._target.is_file() or not self._target.exists()
        if not (is_replaceable or writes_to_devices or self._target.is_dir()):
            raise UserError(
                f"{path}: a pipe or a device, expected a file; remove it, or name another place"
            )
        with explain_os_errors(path):
            # Unbuffered, so that closing the file does not write again what a full disk refused.
            if is_replaceable:
                self._hidden, descriptor = claim(self._target, _new_file)
                self._file = io.FileIO(descriptor, "wb")
            else:
                self._file = self._target.open("wb", buffering=0)

    def close(self) -> None:
        """Close the file, and delete it if it is still beside its place."""
        if self._hidden:
            self._hidden.unlink(missing_ok=True)
        self._file.close()

    def write(self, data: bytes) -> None:
        """Append to the file."""
        with explain_os_errors(self.path):
            write_all(self._file, data)

    def finish(self) -> None:
        """Flush the file to the disk. It stays open, because it holds the lock."""
        with explain_os_errors(self.path):
            if self._hidden:
                os.fsync(self._file.fileno())
            else:
                self._file.close()

    def replaces_another(self) -> bool:
        """Return whether another file, with other content, is in the place."""
        there = self._hidden is not None and self.path.exists()
        return there and not filecmp.cmp(self.path, str(self._hidden), shallow=False)

    def move(self) -> None:
        """Move the finished file to its place."""
        if self._hidden:
            with explain_os_errors(self.path):
                self._hidden.replace(self._target)
                self._hidden = None
                synchronise(self._target.parent)


def _new_file(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)


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


def lock(file: int | IO[Any]) -> bool | None:
    """Take the system's lock on an open file or directory, and hold it until that is closed."""
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return None
    return True


@contextlib.contextmanager
def locked(path: Path) -> Iterator[bool | None]:
    """Hold the lock on a file or directory during the block, and yield what `lock` returns."""
    # NFS locks a file exclusively only if it is open for writing.
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        yield lock(descriptor)
    finally:
        os.close(descriptor)


def hidden_names(place: Path) -> Iterator[Path]:
    """Yield the hidden names of unfinished output for a place."""
    for number in itertools.count():
        yield place.with_name(f".{place.name}.{number}.crosshead")


def claim(place: Path, make: Callable[[Path], int]) -> tuple[Path, int]:
    """Make and lock a file or directory under a hidden name, in place of earlier leftovers.

    The parent is not listed, because it may hold many files.
    """
    names = hidden_names(place)
    for path in names:
        _clear(path)
        try:
            descriptor = make(path)
        except FileExistsError:
            continue
        except BaseException:  # Ctrl-C may come just after it was made
            _clear(path)
            raise
        # Another process may have taken it for a leftover before it was locked.
        if lock(descriptor) is not False and is_same(path, descriptor):
            for later in itertools.takewhile(os.path.lexists, names):
                _clear(later)
            return path, descriptor
        os.close(descriptor)
    raise AssertionError("the numbers never end")


def is_same(path: Path, descriptor: int) -> bool:
    """Return whether an open file or directory has this name."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except OSError:
        return False


def finished_name(path: Path) -> str:
    """Return the name of a file; for unfinished output, the name that it would have had."""
    found = _HIDDEN.fullmatch(path.name)
    return found[1] if found else path.name


def is_held(path: Path) -> bool:
    """Return whether another process holds the lock on a file or directory."""
    with locked(path) as held:
        return held is False


def is_leftover(path: Path) -> bool:
    """Return whether a path is unfinished output that no process is known to write."""
    with contextlib.suppress(OSError):
        is_hidden = finished_name(path) != path.name and not path.is_symlink()
        return is_hidden and not is_held(path)
    return False


def is_unused(directory: Path) -> bool:
    """Return whether a directory is empty, apart from what a kill has left."""
    return all(map(is_leftover, directory.iterdir()))


def is_unfinished(directory: Path) -> bool:
    """Return whether a kill has left unfinished output in a directory."""
    return any(map(is_leftover, directory.iterdir())) if directory.is_dir() else False


def remove_leftovers(directory: Path, name: str | None = None) -> None:
    """Remove what dead processes have left in a directory: of all places there, or of one name."""
    with contextlib.suppress(OSError):
        for path in sorted(directory.iterdir()):
            finished = finished_name(path)
            if finished != path.name and name in (None, finished):
                _clear(path)


def remove(path: Path) -> None:
    """Remove a file, or a directory with all that it holds."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _clear(path: Path) -> None:
    """Remove one leftover, if there is one and the lock shows that it is one."""
    if path.is_symlink():
        return
    with contextlib.suppress(OSError), locked(path) as held:
        if held:
            remove(path)
