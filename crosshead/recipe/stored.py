"""Recipes in files: of runs, of bundles and of the package, and what may change in them."""

import importlib.resources
import os
from collections.abc import Mapping, Sequence
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from crosshead.caller import option
from crosshead.config import nearest
from crosshead.errors import ConfigError
from crosshead.recipe.compose import Below, compose, task_for
from crosshead.recipe.presets import Sections
from crosshead.recipe.recipe import Recipe
from crosshead.recipe.toml import read_toml, to_toml
from crosshead.system.files import StrPath
from crosshead.tasks.registry import sections_of
from crosshead.text.parallel.corpora import named_languages
from crosshead.text.parallel.section import DataConfig

RELATIVE_TO, HERE = "relative_to", "this file"
"""The first line of a stored recipe: its file names are relative to its own directory."""


def run_recipe(
    preset: str | None,
    recipe: StrPath | None,
    flags: Sections,
    assignments: Sequence[str] = (),
    below: Below | None = None,
    typed: Mapping[str, str] | None = None,
) -> Recipe:
    """Return the recipe of a run; `recipe` is a TOML file or the name of a shipped recipe."""
    where = "" if recipe is None else os.fspath(recipe)
    tables = read_recipe(where) if where else None
    composed: Recipe = compose(
        preset, tables, flags, assignments, where=where, below=below, typed=typed
    )
    return composed


def bundle_settings(start: StrPath) -> Below:
    """Return the settings of a bundle, with which fine-tuning begins."""
    return Below(sections_of(Path(start)), f"the bundle {start}")


def recipe_in(tables: dict[str, Any], folder: Path, where: str) -> Recipe:
    """Return the recipe of the tables that a run stored in its `folder`, as the file `where`."""
    return absolute(compose(recipe=_with_resolved_paths(tables, folder, where), where=where))


def stored_form(recipe: Recipe, out: Path) -> str:
    """Return the recipe in TOML, in the form that the run directory `out` stores.

    File names are relative to `out`, so that the directory and the files may move together, and no
    absolute path is stored. The first line of the recipe says that the names are relative.
    """
    names = [_relative(name, out) for name in recipe.data.files()]
    return f'{RELATIVE_TO} = "{HERE}"\n\n{to_toml(with_data_files(recipe, names))}'


def absolute(recipe: Recipe) -> Recipe:
    """Return the recipe with absolute file names, which are valid in every working directory."""
    return with_data_files(recipe, [os.path.abspath(name) for name in recipe.data.files()])


def with_data_files(recipe: Recipe, names: Sequence[str]) -> Recipe:
    """Return the recipe with new names for its data files, in the same order."""
    return recipe.model_copy(update={"data": recipe.data.renamed(names)})


def check_resumed(began: Recipe, now: Recipe, out: Path) -> Recipe:
    """Return the recipe `now`, completed with the values that the run has chosen itself."""
    for section, keys in type(now).left_open.items():
        before, after = getattr(began, section), getattr(now, section)
        chosen = {key: getattr(before, key) for key in keys if getattr(after, key) == keys[key]}
        now = now.model_copy(update={section: after.model_copy(update=chosen)})
    changes(began, now, out)
    return now


def changes(began: Recipe, now: Recipe, out: Path) -> list[str]:
    """Return a line for each changed key; raise `ConfigError` for one that has to stay."""
    lines = []
    for section in type(now).model_fields:
        one, other = getattr(began, section), getattr(now, section)
        for key in type(other).model_fields:
            left, right = getattr(one, key, None), getattr(other, key)
            if left == right:
                continue
            line = f"is {_shown(right)}, but the run in {out} began with {_shown(left)}"
            is_other_number = isinstance(left, list) and len(left) != len(right)
            if is_other_number or not type(now).may_change(section, key):
                raise ConfigError(
                    f"{line}; resume it with that, or begin another with a new {option('out')}, "
                    f"from its weights with {option('from', str(out))}",
                    key=f"{section}.{key}",
                )
            lines.append(f"{section}.{key} {line}")
    return lines


def _shown(value: Any) -> str:
    """Return a value for a message; absolute names of files lose the working directory."""
    if not isinstance(value, list):
        return repr(value)
    here = os.path.join(os.getcwd(), "")
    return ", ".join(str(each).removeprefix(here) for each in value) or "[]"


def _relative(name: str, out: Path) -> str:
    """Return the name of a file relative to `out`."""
    return os.path.relpath(os.path.abspath(name), os.path.realpath(out))


def _with_resolved_paths(tables: dict[str, Any], folder: Path, where: str) -> dict[str, Any]:
    """Return the tables of a recipe with file names relative to the working directory.

    The names change only if the recipe says that they are relative to its own `folder`.
    """
    base = tables.pop(RELATIVE_TO, None)
    data = tables.get("data")
    if base is None or not isinstance(data, dict):
        return tables
    if base != HERE:
        raise ConfigError(f"{where}: {RELATIVE_TO}: expected {HERE!r}, found {base!r}")

    def named(value: Any) -> Any:
        if isinstance(value, list):
            return [named(each) for each in value]
        if not isinstance(value, str):
            return value  # the check of the recipe refuses it later
        return _relative(os.path.join(os.path.realpath(folder), value), Path.cwd())

    files = task_for(tables).recipe.data_class().file_keys
    changed = {key: named(value) for key, value in data.items() if key in files}
    return {**tables, "data": {**data, **changed}}


def check_fine_tuned(bundle: Sections, recipe: Recipe, start: Path) -> None:
    """Check that a recipe for fine-tuning keeps model, tokenizer and direction of the bundle."""
    for section in recipe.fixed_by_bundle:
        for key, value in bundle[section].items():
            found = getattr(getattr(recipe, section), key)
            if found != value and key not in recipe.of_training:
                kept = " and ".join(reversed(recipe.fixed_by_bundle))
                raise ConfigError(
                    f"{section}.{key} is {found!r}, but the bundle {start} has {value!r}; "
                    f"fine-tuning keeps {kept}: leave {section}.{key} out"
                )
    languages = bundle.get("data", {})
    reads, writes = languages.get("source_language"), languages.get("target_language")
    data = recipe.data
    if reads and writes and reads != writes and isinstance(data, DataConfig):
        named = (data.source_language, data.target_language), named_languages(data)
        if data.directions == "one" and (writes, reads) in named:
            raise ConfigError(
                f"the data are named as text from {writes} to {reads}, but the bundle {start} "
                f"translates from {reads} to {writes}; exchange source and target, or give "
                f"{option('from')} a bundle of the other direction"
            )


def read_recipe(name: str) -> dict[str, Any]:
    """Return the tables of a recipe; `name` is a TOML file or a shipped recipe."""
    if name.endswith(".toml"):
        path = Path(name)
        return _with_resolved_paths(read_toml(path), path.parent, name)
    names = shipped_recipes()
    if name not in names:
        advice = nearest(name, names) if names else "give the path of a .toml file"
        if Path(name).is_file():
            advice = f"if it is a file of data, give it with {option('pairs')}"
        raise ConfigError(f"there is no recipe {name!r}; {advice}")
    with importlib.resources.as_file(_shipped() / f"{name}.toml") as path:
        return read_toml(path)


def shipped_recipes() -> list[str]:
    """Return the names of the recipes that ship with crosshead."""
    folder = _shipped()
    return sorted(
        entry.name.removesuffix(".toml")
        for entry in (folder.iterdir() if folder.is_dir() else ())
        if entry.name.endswith(".toml")
    )


def _shipped() -> Traversable:
    return importlib.resources.files("crosshead.recipe") / "shipped"
