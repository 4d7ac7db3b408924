"""A signal, or an exception of a callback: the run finishes its update and saves a checkpoint."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from crosshead.system.signals import StopRequest, stop_on_signals
from crosshead.training.context import Callback


class Interrupt:
    """A stop condition: true after a signal or an exception, or when `should_stop` returns True."""

    def __init__(self, should_stop: Callable[[], bool], request: StopRequest) -> None:
        self._should_stop, self._request = should_stop, request
        self.error: BaseException | None = None
        """The exception of a callback or of `should_stop`, to be raised when the run is saved."""

    def __call__(self) -> bool:
        """Return whether the run should stop."""
        if self._request() or self.error is not None:
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

    def tell(self, outcome: str) -> None:
        """Let the exceptions that follow say how the run ended."""
        self._request.outcome = outcome
        if self.error is not None:
            self.error.add_note(outcome)

    def _keep(self, error: BaseException) -> None:
        """Keep the first exception; after a signal it ends the run at once."""
        if self._request():
            raise error
        self.error = self.error or error


@contextlib.contextmanager
def stop_on_interrupt(should_stop: Callable[[], bool]) -> Iterator[Interrupt]:
    """Stop the run on signals and exceptions of callbacks, which are raised after the block."""
    with stop_on_signals() as request:
        interrupt = Interrupt(should_stop, request)
        yield interrupt
        if interrupt.error is not None:
            raise interrupt.error
