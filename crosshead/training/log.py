"""What a run says while it lasts: log.jsonl, TensorBoard events, a progress bar or plain lines."""

import json
import os
import sys
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

LOG = "log.jsonl"


class RunLog:
    """`log.jsonl`: one object a line with `kind` (`train`, `valid`, `end`), and TensorBoard events.

    `keep` bytes of an earlier log are kept when a run goes on from a checkpoint: what was logged
    after it is logged again.
    """

    def __init__(self, directory: Path, keep: int = 0) -> None:
        self.path = directory / LOG
        self._file = self.path.open("ab")
        self._file.truncate(min(keep, self.path.stat().st_size))
        self._file.seek(0, os.SEEK_END)  # `tell` would say where the earlier log ended
        self._events = _tensorboard(directory)

    def write(self, kind: str, update: int, **values: Any) -> None:
        """Append a line, and scalars to TensorBoard where it is installed."""
        line = json.dumps({"kind": kind, "update": update, **values})
        self._file.write(line.encode() + b"\n")
        self._file.flush()
        if self._events is not None:
            for name, value in values.items():
                if isinstance(value, int | float):
                    self._events.add_scalar(f"{kind}/{name}", value, update)

    def tell(self) -> int:
        """The length of the log in bytes, once it is on the disk."""
        os.fsync(self._file.fileno())
        return self._file.tell()

    def close(self) -> None:
        """Nothing is written after this."""
        self._file.close()
        if self._events is not None:
            self._events.close()


def _tensorboard(directory: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(directory / "tensorboard"))


class Display(Protocol):
    """What the person in front of a run sees of it."""

    def say(self, line: str) -> None:
        """A line that stays."""
        ...

    def advance(self, fraction: float, line: str) -> None:
        """How much of the run is done, and its figures."""
        ...

    def close(self) -> None:
        """The run is over."""
        ...


class Lines:
    """Plain lines on standard error: for a pipe or a file."""

    def say(self, line: str) -> None:
        """A line that stays."""
        print(line, file=sys.stderr, flush=True)

    def advance(self, fraction: float, line: str) -> None:
        """A line a call, with the share that is done."""
        self.say(f"{fraction:4.0%}  {line}")

    def close(self) -> None:
        """Nothing to put away."""


class Bar:
    """A progress bar with the time left, for a terminal."""

    def __init__(self) -> None:
        self._progress = Progress(
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:3.0f}%"),
            TextColumn("{task.description}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self._task = self._progress.add_task("", total=1.0)

    def say(self, line: str) -> None:
        """A line above the bar."""
        self._progress.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def advance(self, fraction: float, line: str) -> None:
        """Move the bar."""
        self._progress.start()
        self._progress.update(self._task, completed=fraction, description=line)

    def close(self) -> None:
        """Leave the bar as it stands."""
        self._progress.stop()


class Silent:
    """Nothing at all: for tests and for use as a library."""

    def say(self, line: str) -> None:
        """Not said."""

    def advance(self, fraction: float, line: str) -> None:
        """Not shown."""

    def close(self) -> None:
        """Nothing to put away."""


def choose_display() -> Display:
    """A bar on a terminal, lines elsewhere."""
    return Bar() if sys.stderr.isatty() else Lines()
