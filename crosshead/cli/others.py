"""The verbs that tell what there is, or hand it on: `info`, `pack`, `presets`, `data get`."""

from pathlib import Path
from typing import Annotated

import typer

from crosshead.cli.app import app, data_app
from crosshead.cli.options import BundleArgument
from crosshead.terminal import put, table


@app.command(
    epilog="\b\nExamples:\n  crosshead info runs/en-de\n  crosshead info --verify runs/en-de"
)
def info(
    bundle: BundleArgument,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            help="Compare every file with its checksum in config.json, and list the files; exit "
            "code 2 if one differs.",
        ),
    ] = False,
) -> None:
    """Show a bundle's model, tokenizer, scores and files; of a run also what may be shared."""
    from crosshead import reports
    from crosshead.bundle import outline_bundle

    if verify:
        reports.verify(bundle)
    else:
        put(table(reports.bundle_facts(bundle, outline_bundle(bundle))))


@app.command(
    epilog="\b\nExample:\n  crosshead pack runs/en-de\n"
    "  crosshead translate en-de.crosshead.zip input.txt"
)
def pack(
    bundle: Annotated[
        Path, typer.Argument(metavar="BUNDLE", help="The directory of a bundle or of a run.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File to write (default: the directory's name and .crosshead.zip, here).",
        ),
    ] = None,
) -> None:
    """Write a bundle as one file to share: model, tokenizer and card, and nothing else of a run.

    Every command takes the file in the place of the directory. It is an uncompressed zip archive.
    """
    from crosshead import packing

    put(f"{packing.pack(bundle, out)}\n")


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
