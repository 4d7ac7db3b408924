"""A lock on the run directory, which keeps other runs out and can find a moved directory."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from crosshead.caller import option
from crosshead.errors import UserError
from crosshead.system.files import is_held, is_same, lock, made_directory


class Displaced(UserError):
    """Raised if the run directory was renamed or removed during the run."""


class LockedDirectory:
    """A directory that this process has opened and, if the file system allows, locked."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path, self._descriptor = path, descriptor
        if lock(descriptor) is False:
            raise UserError(
                f"{path}: another run is writing there; wait for its end, or give another "
                f"{option('out')}"
            )

    def is_in_place(self) -> bool:
        """Return whether the directory still has its name."""
        return is_same(self.path, self._descriptor)

    def check(self) -> None:
        """Raise `Displaced` if the directory was renamed or removed."""
        if not self.is_in_place():
            raise Displaced(f"{self.path}: was renamed or removed while the run was under way")

    def found(self) -> Path | None:
        """Return the directory's current path, or None if it was removed or cannot be found."""
        try:
            place = Path(os.readlink(f"/proc/self/fd/{self._descriptor}"))
        except OSError:  # a system without /proc
            return None
        return place if is_same(place, self._descriptor) else None


@contextlib.contextmanager
def locked_directory(out: Path) -> Iterator[LockedDirectory]:
    """Lock `out` for the block, so that no other run can write there.

    The directory is made if it does not exist, and then removed again if the block leaves it empty.
    The operating system holds the lock and releases it when the process ends, even after a kill.
    """
    if out.exists() and not out.is_dir():
        raise UserError(f"{out}: is a file; {option('out')} names a directory")
    with made_directory(out):
        descriptor = os.open(out, os.O_RDONLY)
        try:
            yield LockedDirectory(out, descriptor)
        finally:
            os.close(descriptor)


def is_locked(out: Path) -> bool:
    """Return whether a run is writing in a directory.

    False if that cannot be found out: without locks, or without permission to read the directory.
    """
    try:
        return is_held(out)
    except OSError:
        return False
