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

from crosshead.errors import UserError
from crosshead.system.files import explain_os_errors, lock

UNUSED = 30
"""Days after which a corpus that no run has opened may be removed."""

PATIENCE = 0.2
"""Seconds between two calls of `check` while waiting."""

Say = Callable[[str], None]
Check = Callable[[], None]


def cache_directory() -> Path:
    """Return the cache: `$CROSSHEAD_CACHE`, or `crosshead` in the user's cache."""
    if own := os.environ.get("CROSSHEAD_CACHE"):
        return Path(own)
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "crosshead"
    except RuntimeError:
        raise UserError(
            "no home directory, so no place to keep tokenized corpora: set HOME, or set "
            "CROSSHEAD_CACHE to a directory"
        ) from None


@contextlib.contextmanager
def alone(place: Path, say: Say, check: Check) -> Iterator[None]:
    """Hold the lock of the corpus in `place`, so that no other process writes or removes it.

    If another process holds the lock, wait for it.
    """
    path = _lock_of(place)
    with explain_os_errors(path):
        file = path.open("ab")
    with file:
        # The system's own blocking wait is not used: Python resumes it after a signal.
        if lock(file) is False:
            say(f"waiting for another run that is tokenizing this corpus in {place.parent}")
            while lock(file) is False:
                check()
                time.sleep(PATIENCE)
        yield


def remove_unused(directory: Path, say: Say) -> None:
    """Remove the corpora that nobody has opened for `UNUSED` days, and say so in one line.

    Unfinished corpora are removed too. A corpus that a process is writing stays, and so does
    everything else in `directory`. A corpus that is mapped can be read until its run ends.
    """
    removed = 0
    for place in sorted(directory.iterdir()):
        with contextlib.suppress(OSError):  # another run removed it, or another user owns it
            removed += _is_unused(place) and _remove(place)
    if removed:
        corpora = "corpus" if removed == 1 else "corpora"
        say(f"removed {removed} {corpora} from {directory}: not opened for {UNUSED} days")


def _remove(place: Path) -> bool:
    """Remove a corpus unless another process holds its lock."""
    with _lock_of(place).open("ab") as file:
        if lock(file) is False:
            return False
        shutil.rmtree(place)
    return True


def _is_unused(place: Path) -> bool:
    """Return whether a path is a corpus that was last opened or changed long ago."""
    is_corpus = re.fullmatch(r"[0-9a-f]{32}(\.part)?", place.name) and place.is_dir()
    return bool(is_corpus) and time.time() - place.stat().st_mtime > UNUSED * 86_400


def _lock_of(place: Path) -> Path:
    return place.with_suffix(".lock")
