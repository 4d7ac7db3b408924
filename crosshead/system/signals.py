"""The signals that ask a run to save a checkpoint and to end, in Python and on the command line."""

import contextlib
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from types import FrameType
from typing import Any

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGXCPU)
"""Ctrl-C, a request to end, a terminal that closes, and the warnings of a scheduler such as Slurm
(`--signal=USR1@60`) and of the kernel that time is nearly over."""

_ENDS_AT_ONCE = (signal.SIGINT, signal.SIGTERM)
"""A second signal of these ends the program at once. The others are sent again without need: SIGHUP
by shell and kernel, SIGXCPU every second."""


class StopRequest:
    """A record of the first signal that asked the program to stop."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self.outcome = ""
        """The message of the `KeyboardInterrupt` that follows Ctrl-C."""
        self._earlier: dict[int, Any] = {}

    def __call__(self) -> bool:
        """Return whether a signal has arrived."""
        return self.signal is not None

    def ask(self, number: int) -> None:
        """Record the signal, unless an earlier one is recorded."""
        if self.signal is None:
            self.signal = number

    def take(self, replaced: Sequence[Any]) -> None:
        """Become the handler of each signal whose handler is one of `replaced`."""
        for number in STOP_SIGNALS:
            handler = signal.getsignal(number)
            if any(handler is each for each in replaced):
                self._earlier[number] = handler
                signal.signal(number, self._handle)

    def restore(self) -> None:
        """Give each signal its earlier handler again."""
        while self._earlier:
            signal.signal(*self._earlier.popitem())

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self() and number in _ENDS_AT_ONCE:
            self.restore()
            signal.raise_signal(number)
        self.ask(number)
        # Write to the descriptor directly: the signal may have interrupted a print.
        with contextlib.suppress(OSError):  # the terminal may be gone
            again = b"; Ctrl-C again stops at once" if number == signal.SIGINT else b""
            os.write(2, b"\ncrosshead: stopping and saving" + again + b"\n")


_active: ContextVar[StopRequest | None] = ContextVar("active", default=None)


@contextlib.contextmanager
def stop_on_signals(*ending: Callable[..., object]) -> Iterator[StopRequest]:
    """Turn the first of `STOP_SIGNALS` in the block into a request to stop.

    After the block, the earlier handlers come back, and the program gets the signal again: it ends
    by it, and after Ctrl-C with `KeyboardInterrupt`. A signal that the program ignores or handles
    itself is left alone. In other threads than the main one, and in a block inside another one,
    nothing changes: Python handles signals in its main thread, and the outer block has them.
    """
    if (outer := _active.get()) is not None:
        yield outer
        return
    request = StopRequest()
    error: BaseException | None = None
    token = _active.set(request)
    try:
        if threading.current_thread() is threading.main_thread():
            request.take([signal.SIG_DFL, signal.default_int_handler, *ending])
        yield request
    except BaseException as raised:
        error = raised
        raise
    finally:
        request.restore()
        _active.reset(token)
        number = request.signal if request.signal in STOP_SIGNALS else None
        if error and number and signal.getsignal(number) == signal.SIG_DFL:
            # The program may catch the exception, but it was asked to end.
            traceback.print_exception(error)
            signal.raise_signal(number)
    if number == signal.SIGINT:
        raise KeyboardInterrupt(request.outcome)
    if number:
        signal.raise_signal(number)


def end_on(number: int, frame: FrameType | None) -> None:
    """End the program by an exception, so that unfinished files are removed."""
    raise SystemExit(128 + number)
