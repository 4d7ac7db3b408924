"""Ctrl-C in Python, in a notebook for example: a run stops after its update, and is kept."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType


class Interrupt:
    """Whether somebody has pressed Ctrl-C, or `should_stop` asks a run to stop for another reason.

    Args:
        should_stop: Asked besides.
    """

    def __init__(self, should_stop: Callable[[], bool]) -> None:
        self._should_stop = should_stop
        self.was_pressed = False

    def __call__(self) -> bool:
        """Return whether the run is to stop."""
        return self.was_pressed or self._should_stop()

    def press(self, number: int, frame: FrameType | None) -> None:
        """Note a Ctrl-C; raise `KeyboardInterrupt` at the second."""
        if self.was_pressed:
            raise KeyboardInterrupt
        self.was_pressed = True


@contextlib.contextmanager
def stop_on_interrupt(should_stop: Callable[[], bool]) -> Iterator[Interrupt]:
    """Let Ctrl-C ask for the end within the block, where Python would raise `KeyboardInterrupt`.

    Where somebody handles SIGINT already, as the command line does, that stays so. Python calls
    such handlers in its main thread alone: elsewhere nothing changes.

    Args:
        should_stop: Asked besides.

    Yields:
        What says whether to stop.
    """
    interrupt = Interrupt(should_stop)
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield interrupt
        return
    signal.signal(signal.SIGINT, interrupt.press)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
