import multiprocessing
import signal
from concurrent.futures import ProcessPoolExecutor

from crosshead.system.signals import STOP_SIGNALS
from crosshead.system.workers import become_worker, signals_left_to_this


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
