"""The progress of long work: a bar on a terminal, plain lines elsewhere."""

import contextlib
import io
import math
import os
import sys
import time
from collections.abc import Callable
from typing import IO, Protocol, cast

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn


def counted(number: int, noun: str) -> str:
    """`1 epoch`, `2 epochs`, `2,000 epochs`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


class Display(Protocol):
    """The display for the person who watches a run."""

    def say(self, line: str) -> None:
        """A line that stays."""
        ...

    def advance(self, fraction: float, line: str) -> None:
        """Show the share of the run that is done, and its figures."""
        ...

    def due(self) -> bool:
        """Return whether it is time to show figures again."""
        ...

    def close(self) -> None:
        """The run is over."""
        ...


class Messages(io.TextIOBase):
    """Standard error, which may be closed, or lose its reader while a run lasts.

    `lost` is then called once, and what is written from there on goes nowhere.
    """

    def __init__(self, lost: Callable[[], None]) -> None:
        self._lost = lost
        self._stream = sys.stderr  # a progress bar puts itself in its place while it is shown

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The encoding of the text."""
        return getattr(self._stream, "encoding", None) or "utf-8"

    def isatty(self) -> bool:
        """Return whether the stream is a terminal."""
        return self._stream is not None and self._stream.isatty()

    def fileno(self) -> int:
        """The descriptor."""
        if self._stream is None:
            raise OSError("standard error is closed")
        return self._stream.fileno()

    def write(self, text: str) -> int:
        """Write at once."""
        try:
            if self._stream is not None:
                self._stream.write(text)
                self._stream.flush()
        except OSError:
            # What is left in its buffer would come up again when the program ends.
            with contextlib.suppress(OSError), open(os.devnull, "wb") as nowhere:
                os.dup2(nowhere.fileno(), self._stream.fileno())
            self._lost()
        return len(text)


_PAUSES = (5.0, 10.0, 20.0, 40.0, 60.0)
"""Seconds between plain lines of figures: the first ones, and from the last on always."""


class Lines:
    """Plain lines: for a pipe or a file."""

    def __init__(self, messages: Messages) -> None:
        self._messages = messages
        self._pauses = iter(_PAUSES)
        self._pause = 0.0
        self._shown = time.monotonic()

    def say(self, line: str) -> None:
        """A line that stays."""
        self._messages.write(f"{line}\n")

    def advance(self, fraction: float, line: str) -> None:
        """A line a call, with the share that is done."""
        self.say(f"{fraction:4.0%}  {line}")
        self._shown, self._pause = time.monotonic(), next(self._pauses, _PAUSES[-1])

    def due(self) -> bool:
        """Return whether the pause since the last figures is over: 5 seconds, later a minute."""
        return time.monotonic() - self._shown >= self._pause

    def close(self) -> None:
        """Do nothing: there is nothing to close."""


class Bar:
    """A progress bar with the time left, for a terminal."""

    def __init__(self, messages: Messages) -> None:
        self._progress = Progress(
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:3.0f}%"),
            TextColumn("{task.description}"),
            TimeRemainingColumn(),
            console=Console(file=cast("IO[str]", messages)),
        )
        self._task = self._progress.add_task("", total=1.0)
        self._shown = -math.inf

    def say(self, line: str) -> None:
        """Print a line above the bar."""
        self._progress.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def advance(self, fraction: float, line: str) -> None:
        """Move the bar."""
        self._progress.start()
        self._progress.update(self._task, completed=fraction, description=line)
        self._shown = time.monotonic()

    def due(self) -> bool:
        """Return whether the bar has stood still for a second."""
        return time.monotonic() - self._shown >= 1.0

    def close(self) -> None:
        """Leave the bar as it stands."""
        self._progress.stop()


class Silent:
    """A display that shows nothing: for tests and for use as a library."""

    def say(self, line: str) -> None:
        """Ignore the line."""

    def advance(self, fraction: float, line: str) -> None:
        """Ignore the progress."""

    def due(self) -> bool:
        """Return False."""
        return False

    def close(self) -> None:
        """Do nothing: there is nothing to close."""


def choose_display(lost: Callable[[], None]) -> Display:
    """A bar on a terminal, lines elsewhere; `lost` is called when nobody reads them any more."""
    messages = Messages(lost)
    return Bar(messages) if messages.isatty() else Lines(messages)
