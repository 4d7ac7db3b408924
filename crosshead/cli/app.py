"""The application object of the command line; each verb registers itself with `app`."""

from typing import Annotated

import typer

from crosshead.cli.terminal import put
from crosshead.version import __version__

app = typer.Typer(add_completion=False, rich_markup_mode=None)
data_app = typer.Typer(rich_markup_mode=None)
app.add_typer(
    data_app,
    name="data",
    help="Check parallel text, download public data sets, or make synthetic ones.",
)


def _version(asked: bool) -> None:
    if asked:
        put(f"crosshead {__version__}\n")
        raise typer.Exit


@app.callback(
    epilog="\b\nExit codes: 0 success; 2 wrong input or settings (one line says what is wrong);\n"
    "129 SIGHUP; 130 Ctrl-C; 138 SIGUSR1; 141 the reader of the output closed the pipe; "
    "143 SIGTERM; 152 SIGXCPU."
)
def crosshead(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Train Transformers on raw text, translate with them, and measure them."""
