"""The context of a run: its processes, its display, its log, and whether to stop.

After a signal, or an exception of a callback, the run finishes its update and saves a checkpoint.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from crosshead.system.progress import Display, Silent
from crosshead.system.signals import StopRequest, stop_on_signals
from crosshead.tasks.corpus import Corpus
from crosshead.tasks.validation import Validation
from crosshead.training.distributed import ALONE, World
from crosshead.training.log import RunLog

Callback = Callable[[Mapping[str, Any]], object]
"""A function that receives a row: names to numbers, as in a line of `log.jsonl`."""


def ignore(row: Mapping[str, Any]) -> None:
    """Do nothing with a row."""


@dataclass
class MainProcess:
    """The functions and paths that the main process needs to validate and write."""

    validate: Callable[[dict[str, Tensor]], Validation]
    """Validates float32 weights; raises `Stopped` if the run is asked to stop meanwhile."""
    directory: Path
    """The directory of the checkpoints."""
    settings: str = ""
    """The configuration of a bundle of the weights, as JSON."""


@dataclass
class Context:
    """The processes, display, log and callbacks of a run."""

    world: World = ALONE
    """The processes that train together."""
    display: Display = field(default_factory=Silent)
    """Shows messages and progress; silent in every process but the main one."""
    should_stop: Callable[[], bool] = lambda: False
    """Returns True if the run is asked to stop."""
    log: RunLog | None = None
    """The log. None before it is opened, and in every process but the main one."""
    main: MainProcess | None = None
    """The tools of the main process. None before training, and in workers."""
    on_update: Callback = ignore
    """Receives a row after each update: `update`, `epoch`, means of the losses, `learning_rate` and
    `gradient_norm`. The last is None if the gradients were not finite."""
    on_validation: Callback = ignore
    """Receives a row after each validation, with the values of its line in the log."""
    check_data: Callable[[Corpus], None] = lambda corpus: None
    """Gets the data before the model is built, and may raise `UserError`."""

    began: float = field(default_factory=time.perf_counter)
    """The time when the command began."""

    def say(self, line: str) -> None:
        """Show a message."""
        self.display.say(line)

    def write(self, kind: str, update: int, **values: Any) -> None:
        """Write a line to the log, if the log is open."""
        if self.log is not None:
            self.log.write(kind, update, **values)


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
