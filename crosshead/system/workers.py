"""Worker processes: they end with their parent, and leave signals to it."""

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator

from crosshead.system.signals import STOP_SIGNALS


def become_worker() -> None:
    """Start a thread that ends this process when its parent ends."""
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextlib.contextmanager
def signals_left_to_this() -> Iterator[None]:
    """Block `STOP_SIGNALS` in processes that are started in the block.

    Such a signal to the whole process group then reaches only the main process.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
