"""Ctrl-C, or an exception of a callback: the run finishes its update and saves a checkpoint."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any

from crosshead.training.context import Callback


class Interrupt:
    """A stop condition: true after a Ctrl-C or an exception, or when `should_stop` returns True.

    Args:
        should_stop: A second stop condition: the run also stops when this returns True.
    """

    def __init__(self, should_stop: Callable[[], bool]) -> None:
        self._should_stop = should_stop
        self.was_pressed = False
        self.error: BaseException | None = None
        """The exception of a callback or of `should_stop`, to be raised when the run is saved."""

    def __call__(self) -> bool:
        """Return whether the run should stop."""
        if self.was_pressed or self.error is not None:
            return True
        try:
            return self._should_stop()
        except BaseException as error:
            self._keep(error)
            return True

    def guarded(self, callback: Callback) -> Callback:
        """Return a callback whose exception stops the run instead of losing it."""

        def call(row: Mapping[str, Any]) -> None:
            try:
                callback(row)
            except BaseException as error:
                self._keep(error)

        return call

    def _keep(self, error: BaseException) -> None:
        """Keep the first exception; after a Ctrl-C it ends the run at once."""
        if self.was_pressed:
            raise error
        self.error = self.error or error

    def press(self, number: int, frame: FrameType | None) -> None:
        """Record a Ctrl-C; raise `KeyboardInterrupt` at the second."""
        if self.was_pressed:
            raise KeyboardInterrupt
        self.was_pressed = True


@contextlib.contextmanager
def stop_on_interrupt(should_stop: Callable[[], bool]) -> Iterator[Interrupt]:
    """Stop the run on Ctrl-C instead of raising KeyboardInterrupt.

    An existing SIGINT handler is kept, such as that of the command line. Python runs signal
    handlers in its main thread only, so the block changes nothing in another thread.

    Args:
        should_stop: A second stop condition: the run also stops when this returns True.

    Yields:
        A callable that returns True if the run should stop.
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
