"""Worker processes: they end with their parent, and leave signals to it."""

import contextlib
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from crosshead.errors import UserError
from crosshead.system.signals import STOP_SIGNALS

_AHEAD = 4
"""The number of jobs that wait for each process: enough to keep it busy, few enough for memory."""

_PATIENCE = 0.2
"""Seconds between two calls of `check` while waiting for a result."""

_Job = TypeVar("_Job")
_Result = TypeVar("_Result")


def in_processes(
    function: Callable[[_Job], _Result],
    jobs: Iterable[_Job],
    workers: int,
    check: Callable[[], None],
    died: str,
) -> Generator[_Result, None, None]:
    """Yield the results of a function in the order of the jobs, computed in several processes.

    `check` is called while a result is awaited, and may raise an exception to stop. `died` is what
    the error for a process that dies says, and what to do.
    """
    # A process forked while threads run may wait forever for locks that those threads held.
    context = multiprocessing.get_context("spawn")
    earlier = set(multiprocessing.active_children())
    waiting: deque[Future[_Result]] = deque()
    with ProcessPoolExecutor(workers, context, initializer=become_worker) as pool:
        try:
            for job in jobs:
                with signals_left_to_this():
                    waiting.append(pool.submit(function, job))
                if len(waiting) >= _AHEAD * workers:
                    yield _result(waiting.popleft(), check)
            while waiting:
                yield _result(waiting.popleft(), check)
        except BrokenProcessPool:
            raise UserError(died) from None
        finally:
            if waiting:  # unfinished work is not needed any more
                for child in set(multiprocessing.active_children()) - earlier:
                    child.kill()
            pool.shutdown(cancel_futures=True)


def _result(future: Future[_Result], check: Callable[[], None]) -> _Result:
    """Return the result of a job, unless `check` raises first."""
    check()
    while not wait([future], _PATIENCE).done:
        check()
    return future.result()  # no time limit here: a `TimeoutError` comes from the file system


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
