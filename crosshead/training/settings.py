"""The recipe of a run, from what the command line gives: a file or a name, flags, assignments."""

import importlib.resources
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from crosshead.config import nearest, read_toml
from crosshead.errors import ConfigError, UserError
from crosshead.training.recipe import Recipe, compose
from crosshead.training.run import RECIPE

Sections = dict[str, dict[str, Any]]


def without_unset(flags: Mapping[str, Mapping[str, Any]]) -> Sections:
    """The sections with the values that were given, without those that are None."""
    return {
        section: {key: value for key, value in values.items() if value is not None}
        for section, values in flags.items()
    }


def new_recipe(
    preset: str | None, recipe: str | None, flags: Sections, assignments: Sequence[str]
) -> Recipe:
    """The recipe of a new run; `recipe` is a TOML file or a name. Raises `ConfigError`."""
    if recipe is None:
        return compose(preset, None, flags, assignments)
    return compose(preset, read_recipe(recipe), flags, assignments, where=recipe)


def resumed_recipe(
    out: Path, recipe: str | None, flags: Sections, assignments: Sequence[str]
) -> Recipe:
    """The recipe that the run in `out` began with, with new budgets perhaps.

    Raises `UserError` where there is none, and `ConfigError` where `recipe`, if given, does not
    agree with it.
    """
    path = out / RECIPE
    if not path.is_file():
        raise UserError(f"{out}: there is no run to resume: it holds no {RECIPE}")
    stored = read_toml(path)
    if recipe is not None:
        _check_agrees(recipe, read_recipe(recipe), path, stored)
    return compose(None, stored, flags, assignments, where=str(path))


def read_recipe(name: str) -> dict[str, Any]:
    """The tables of a recipe: of the TOML file, or of the shipped recipe, of that name."""
    if name.endswith(".toml"):
        return read_toml(Path(name))
    shipped = importlib.resources.files("crosshead") / "recipes"
    names = sorted(
        entry.name.removesuffix(".toml")
        for entry in (shipped.iterdir() if shipped.is_dir() else ())
        if entry.name.endswith(".toml")
    )
    if name not in names:
        advice = nearest(name, names) if names else "give the path of a .toml file"
        raise ConfigError(f"there is no recipe {name!r}; {advice}")
    with importlib.resources.as_file(shipped / f"{name}.toml") as path:
        return read_toml(path)


def _check_agrees(
    recipe: str, given: Mapping[str, Any], path: Path, stored: Mapping[str, Any]
) -> None:
    for section, values in given.items():
        if not isinstance(values, Mapping):
            raise ConfigError(f"{recipe}: {section} is a section: write [{section}]")
        for key, value in values.items():
            before = stored.get(section, {}).get(key)
            alike = before == value or before == [value]
            if not alike:
                raise ConfigError(
                    f"{recipe}: {section}.{key} is {value!r}, but the run in {path.parent} began "
                    f"with {before!r}; resume it without a recipe, or with a new --out"
                )
