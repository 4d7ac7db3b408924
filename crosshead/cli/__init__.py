"""The command line: verbs, flags and help texts; other packages do the work.

Slow imports, above all PyTorch, stand inside the verbs that need them, so that `crosshead --help`
answers at once. This module imports almost nothing, so that the Ctrl-C handler is set early.
"""

import os
import signal

TYPE_CHECKING = False  # stands for typing.TYPE_CHECKING, because importing typing is slow
if TYPE_CHECKING:
    from types import FrameType

    from crosshead.cli.program import run

__all__ = ["interrupt", "main", "run"]

_INTERRUPTED = 130


def main() -> None:
    """Run the command line and end the process: the console script `crosshead`."""
    try:
        # No import stands before this line: Python ignores a KeyboardInterrupt in some callbacks of
        # an import, and the program would go on.
        if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:  # background jobs may ignore it
            signal.signal(signal.SIGINT, interrupt)
        from crosshead.cli.program import run_and_end

        run_and_end()
    except KeyboardInterrupt:
        os._exit(_INTERRUPTED)


def interrupt(number: int, frame: "FrameType | None") -> None:
    """End the process at once during the import of a verb; later raise `KeyboardInterrupt`.

    Code that is being imported may replace an exception, or print it and continue. Ending at once
    is safe, because no work has begun.
    """
    if _is_imported_by_a_verb(frame):
        os._exit(_INTERRUPTED)
    raise KeyboardInterrupt


def _is_imported_by_a_verb(frame: "FrameType | None") -> bool:
    """Return whether the outermost current import was made by a module of this package."""
    importing = found = False
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            importing = True
        elif importing:
            importing = False
            found = str(frame.f_globals.get("__name__")).startswith(__name__)
        frame = frame.f_back
    return found


def __getattr__(name: str) -> object:
    """Import the verbs when `run` is first asked for (PEP 562)."""
    if name == "run":
        from crosshead.cli.program import run

        return run
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
