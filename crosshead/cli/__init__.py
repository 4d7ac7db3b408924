"""The command line: its verbs, their flags and their help. What they do is done elsewhere.

Whatever is slow to import (PyTorch above all) is imported inside the verb that needs it, so that
`crosshead --help` answers at once. This module itself imports next to nothing, so that a Ctrl-C
finds its handler from the beginning on.
"""

import os

TYPE_CHECKING = False  # that of typing, whose import takes longer than all of this module
if TYPE_CHECKING:
    from types import FrameType

    from crosshead.cli.program import run

__all__ = ["main", "run"]

_INTERRUPTED = 130


def main() -> None:
    """Run the command line and end the process: the console script `crosshead`."""
    try:
        import signal

        if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:  # as in a script's background
            signal.signal(signal.SIGINT, _interrupt)
        from crosshead.cli.program import run_and_end

        run_and_end()
    except KeyboardInterrupt:
        os._exit(_INTERRUPTED)


def _interrupt(number: int, frame: "FrameType | None") -> None:
    """End the process at once while a verb is imported, and by `KeyboardInterrupt` later.

    An import may turn an exception into another one, or print it and go on. Nothing is unfinished
    then, as nothing has begun.
    """
    if _is_imported_by_a_verb(frame):
        os._exit(_INTERRUPTED)
    raise KeyboardInterrupt


def _is_imported_by_a_verb(frame: "FrameType | None") -> bool:
    """Return whether the outermost import under way is one of a module of this package."""
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
