"""The command line itself: it is run, and says its version."""

import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from crosshead import __version__
from crosshead.terminal import end_on, guarded, put

app = typer.Typer(add_completion=False, rich_markup_mode=None)
data_app = typer.Typer(rich_markup_mode=None)
app.add_typer(data_app, name="data", help="Get public data sets.")


def main() -> None:
    """Run the command line and end the process: the console script `crosshead`."""
    signal.signal(signal.SIGTERM, end_on)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # as under nohup
        signal.signal(signal.SIGHUP, end_on)
    code = run(sys.argv[1:])
    if code and "WORLD_SIZE" in os.environ:
        # One of several processes, under torchrun: what PyTorch keeps of a group that has lost one
        # may abort while it is taken down, and hide the code.
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        os._exit(code)
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run the command line on these arguments, or help; returns the exit code."""
    command = typer.main.get_command(app)

    def work() -> None:
        with command.make_context("crosshead", list(arguments) or ["--help"]) as context:
            command.invoke(context)

    return guarded(work)


def _version(asked: bool) -> None:
    if asked:
        put(f"crosshead {__version__}\n")
        raise typer.Exit


@app.callback(
    epilog="\b\nExit codes: 0 done; 2 a mistake in what was given (one line says which);\n"
    "129 SIGHUP; 130 Ctrl-C; 141 the reader of a pipe left; 143 SIGTERM."
)
def crosshead(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which.")
    ] = False,
) -> None:
    """Train Transformers on raw text, translate with them, and measure them."""
