"""The verbs `info`, `pack`, `presets`, `recipe`, `average` and `data get`."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from crosshead.cli.app import app, data_app
from crosshead.cli.options import BundleArgument, bundle_place
from crosshead.cli.terminal import put, table
from crosshead.errors import ConfigError


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


@app.command(
    epilog="\b\nExamples:\n"
    "  crosshead recipe --explain\n"
    "  crosshead recipe --explain learning_rate\n"
    "  crosshead recipe --preset small > my.toml"
)
def recipe(
    key: Annotated[
        str | None,
        typer.Argument(
            metavar="KEY",
            help="Key to explain, such as learning_rate, or a section: data, model, train.",
        ),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Explain KEY, or every key of a recipe.")
    ] = False,
    preset: Annotated[
        str | None,
        typer.Option(
            metavar="P",
            help="Print the whole recipe of this preset, with comments. The preset auto has none, "
            "because it chooses its values from the data.",
        ),
    ] = None,
    model: Annotated[
        str,
        typer.Option(
            metavar="A",
            show_default=False,
            help="Architecture of the preset (default: transformer): see `crosshead presets`.",
        ),
    ] = "transformer",
) -> None:
    """Explain the keys of a recipe, or print a whole recipe to start from.

    Each key is shown with its default, its type and bounds, its values in the presets if they
    differ, and its meaning. `crosshead train` uses the preset auto, which chooses values for your
    data; with a recipe file it uses tiny.
    """
    from crosshead.config import nearest_key
    from crosshead.recipe import reference

    if preset is not None:
        if explain or key is not None:
            raise ConfigError("--preset prints a whole recipe; leave out --explain and KEY")
        put(reference.commented_recipe(preset, model))
        return
    if not explain and key is None:
        raise ConfigError("give --explain for the keys of a recipe, or --preset for a whole one")
    try:
        put(reference.reference(key))
    except KeyError:
        section, _, name = str(key).rpartition(".")
        known = {f"{each.section}.{each.name}": each for each in reference.all_keys()}
        names = {each.name for each in known.values() if section in ("", each.section)}
        hint = nearest_key(name, sorted(names), list(known), section if names else "")
        raise ConfigError(f"unknown key {key!r}; {hint}") from None


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
    bundle: BundleArgument,
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
    from crosshead.bundle.files import pack

    put(f"{pack(bundle, out)}\n")


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
