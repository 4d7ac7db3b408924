"""The context of a run: its processes, its display, its log, and whether to stop."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from crosshead.system.progress import Display, Silent
from crosshead.training.distributed import ALONE, World
from crosshead.training.log import RunLog

Callback = Callable[[Mapping[str, Any]], object]
"""A function that receives a row: names to numbers, as in a line of `log.jsonl`."""


def ignore(row: Mapping[str, Any]) -> None:
    """Do nothing with a row."""


def any_size(size: int) -> None:
    """Accept any number of training rows."""


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
    on_update: Callback = ignore
    """Receives a row after each update: `update`, `epoch`, means of the losses, `learning_rate` and
    `gradient_norm`. The last is None if the gradients were not finite."""
    on_validation: Callback = ignore
    """Receives a row after each validation, with the values of its line in the log."""
    check_size: Callable[[int], None] = any_size
    """Gets the number of training rows before training, and may raise `UserError`."""

    began: float = field(default_factory=time.perf_counter)
    """The time when the command began."""

    def say(self, line: str) -> None:
        """Show a message."""
        self.display.say(line)

    def write(self, kind: str, update: int, **values: Any) -> None:
        """Write a line to the log, if the log is open."""
        if self.log is not None:
            self.log.write(kind, update, **values)
