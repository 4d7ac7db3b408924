"""Where tokenized corpora are kept, who uses them, and when they go.

Each stands in a folder, `KEY`, or `KEY.part` while it is written, with a file `KEY.lock` beside it.
"""

import contextlib
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from crosshead.files import explained

UNUSED = 30
"""Days after which a corpus that no run has opened may go."""

Say = Callable[[str], None]


def cache_directory() -> Path:
    """Where tokenized corpora are kept: `$CROSSHEAD_CACHE`, or `crosshead` in the user's cache."""
    if own := os.environ.get("CROSSHEAD_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "crosshead"


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """A block that one process at a time is in, by a lock on `path`: the others wait before it."""
    with explained(path):
        file = path.open("wb")
    with file:
        lock(file, exclusive=True)
        yield


def lock(file: BinaryIO, *, exclusive: bool, wait: bool = True) -> bool:
    """Hold the system's lock on a file while it is open or mapped.

    False where others hold one that excludes it, and this does not `wait`. Systems and file systems
    without locks hold none.
    """
    try:
        import fcntl

        kind = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
        fcntl.flock(file, kind if wait else kind | fcntl.LOCK_NB)
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
            if _is_corpus(place) and _age(place) > UNUSED and _is_free(place):
                shutil.rmtree(place)
                place.with_suffix(".lock").unlink(missing_ok=True)
                removed += 1
    if removed:
        corpora = "corpus" if removed == 1 else "corpora"
        say(f"removed {removed} {corpora} from {directory}: not opened for {UNUSED} days")


def _is_corpus(place: Path) -> bool:
    return re.fullmatch(r"[0-9a-f]{32}(\.part)?", place.name) is not None and place.is_dir()


def _age(place: Path) -> float:
    """Days since a corpus was opened, or since a file was made in it."""
    return (time.time() - place.stat().st_mtime) / 86_400


def _is_free(place: Path) -> bool:
    """Whether no process writes or has mapped a corpus, as far as there are locks."""
    for path in (place.with_suffix(".lock"), *place.iterdir()):
        if path.is_file():
            with path.open("rb") as file:
                if not lock(file, exclusive=True, wait=False):
                    return False
    return True
