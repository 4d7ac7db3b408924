"""The recipe of a new, resumed or fine-tuned run, and checks of changes that are not allowed."""

import importlib.resources
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from crosshead.bundle.places import CHECKPOINTS, RECIPE
from crosshead.caller import option
from crosshead.config import nearest
from crosshead.errors import ConfigError, UserError
from crosshead.recipe.presets import Sections
from crosshead.recipe.recipe import Recipe
from crosshead.recipe.toml import read_toml, to_toml
from crosshead.system.files import StrPath
from crosshead.tasks.recipes import compose, file_keys, stated
from crosshead.tasks.registry import sections_of
from crosshead.text.parallel.corpora import named_languages
from crosshead.text.parallel.section import DataConfig
from crosshead.training.checkpoint import newest_state
from crosshead.training.directory import is_resumable, nothing_to_resume
from crosshead.training.progress import Progress

RELATIVE_TO, HERE = "relative_to", "this file"
"""The first line of a stored recipe: its file names are relative to its own directory."""


def without_unset(flags: Mapping[str, Mapping[str, Any]]) -> Sections:
    """Return the sections without the values that are None."""
    return {
        section: {key: value for key, value in values.items() if value is not None}
        for section, values in flags.items()
    }


def typed_flags(given: Sections, assignments: Sequence[str]) -> dict[str, str]:
    """Return the typed flags by recipe key, without the flags that `--set` overrides."""
    overridden = {text.partition("=")[0].strip() for text in assignments}
    return {
        f"{section}.{key}": "--model" if section == "model" else f"--{key.replace('_', '-')}"
        for section, values in given.items()
        for key in values
        if not overridden & {key, f"{section}.{key}"}
    }


def new_recipe(
    preset: str | None,
    recipe: StrPath | None,
    flags: Sections,
    assignments: Sequence[str],
    start: StrPath | None = None,
    typed: Mapping[str, str] | None = None,
) -> Recipe:
    """Return the recipe of a new run.

    In fine-tuning, the model, the tokenizer, the search settings and the context length of the
    bundle `start` replace the preset's.
    """
    if start is None:
        return _composed(preset, recipe, flags, assignments, typed)
    below = sections_of(Path(start))
    whose = (
        f"but the bundle {start} has {{kept!r}}; fine-tuning keeps the model: leave the "
        f"architecture out ({option('model')}), or train a new model without {option('from')}"
    )
    return _composed(preset, recipe, flags, assignments, typed, below, whose)


def resumed_recipe(
    out: StrPath,
    recipe: StrPath | None,
    flags: Sections,
    assignments: Sequence[str],
    typed: Mapping[str, str] | None = None,
) -> Recipe:
    """Return the recipe that the run in `out` began with, overridden by the values given now.

    `check_resumed` checks afterwards which keys may change.
    """
    below = stored_recipe(out).model_dump()
    whose = (
        f"but the run in {out} began with {{kept!r}}; resume it with that, or begin another with a "
        f"new {option('out')}"
    )
    return _composed(None, recipe, flags, assignments, typed, below, whose)


def _composed(
    preset: str | None,
    recipe: StrPath | None,
    flags: Sections,
    assignments: Sequence[str],
    typed: Mapping[str, str] | None,
    below: Sections | None = None,
    whose: str = "",
) -> Recipe:
    """Return a recipe composed of all its settings.

    It must not state another architecture than the model in `below`, which `whose` names. Otherwise
    every key of the old architecture would be reported as an error.
    """
    where = "" if recipe is None else os.fspath(recipe)
    tables = read_recipe(where) if where else None
    if below is not None:
        model = stated(tables, flags, assignments, where=where, below=below)["model"]
        kept = below["model"]["architecture"]
        found = model.get("architecture", kept)
        if found != kept:
            key = (typed or {}).get("model.architecture", "model.architecture")
            raise ConfigError(f"{key} is {found!r}, {whose.format(kept=kept)}")
    composed: Recipe = compose(
        preset, tables, flags, assignments, where=where, below=below, typed=typed
    )
    return composed


def stored_recipe(out: StrPath) -> Recipe:
    """Return the recipe of the run in `out`; raise `UserError` if there is none.

    If the file of the recipe is lost, the recipe of the newest checkpoint replaces it.
    """
    out = Path(out)
    path = out / RECIPE
    if path.is_file():
        return absolute(compose(recipe=read_recipe(str(path)), where=str(path)))
    newest = newest_state(out / CHECKPOINTS) if is_resumable(out) else None
    if newest is None:
        raise UserError(nothing_to_resume(out))
    return _recipe_of(newest, out)


def _recipe_of(saved: tuple[Path, Progress], out: Path) -> Recipe:
    """Return the recipe that a checkpoint of the run in `out` holds."""
    state, progress = saved
    tables = _with_resolved_paths(tomllib.loads(progress.recipe), out, str(state))
    return absolute(compose(recipe=tables, where=str(state)))


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


def saved_recipe(out: Path) -> tuple[Recipe, list[str]]:
    """Return the recipe of the newest checkpoint in `out`, and lines about later edits.

    The function compares the recipe file in `out` with the checkpoint's recipe key by key. Each
    changed key that a resumed run may change gets a line.
    """
    stored, path = stored_recipe(out), out / RECIPE
    newest = newest_state(out / CHECKPOINTS)
    if newest is None:  # loading the checkpoints later reports the damage
        return stored, []
    if not path.is_file():
        return stored, [f"{path}: is missing; it is written again from {newest[0]}"]
    saved = _recipe_of(newest, out)
    lines = []
    for key, left, right, may_change in _differences(saved, stored):
        if not may_change:
            raise ConfigError(
                f"{path}: {key} is {_shown(right)}, but the run was saved with {_shown(left)}; "
                f"write that again, or begin another run with a new {option('out')}"
            )
        lines.append(
            f"{path}: {key} is {_shown(right)}, where the run was saved with {_shown(left)}"
        )
    return saved, lines


def check_resumed(began: Recipe, now: Recipe, out: Path) -> Recipe:
    """Return the recipe `now`, completed with the values that the run has chosen itself."""
    for section, keys in type(now).left_open.items():
        before, after = getattr(began, section), getattr(now, section)
        chosen = {key: getattr(before, key) for key in keys if getattr(after, key) == keys[key]}
        now = now.model_copy(update={section: after.model_copy(update=chosen)})
    for key, left, right, may_change in _differences(began, now):
        if not may_change:
            advice = f"resume it with that, or begin another with a new {option('out')}"
            if key.partition(".")[2] in now.data.file_keys:  # the number of files differs
                advice = (
                    "a run continues with the data it began with; to train its bundle on other "
                    f"data, begin a run with {option('from', str(out))} and a new {option('out')}"
                )
            raise ConfigError(
                f"is {_shown(right)}, but the run in {out} began with {_shown(left)}; {advice}",
                key=key,
            )
    return now


def _differences(before: Recipe, after: Recipe) -> Iterator[tuple[str, Any, Any, bool]]:
    """Yield each key that differs, its two values, and True if a resumed run may change it."""
    for section in type(after).model_fields:
        one, other = getattr(before, section), getattr(after, section)
        for key in type(other).model_fields:
            left, right = getattr(one, key, None), getattr(other, key)
            if left != right:
                may_change = type(after).may_change(section, key)
                if isinstance(left, list):  # files may move, but not their number
                    may_change = may_change and len(left) == len(right)
                yield f"{section}.{key}", left, right, may_change


def _shown(value: Any) -> str:
    """Return a value for a message; absolute names of files lose the working directory."""
    if not isinstance(value, list):
        return repr(value)
    here = os.path.join(os.getcwd(), "")
    return ", ".join(str(each).removeprefix(here) for each in value) or "[]"


def _relative(name: str, out: Path) -> str:
    """Return the name of a file relative to `out`."""
    try:
        return os.path.relpath(os.path.abspath(name), os.path.realpath(out))
    except ValueError:  # another drive on Windows
        return os.path.abspath(name)


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

    files = file_keys(tables)
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
