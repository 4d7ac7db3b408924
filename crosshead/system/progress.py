"""The progress of long work: a bar on a terminal, plain lines elsewhere."""

import contextlib
import io
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import IO, cast

from crosshead.errors import printable


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 epoch`, `2 epochs`, `2,000 batches`."""
    plural = "es" if noun.endswith("tch") else "s"
    return f"{number:,} {noun}{'' if number == 1 else plural}"


def left_out(names: Sequence[str], noun: str, rest: str = "") -> str:
    """Return a message about what is left out of some data, with the first names."""
    first = ", ".join([*names[:_NAMED], *["..."] * (len(names) > _NAMED)])
    return f"left out: {counted(len(names), noun)}{rest} ({first})"


_NAMED = 3
"""The number of names in a message about what is left out."""


class Display:
    """The display of a run's progress. By itself it shows nothing."""

    def say(self, line: str) -> None:
        """Show a line that stays."""

    def advance(self, fraction: float, line: str) -> None:
        """Show the finished share of the run, from 0 to 1, and a line of figures."""

    def due(self) -> bool:
        """Return whether it is time to show new figures."""
        return False

    def close(self) -> None:
        """End the display."""


class Silent(Display):
    """A display that shows nothing: for tests and for use as a library."""


class Messages(io.TextIOBase):
    """Standard error, which may be closed or lose its reader during a run.

    `lost` is then called, and later text is discarded.
    """

    def __init__(self, lost: Callable[[], None]) -> None:
        self._lost = lost
        self._stream = sys.stderr  # kept, because a progress bar replaces sys.stderr while shown

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The encoding of the text."""
        return getattr(self._stream, "encoding", None) or "utf-8"

    def isatty(self) -> bool:
        """Return whether the stream is a terminal."""
        return self._stream is not None and self._stream.isatty()

    def fileno(self) -> int:
        """Return the file descriptor."""
        if self._stream is None:
            raise OSError("standard error is closed")
        return self._stream.fileno()

    def write(self, text: str) -> int:
        """Write a text and flush it."""
        try:
            if self._stream is not None:
                self._stream.write(text)
                self._stream.flush()
        except OSError:
            # Otherwise the buffered text would raise the error again when the program ends.
            with contextlib.suppress(OSError), open(os.devnull, "wb") as nowhere:
                os.dup2(nowhere.fileno(), self._stream.fileno())
            self._lost()
        return len(text)


_PAUSES = (5.0, 10.0, 20.0, 40.0, 60.0)
"""Seconds between plain lines of figures. The last value repeats."""


class Lines(Display):
    """Plain lines: for a pipe or a file. They begin after `quiet` seconds."""

    def __init__(self, messages: Messages, quiet: float = 0.0) -> None:
        self._messages = messages
        self._pauses = iter(_PAUSES)
        self._pause = quiet
        self._shown = time.monotonic()

    def say(self, line: str) -> None:
        """Write a line."""
        self._messages.write(f"{printable(line)}\n")

    def advance(self, fraction: float, line: str) -> None:
        """Write a line with the finished share."""
        self.say(f"{fraction:4.0%}  {line}")
        self._shown, self._pause = time.monotonic(), next(self._pauses, _PAUSES[-1])

    def due(self) -> bool:
        """Return whether the pause since the last figures is over.

        The pause after the first figures is 5 seconds, and a minute later on.
        """
        return time.monotonic() - self._shown >= self._pause


class Bar(Display):
    """A progress bar with the remaining time, for a terminal."""

    def __init__(self, messages: Messages) -> None:
        # Only a terminal needs them, and a short answer takes less time than their import.
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

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
        self._progress.console.print(printable(line), markup=False, highlight=False, soft_wrap=True)

    def advance(self, fraction: float, line: str) -> None:
        """Move the bar."""
        self._progress.start()
        self._progress.update(self._task, completed=fraction, description=line)
        self._shown = time.monotonic()

    def due(self) -> bool:
        """Return whether the bar was last moved more than a second ago."""
        return time.monotonic() - self._shown >= 1.0

    def close(self) -> None:
        """Stop the bar and leave it on the screen."""
        self._progress.stop()


def choose_display(lost: Callable[[], None], quiet: float = 0.0) -> Display:
    """Return a bar on a terminal and plain lines elsewhere, which begin after `quiet` seconds.

    `lost` is called if the reader of standard error disappears.
    """
    messages = Messages(lost)
    return Bar(messages) if messages.isatty() else Lines(messages, quiet)
