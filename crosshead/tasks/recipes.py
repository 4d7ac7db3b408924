"""Compose recipes of any task from their settings."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from crosshead.config import validate
from crosshead.errors import ConfigError
from crosshead.models.registry import CONFIGS
from crosshead.models.transformer import TransformerConfig
from crosshead.recipe import precedence
from crosshead.recipe.precedence import KnownKeys
from crosshead.recipe.presets import AUTO, DEFAULT, PRESETS, Sections, paper_peak
from crosshead.recipe.recipe import Recipe
from crosshead.tasks.base import Task, WriteLines
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
    """Compose a recipe: preset < `recipe` (the tables of a file) < `flags` < `assignments`.

    A budget among the stated settings replaces the budgets of the preset.
    """
    sections = stated(recipe, flags, assignments, where=where, below=below)
    try:
        return _recipe(preset or DEFAULT, below or {}, sections, typed)
    except ConfigError:
        # If the mistake is in the file, this raises an error that names the file.
        _recipe(preset or DEFAULT, below or {}, stated(recipe, where=where), None, where)
        raise


def stated(
    recipe: Mapping[str, Any] | None = None,
    flags: Mapping[str, Mapping[str, Any]] | None = None,
    assignments: Sequence[str] = (),
    *,
    where: str = "",
    below: Sections | None = None,
) -> Sections:
    """Return the stated settings: `recipe`, then `flags`, then `assignments`. Later ones win.

    `compose` has the same arguments, and adds the defaults.
    """

    def of_task(sections: Sections) -> KnownKeys:
        default = (below or {}).get("model", {}).get("architecture")
        name = sections["model"].get("architecture", default)
        if not isinstance(name, str) or name not in CONFIGS:
            name = _default_architecture(sections["data"])
        return known_keys([CONFIGS[name].task])

    return precedence.stated(
        known_keys(), recipe, flags, assignments, where=where, narrowed=of_task
    )


def known_keys(tasks: Collection[str] = TASKS.keys()) -> KnownKeys:
    """Return the keys that recipes of these tasks (default: all) and their models may have."""
    sections: dict[str, dict[str, None]] = {}
    for task in map(TASKS.__getitem__, tasks):
        for name, field in task.recipe.model_fields.items():
            keys = getattr(field.annotation, "model_fields", {}) if name != "model" else {}
            sections.setdefault(name, {}).update(dict.fromkeys(keys))
    models = [config for config in CONFIGS.values() if config.task in tasks]
    sections["model"] = dict.fromkeys(key for each in models for key in each.model_fields)
    # No architecture has these keys, but the model explains why.
    refused = frozenset(key for each in models for key in each.cannot)
    return KnownKeys({name: list(keys) for name, keys in sections.items()}, refused)


def file_keys(tables: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the keys of `[data]` that name files, in the task of a recipe's tables."""
    model, data = tables.get("model"), tables.get("data")
    name = model.get("architecture") if isinstance(model, dict) else model
    if not isinstance(name, str) or name not in CONFIGS:
        name = _default_architecture(data if isinstance(data, dict) else {})
    return TASKS[CONFIGS[name].task].recipe.data_class().file_keys


def file_arguments() -> set[str]:
    """Return the keys of `[data]` that name files, of all tasks."""
    return {key for task in TASKS.values() for key in task.recipe.data_class().file_keys}


def stored(given: Mapping[str, Any], write: WriteLines) -> dict[str, Any]:
    """Return the keys of `[data]` for given data, by the task that recognizes them."""
    for task in TASKS.values():
        if task.recognizes(dict.fromkeys(given, True)):
            return task.stored(given, write)
    return dict(given)


def _recipe(
    preset: str,
    below: Sections,
    sections: Sections,
    typed: Mapping[str, str] | None,
    where: str = "",
) -> Recipe:
    """Complete the settings with defaults and validate them."""
    default = _default_architecture(sections["data"])
    is_auto, base = preset == AUTO, DEFAULT if preset == AUTO else preset
    if is_auto and below:
        below = _with_learning_rate(below)
    try:
        completed = precedence.completed(base, below, sections, typed, default)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}" if where else str(error)) from None
    architecture = completed["model"]["architecture"]
    chooses = is_auto and not below and CONFIGS[architecture] is TransformerConfig
    if chooses and "keep_last" in sections["train"]:
        # The run will choose not to average, so a small number of checkpoints is no mistake.
        completed["train"].setdefault("average", 0)
    task = TASKS[CONFIGS[architecture].task]
    _check_data_keys(task, sections, bool(below), where, typed or {})
    # An empty section of another task is no mistake.
    fields = task.recipe.model_fields
    values = {name: table for name, table in completed.items() if table or name in fields}
    found = validate(task.recipe, values, where, typed)
    found = _with_metric(found, task, where, typed or {})
    return found.opened(_unstated(found, sections)) if is_auto and not below else found


def _with_learning_rate(below: Sections) -> Sections:
    """Return a bundle's sections with the default training settings, at the rate of its width.

    The learning rate is that of the preset with the nearest width. That of the default preset would
    be too high for wide models.
    """
    presets = PRESETS[below["model"]["architecture"]]
    train, width = presets[DEFAULT]["train"], below["model"].get("d_model")
    widths = {
        size: preset["model"]["d_model"]
        for size, preset in presets.items()
        if "d_model" in preset["model"]
    }
    if width and widths:
        nearest = min(widths, key=lambda size: abs(math.log(widths[size] / width)))
        rate = presets[nearest]["train"].get("learning_rate") or paper_peak(widths[nearest])
        train = {**train, "learning_rate": rate}
    return {"train": train, **below}


def _check_data_keys(
    task: Task, sections: Sections, has_base: bool, where: str, typed: Mapping[str, str]
) -> None:
    """Refuse keys of `[data]` that belong to other tasks."""
    known = task.recipe.data_class().model_fields
    for key in sections["data"]:
        owner = _owner(key) if key not in known else None
        if owner is None:
            continue
        # The key that the fewest tasks have says most about the data.
        keys = [each for each in sections["data"] if each in known]
        own = min(keys, key=lambda each: len(_having(each)), default="")
        if "architecture" in sections["model"]:
            other = f"{typed.get('model.architecture', 'model.architecture')} "
            other += str(sections["model"]["architecture"])
        elif has_base:
            other = "the model to start from"
        else:
            other = typed.get(f"data.{own}", f"data.{own}") if own else "the model"
        prefix = f"{where}: " if where else ""
        raise ConfigError(
            f"{prefix}{typed.get(f'data.{key}', f'data.{key}')} is for a model that "
            f"{owner.pipeline.does}, and {other} for one that {task.pipeline.does}; leave out one "
            "of them"
        )


def _owner(key: str) -> Task | None:
    """Return the task that a key of `[data]` stands for: one that recognizes it, or the first."""
    having = _having(key)
    return next((each for each in having if each.recognizes({key: ["name"]})), [*having, None][0])


def _having(key: str) -> list[Task]:
    """Return the tasks that have a key of `[data]`."""
    return [each for each in TASKS.values() if key in each.recipe.data_class().model_fields]


def _unstated(recipe: Recipe, sections: Sections) -> Iterator[str]:
    """Yield the keys of a recipe that are not among the stated settings."""
    for section in type(recipe).model_fields:
        for key in type(getattr(recipe, section)).model_fields:
            if key not in sections[section]:
                yield f"{section}.{key}"


def _default_architecture(data: Mapping[str, Any]) -> str:
    """Return the architecture for a `[data]` with these keys if the recipe states none."""
    recognized = [task for task in TASKS.values() if task.recognizes(data)]
    return (recognized or [TASKS["translation"]])[0].architecture


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
