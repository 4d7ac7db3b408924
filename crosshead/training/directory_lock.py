"""The directory that a run writes into: held against other runs, and known again when it moves."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from crosshead.errors import UserError
from crosshead.system.files import make_directory


class Displaced(UserError):
    """A run directory that was renamed or removed while the run went on."""


class LockedDirectory:
    """A directory that this process has opened and, where the file system can, locked.

    Args:
        path: The directory's name when it was opened.
        descriptor: An open file descriptor of the directory.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path, self._descriptor = path, descriptor
        self.is_locked = _lock(descriptor, path)

    def is_in_place(self) -> bool:
        """Return whether the directory still stands under its name."""
        return _same(self.path, self._descriptor)

    def check(self) -> None:
        """Raise `Displaced` unless the directory still stands under its name."""
        if not self.is_in_place():
            raise Displaced(f"{self.path}: was renamed or removed while the run went on")

    def found(self) -> Path | None:
        """Return where the directory stands now, or None if it was removed or cannot be found."""
        try:
            place = Path(os.readlink(f"/proc/self/fd/{self._descriptor}"))
        except OSError:  # a system without /proc
            return None
        return place if _same(place, self._descriptor) else None


@contextlib.contextmanager
def locked_directory(out: Path) -> Iterator[LockedDirectory]:
    """Hold `out` for the block, so that no other run can write there.

    The directory is made if need be, and removed again if the block leaves it empty. It is held by
    the system's lock, which ends with the process, however that ends.

    Raises:
        UserError: If another run holds `out`, or it cannot be a directory.
    """
    if out.exists() and not out.is_dir():
        raise UserError(f"{out}: is a file; --out names a directory")
    made = [place for place in (out, *out.parents) if not place.exists()]
    make_directory(out)
    descriptor = os.open(out, os.O_RDONLY)
    try:
        yield LockedDirectory(out, descriptor)
    finally:
        in_place = _same(out, descriptor)
        os.close(descriptor)
        if in_place:
            with contextlib.suppress(OSError):  # where something was left in it
                for place in made:
                    place.rmdir()


def _same(place: Path, descriptor: int) -> bool:
    """Return whether an open directory stands under this name."""
    try:
        return os.path.samestat(place.stat(), os.fstat(descriptor))
    except OSError:
        return False


def _lock(descriptor: int, out: Path) -> bool:
    """Lock an open directory; return False where the system or its file system has no locks."""
    try:
        import fcntl
    except ImportError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UserError(
            f"{out}: another run is writing there; wait for its end, or give another --out"
        ) from None
    except OSError:
        return False
    return True
