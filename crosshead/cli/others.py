"""The verbs `info`, `pack`, `presets` and `data get`."""

from pathlib import Path
from typing import Annotated

import typer

from crosshead.cli.app import app, data_app
from crosshead.cli.options import BundleArgument, bundle_place
from crosshead.cli.terminal import note, put, table


@app.command(
    epilog="\b\nExamples:\n  crosshead info runs/en-de\n  crosshead info --verify runs/en-de\n"
    "  crosshead info hf://anna/en-de"
)
def info(
    bundle: BundleArgument,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            help="Compare every file with its checksum in config.json and list the files. The exit "
            "code is 2 if a file differs.",
        ),
    ] = False,
) -> None:
    """Show a bundle's model, tokenizer, scores and files.

    For a training run the command also lists which files may be shared and which may be
    deleted. While the run is under way, the command says how far it is.
    """
    from crosshead.bundle.places import CONFIG
    from crosshead.cli import reports
    from crosshead.errors import BundleError
    from crosshead.tasks.registry import outline_bundle

    under_way = reports.run_under_way(bundle)
    if under_way and not (bundle / CONFIG).exists():
        raise BundleError(
            f"{bundle}: a training run {under_way}; it has no bundle yet: wait for its end"
        )
    if verify:
        reports.verify(bundle)
    else:
        put(table(reports.bundle_facts(bundle, outline_bundle(bundle))))


@app.command(
    epilog="\b\nExamples:\n  crosshead pack runs/en-de\n"
    "  crosshead translate en-de.crosshead.zip input.txt\n"
    "  unzip en-de.crosshead.zip -d en-de"
)
def pack(
    bundle: Annotated[
        Path,
        typer.Argument(
            metavar="BUNDLE",
            parser=bundle_place,
            help="Directory of a bundle or of a run, or hf://ORG/NAME.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File to write (default: NAME.crosshead.zip in the current directory, with the "
            "bundle's NAME).",
        ),
    ] = None,
) -> None:
    """Write a bundle as one file to share.

    The file is an uncompressed zip archive with the model, the tokenizer and the model card. It
    holds nothing else of a run. Every command accepts it instead of the directory. To get the
    directory back, unzip the file.
    """
    from crosshead.bundle.files import card_was_changed, pack
    from crosshead.bundle.places import CARD

    packed = pack(bundle, out)
    if card_was_changed(bundle):
        note(
            f"{bundle / CARD} was changed since the bundle was written; the changed card is packed"
        )
    put(f"{packed}\n")


@data_app.command("get", epilog="\b\nExample:\n  crosshead data get multi30k")
def data_get(
    name: Annotated[
        str,
        typer.Argument(
            help="Data set: multi30k, tinyshakespeare, ett, dates, scenes or ambiguous."
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Directory to write (default: data/NAME).")
    ] = None,
) -> None:
    """Download a data set and check its SHA-256.

    The data sets dates, scenes and ambiguous are made on this machine and need no network.
    """
    from crosshead.text.download import download

    download(name, out or Path("data") / name, lambda line: put(f"{line}\n"))


@app.command(epilog="\b\nExample:\n  crosshead presets")
def presets() -> None:
    """List the presets with their layers, parameters and sizes on disk."""
    from crosshead.cli import reports

    put(reports.preset_table())
