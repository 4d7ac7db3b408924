"""The program: it imports all verbs in order, runs one, and ends the process."""

import atexit  # noqa: I001 - the verbs below are in the order of the help
import contextlib
import functools
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any

import typer

from crosshead.cli import training, inspection, others  # noqa: F401
from crosshead.cli import kinds
from crosshead.cli.app import app
from crosshead.cli.terminal import INTERRUPTED, guarded
from crosshead.extensions import added
from crosshead.system.signals import STOP_SIGNALS, end_on


def run_and_end() -> None:
    """Run the command line on the arguments of the process, and end it."""
    # PyTorch's threads wait for each other by spinning. On a busy machine one of them is often not
    # running, and the others then waste their time slices. OpenMP reads this before PyTorch starts.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    for number in STOP_SIGNALS:
        if signal.getsignal(number) == signal.SIG_DFL:  # nohup ignores SIGHUP
            signal.signal(number, end_on)
    # At exit, Python restores signal handlers before it ends; ignore a Ctrl-C that comes so late.
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
    try:
        code = run(sys.argv[1:])
    except SystemExit as end:  # from a signal, or in a worker whose main process ends the run
        code = end.code if isinstance(end.code, int) else 1
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, _leave)  # while threads are waited for
    if "WORLD_SIZE" in os.environ:
        # Under torchrun, PyTorch's threads for the process group may abort the process while
        # Python shuts down, and hide the exit code.
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        os._exit(code)
    sys.exit(code)


_FIRST = ("train", "translate", "evaluate", "compare", "score", "generate", "fill", "average")
_ORDER = {name: place for place, name in enumerate(_FIRST)}
"""The places of the verbs that the help lists first."""


@functools.cache
def command() -> Any:
    """Return the command of all verbs, built once: that takes longer than to run a short one."""
    added("verbs")  # each registers itself with `app`, or adds a kind to a verb
    for verb in (training, kinds.translate, kinds.evaluate):
        verb.register()
    app.registered_commands.sort(key=_place)
    return typer.main.get_command(app)


def _place(verb: Any) -> int:
    """Return the place of a verb in the help."""
    return _ORDER.get(verb.name or verb.callback.__name__, len(_ORDER))


def run(arguments: Sequence[str]) -> int:
    """Run the command line on these arguments (none: show the help), and return the exit code."""

    def work() -> None:
        with command().make_context("crosshead", list(arguments) or ["--help"]) as context:
            context.command.invoke(context)

    return guarded(work)


def _leave(number: int, frame: FrameType | None) -> None:
    os._exit(INTERRUPTED)
