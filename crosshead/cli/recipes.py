"""The verb `recipe`: the configuration reference, and whole recipes to start from."""

from typing import Annotated

import typer

from crosshead.cli.app import app
from crosshead.cli.terminal import put
from crosshead.errors import ConfigError


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
