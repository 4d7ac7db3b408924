"""Recipes of any task, put together from their settings."""

from collections.abc import Mapping, Sequence
from typing import Any

from crosshead.config import validate
from crosshead.errors import ConfigError
from crosshead.models.registry import CONFIGS
from crosshead.recipe import precedence
from crosshead.recipe.precedence import KnownKeys
from crosshead.recipe.presets import Sections
from crosshead.recipe.recipe import Recipe
from crosshead.tasks.base import Task
from crosshead.tasks.registry import TASKS


def compose(
    preset: str | None = None,
    recipe: Mapping[str, Any] | None = None,
    flags: Mapping[str, Mapping[str, Any]] | None = None,
    assignments: Sequence[str] = (),
    *,
    where: str = "",
    below: Sections | None = None,
    typed: Mapping[str, str] | None = None,
) -> Any:
    """Put a recipe together: preset < `recipe` (the tables of a file) < `flags` < `assignments`.

    `assignments` are `section.key=value`, or `key=value` where one section has that key; a value is
    TOML, or else text. Without a preset `tiny` is completed. The sections `below` stand in the
    place of the preset's. A budget that is stated replaces the budgets of the preset, but for the
    `max_updates` where its `cosine` ends. `where` (the recipe's file) begins the messages about it.
    `typed` has the flags that were typed, by key (`--seed` for `train.seed`): messages about other
    mistakes than the file's name them so. Raises `ConfigError` for whatever cannot be.
    """
    sections = stated(recipe, flags, assignments, where=where)
    try:
        return _recipe(preset or "tiny", below or {}, sections, typed)
    except ConfigError:
        # Says which file, where the mistake is in it.
        _recipe(preset or "tiny", below or {}, stated(recipe, where=where), None, where)
        raise


def stated(
    recipe: Mapping[str, Any] | None = None,
    flags: Mapping[str, Mapping[str, Any]] | None = None,
    assignments: Sequence[str] = (),
    *,
    where: str = "",
) -> Sections:
    """Return the stated settings: `recipe`, then `flags`, then `assignments`; later ones win.

    The arguments are those of `compose`, which adds the defaults.
    """
    return precedence.stated(known_keys(), recipe, flags, assignments, where=where)


def known_keys() -> KnownKeys:
    """Return the keys that recipes may have, over all tasks and architectures."""
    sections: dict[str, dict[str, None]] = {}
    for task in TASKS.values():
        for name, field in task.recipe.model_fields.items():
            keys = getattr(field.annotation, "model_fields", {}) if name != "model" else {}
            sections.setdefault(name, {}).update(dict.fromkeys(keys))
    models = CONFIGS.values()
    sections["model"] = dict.fromkeys(key for each in models for key in each.model_fields)
    # No architecture has some of them: the model says why.
    refused = frozenset(key for each in models for key in each.cannot)
    return KnownKeys({name: list(keys) for name, keys in sections.items()}, refused)


def file_keys() -> set[str]:
    """Return the keys of `[data]` that name files, over all tasks."""
    return {key for task in TASKS.values() for key in task.recipe.data_class().file_keys}


def _recipe(
    preset: str,
    below: Sections,
    sections: Sections,
    typed: Mapping[str, str] | None,
    where: str = "",
) -> Recipe:
    """Complete the settings and check them."""
    claimed = [task for task in TASKS.values() if task.claims(sections["data"])]
    default = (claimed or [TASKS["translation"]])[0].architecture
    completed = precedence.completed(preset, below, sections, typed, default)
    task = TASKS[CONFIGS[completed["model"]["architecture"]].task]
    # A section of another task is no mistake where it is empty.
    fields = task.recipe.model_fields
    values = {name: table for name, table in completed.items() if table or name in fields}
    found = validate(task.recipe, values, where, typed)
    return _with_metric(found, task, where, typed or {})


def _with_metric(recipe: Recipe, task: Task, where: str, typed: Mapping[str, str]) -> Recipe:
    """Fill in the metric that chooses checkpoints, or refuse one that the task does not have."""
    names = [metric.name for metric in task.metrics]
    metric = recipe.train.metric or task.chooses
    if metric not in names:
        prefix = f"{where}: " if where else ""
        key = typed.get("train.metric", "train.metric")
        known = " or ".join(map(repr, names))
        raise ConfigError(f"{prefix}{key}: expected {known}, found {metric!r}")
    train = recipe.train.model_copy(update={"metric": metric})
    return recipe.model_copy(update={"train": train})
