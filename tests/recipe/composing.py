"""Recipes of runs, as the command line and `crosshead.train` compose them."""

from collections.abc import Mapping, Sequence

from crosshead.recipe.presets import Sections
from crosshead.recipe.recipe import Recipe
from crosshead.recipe.stored import bundle_settings, run_recipe
from crosshead.system.files import StrPath
from crosshead.training.directory import run_settings


def new_recipe(
    preset: str | None,
    recipe: StrPath | None,
    flags: Sections,
    assignments: Sequence[str],
    start: StrPath | None = None,
    typed: Mapping[str, str] | None = None,
) -> Recipe:
    """The recipe of a new run."""
    below = bundle_settings(start) if start else None
    return run_recipe(preset, recipe, flags, assignments, below, typed)


def resumed_recipe(
    out: StrPath,
    recipe: StrPath | None,
    flags: Sections,
    assignments: Sequence[str],
    typed: Mapping[str, str] | None = None,
) -> Recipe:
    """The recipe of a resumed run."""
    return run_recipe(None, recipe, flags, assignments, run_settings(out), typed)
