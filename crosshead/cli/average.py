"""The verb `average`."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from crosshead.cli.app import app
from crosshead.cli.options import bundle_place
from crosshead.cli.terminal import put


@app.command(epilog="\b\nExample:\n  crosshead average runs/a runs/b runs/c --out runs/mean")
def average(
    bundles: Annotated[
        list[Path],
        typer.Argument(
            metavar="BUNDLE",
            parser=bundle_place,
            help="Two or more bundles of the same model and tokenizer.",
        ),
    ],
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="New directory for the averaged bundle.")
    ],
) -> None:
    """Average the weights of several bundles into one new bundle."""
    from crosshead.training.average import average_bundles

    average_bundles(bundles, out, command=shlex.join(["crosshead", *sys.argv[1:]]))
    put(f"{out}: the mean of {len(bundles)} bundles\n")
