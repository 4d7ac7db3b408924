"""The verbs that tell what there is: `info`, `presets`, `data get`."""

from pathlib import Path
from typing import Annotated

import typer

from crosshead.cli.app import app, data_app
from crosshead.cli.options import BundleArgument
from crosshead.terminal import put, table


@app.command(epilog="\b\nExample:\n  crosshead info runs/en-de")
def info(bundle: BundleArgument) -> None:
    """Say what a bundle is: its model, its tokenizer, its scores."""
    from crosshead import reports
    from crosshead.bundle import load_bundle

    put(table(reports.bundle_facts(bundle, load_bundle(bundle))))


@data_app.command("get", epilog="\b\nExample:\n  crosshead data get multi30k")
def data_get(
    name: Annotated[str, typer.Argument(help="multi30k, tinyshakespeare, ett or dates.")],
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where to; data/NAME by default.")
    ] = None,
) -> None:
    """Get a data set: from its public source, with its SHA-256 checked; dates are made here."""
    from crosshead.data.download import download

    download(name, out or Path("data") / name, lambda line: put(f"{line}\n"))


@app.command(epilog="\b\nExample:\n  crosshead presets")
def presets() -> None:
    """List the presets: shapes, parameters, and sizes on disk."""
    from crosshead import reports

    put(reports.preset_table())
