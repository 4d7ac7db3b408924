"""The progress of verbs that answer line by line."""

import contextlib
import time
from collections.abc import Callable, Iterator

from crosshead.cli.terminal import at_terminal
from crosshead.system.progress import choose_display

_QUIET = 2.0
"""Seconds before plain lines of progress begin."""


@contextlib.contextmanager
def answering(
    total: int | None, unit: str = "lines", then: str = ""
) -> Iterator[Callable[..., None]]:
    """Yield a callback that reports how many lines are answered.

    The callback takes the number of lines answered before a group, the number of lines in the
    group, and the share of the group that is done. A progress bar shows the answered share of
    `total` lines; away from a terminal, plain lines do after two seconds. If `total` is None or 0,
    nothing is shown.
    """
    if not total:
        yield lambda before, lines, share: None
        return
    display, began = choose_display(lambda: None), time.monotonic()
    quiet = 0.0 if at_terminal() else _QUIET

    def advance(before: int, lines: int, share: float) -> None:
        done = before + share * lines
        took = time.monotonic() - began
        if took < quiet or not (display.due() or done >= total):
            return
        speed, follows = done / max(took, 1e-3), then if done >= total else ""
        line = f"{int(done):,} of {total:,} {unit}, {speed:,.0f} {unit}/s{follows}"
        display.advance(done / total, line)

    try:
        advance(0, 0, 0.0)
        yield advance
    finally:
        display.close()
