"""The cores that tests run on: one for each worker, and all for those that need them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
"""All that there are, where the system tells: this is read before a worker takes one of them."""


def take_one(number: int) -> None:
    """Stay on the core of that number from here on, with all programs that are started."""
    if CORES:
        os.sched_setaffinity(0, {CORES[number % len(CORES)]})


@contextmanager
def on_all_cores() -> Iterator[None]:
    """All cores for what is inside, and for programs that are started there."""
    if not CORES:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, CORES)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
