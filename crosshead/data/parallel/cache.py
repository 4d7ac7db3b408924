"""The cache of tokenized corpora: its place, its locks, and the removal of unused corpora.

Each corpus has a folder, `KEY`, or `KEY.part` while it is written, and a file `KEY.lock` beside it.
A process that writes or removes either folder holds the lock on that file. The lock file is empty
and is never removed. If it were removed, the next process would make another file and lock that
one, beside the holder of the first.
"""

import contextlib
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from crosshead.errors import UserError
from crosshead.system.files import explained

UNUSED = 30
"""Days after which a corpus that no run has opened may go."""

PATIENCE = 0.2
"""Seconds between two looks whether the work is to end."""

Say = Callable[[str], None]
Check = Callable[[], None]


def cache_directory() -> Path:
    """Return the cache: `$CROSSHEAD_CACHE`, or `crosshead` in the user's cache.

    Raises:
        UserError: If the user has no home directory, as in a container.
    """
    if own := os.environ.get("CROSSHEAD_CACHE"):
        return Path(own)
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "crosshead"
    except RuntimeError:
        raise UserError(
            "tokenized corpora are kept in the home directory, and there is none: set HOME, or "
            "CROSSHEAD_CACHE to another place"
        ) from None


@contextlib.contextmanager
def alone(place: Path, say: Say, check: Check) -> Iterator[None]:
    """A block in which no other process writes or removes the corpus in `place`.

    Where one does, `say` gets a line, and `check` is called several times a second until that one
    is done: what it raises ends the wait.
    """
    path = _lock_of(place)
    with explained(path):
        file = path.open("ab")
    with file:
        # Never inside the system's own wait: Python goes on with that after a signal.
        if not lock(file, exclusive=True):
            say(f"another run is tokenizing this corpus in {place.parent}: waiting for it")
            while not lock(file, exclusive=True):
                check()
                time.sleep(PATIENCE)
        yield


def lock(file: BinaryIO, *, exclusive: bool) -> bool:
    """Hold the system's lock on a file while it is open or mapped.

    Return False if another process holds the lock and `exclusive` is True. A shared lock waits
    instead, because no process holds an exclusive lock on a corpus for long. On systems and file
    systems without locks this does nothing.
    """
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB if exclusive else fcntl.LOCK_SH)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        pass
    return True


def remove_unused(directory: Path, say: Say) -> None:
    """Remove the corpora that nobody has opened for `UNUSED` days, and say so in a line.

    That goes for those too whose writing was cut off, and for none that a process writes or has
    mapped. Whatever else stands in `directory` stays.
    """
    removed = 0
    for place in sorted(directory.iterdir()):
        with contextlib.suppress(OSError):  # another run was quicker, or it is somebody else's
            removed += _is_corpus(place) and _is_old(place) and _remove_free(place)
    if removed:
        corpora = "corpus" if removed == 1 else "corpora"
        say(f"removed {removed} {corpora} from {directory}: not opened for {UNUSED} days")


def _remove_free(place: Path) -> bool:
    """Remove an old corpus unless a process writes or has mapped it, as far as there are locks."""
    with _lock_of(place).open("ab") as file:
        if not lock(file, exclusive=True) or _is_mapped(place):
            return False
        # Again, and last: whoever opens a corpus makes it new before he maps its files.
        if not _is_old(place):
            return False
        shutil.rmtree(place)
    return True


def _is_mapped(place: Path) -> bool:
    for path in place.iterdir():
        with path.open("r+b") as file:  # to be written: NFS locks no other file exclusively
            if not lock(file, exclusive=True):
                return True
    return False


def _is_corpus(place: Path) -> bool:
    return re.fullmatch(r"[0-9a-f]{32}(\.part)?", place.name) is not None and place.is_dir()


def _is_old(place: Path) -> bool:
    """Return whether the corpus was last opened, or a file last made in it, long ago."""
    return time.time() - place.stat().st_mtime > UNUSED * 86_400


def _lock_of(place: Path) -> Path:
    return place.with_suffix(".lock")
