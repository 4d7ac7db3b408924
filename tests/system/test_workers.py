import multiprocessing
import signal
from concurrent.futures import ProcessPoolExecutor

import pytest

from crosshead.system.signals import STOP_SIGNALS
from crosshead.system.workers import become_worker, in_processes, signals_left_to_this


def blocked() -> set[int]:
    """The signals that this process leaves to others."""
    return {int(each) for each in signal.pthread_sigmask(signal.SIG_BLOCK, [])}


def test_a_worker_that_is_started_in_the_block_leaves_signals_to_its_parent() -> None:
    before = blocked()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context, initializer=become_worker) as pool:
        with signals_left_to_this():
            found = pool.submit(blocked)
        assert set(STOP_SIGNALS) <= found.result()
    assert blocked() == before


def refuse(job: int) -> int:
    """Raise what a file system raises over a network."""
    raise TimeoutError("Connection timed out") if job else ValueError


def test_a_time_out_in_a_job_is_raised() -> None:
    jobs = in_processes(refuse, [1], 1, lambda: None, "a process died")
    with pytest.raises(TimeoutError, match="Connection timed out"):
        next(jobs)
