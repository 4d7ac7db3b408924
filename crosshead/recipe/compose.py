"""Compose the recipe of a run: preset < recipe file < named flags < `--set`."""

import math
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from crosshead.config import nearest, nearest_key, validate
from crosshead.errors import ConfigError, printable
from crosshead.models.registry import CONFIGS
from crosshead.models.transformer import TransformerConfig
from crosshead.recipe.presets import (
    AUTO,
    DEFAULT,
    ENDLESS,
    PRESETS,
    STUDENT,
    TO_THE_END,
    Sections,
    paper_peak,
)
from crosshead.recipe.recipe import Recipe
from crosshead.recipe.train import LAST_PART
from crosshead.tasks.base import Task
from crosshead.tasks.registry import TASKS

_BUDGETS = ("max_updates", "max_epochs", "max_minutes")
_ARCHITECTURE = "model.architecture"


class Below(NamedTuple):
    """Settings of a bundle or of a run, which stand in place of a preset's."""

    sections: Sections
    owner: str = "the model to start from"
    """The noun for their bundle or run in messages."""


def compose(
    preset: str | None = None,
    recipe: Mapping[str, Any] | None = None,
    flags: Mapping[str, Mapping[str, Any]] | None = None,
    assignments: Sequence[str] = (),
    *,
    where: str = "",
    below: Below | None = None,
    typed: Mapping[str, str] | None = None,
) -> Any:
    """Compose a recipe: preset < `recipe` < `flags` < `assignments`.

    `recipe` has the tables of the file `where`. A budget among the stated settings replaces the
    budgets of the preset.
    """
    preset, below = preset or DEFAULT, below or Below({})
    try:
        sections = stated(recipe, flags, assignments, below.sections)
        return _completed(preset, sections, below, typed or {})
    except ConfigError:
        if where:  # if the mistake is in the file, the message names the file
            try:
                _completed(preset, stated(recipe, below=below.sections), below, {})
            except ConfigError as error:
                raise ConfigError(f"{where}: {error}") from None
        raise


def task_for(tables: Mapping[str, Any], below: Sections | None = None) -> Task:
    """Return the task of the architecture in the tables of a recipe, or else of their data."""
    name = _architecture(tables, below or {})
    is_known = isinstance(name, str) and name in CONFIGS
    return TASKS[CONFIGS[name].task] if is_known else _task_of_data(tables)


@dataclass(frozen=True)
class KnownKeys:
    """The keys that recipes may have."""

    sections: Mapping[str, Sequence[str]]
    """The keys of each section, of all tasks and architectures."""
    refused: frozenset[str]
    """Keys of `[model]` that no architecture has. The model's message explains why."""

    def qualified(self) -> list[str]:
        """Return every key with its section, such as `model.heads`."""
        return [f"{section}.{key}" for section, keys in self.sections.items() for key in keys]

    def having(self, key: str) -> list[str]:
        """Return the sections that have a key."""
        found = [section for section, keys in self.sections.items() if key in keys]
        return found or ["model"] * (key in self.refused)


def known_keys(tasks: Collection[str] = TASKS.keys()) -> KnownKeys:
    """Return the keys that recipes of these tasks (default: all) and their models may have."""
    sections: dict[str, dict[str, None]] = {}
    for task in map(TASKS.__getitem__, tasks):
        for name, field in task.recipe.model_fields.items():
            keys = getattr(field.annotation, "model_fields", {}) if name != "model" else {}
            sections.setdefault(name, {}).update(dict.fromkeys(keys))
    models = [config for config in CONFIGS.values() if config.task in tasks]
    sections["model"] = dict.fromkeys(key for each in models for key in each.model_fields)
    refused = frozenset(key for each in models for key in each.cannot)
    return KnownKeys({name: list(keys) for name, keys in sections.items()}, refused)


def stated(
    recipe: Mapping[str, Any] | None = None,
    flags: Mapping[str, Mapping[str, Any]] | None = None,
    assignments: Sequence[str] = (),
    below: Sections | None = None,
) -> Sections:
    """Return the stated settings: `recipe`, then `flags`, then `assignments`. Later ones win."""
    known = known_keys()
    sections: Sections = {name: {} for name in known.sections}
    for tables in (recipe or {}, flags or {}):
        _overlay(sections, tables, known)
    read = [_assignment(text, known) for text in assignments]
    # The settings without ambiguous keys come first, because the task follows from them.
    for having, key, value in read:
        if len(having) == 1:
            sections[having[0]][key] = value
    of_task = known_keys([task_for(sections, below).name])
    for text, (having, key, value) in zip(assignments, read, strict=True):
        own = [each for each in of_task.having(key) if each in having] or having
        if len(having) > 1 and len(own) > 1:
            full = " or ".join(f"{section}.{key}" for section in own)
            raise ConfigError(f"--set {printable(text)}: {key!r} is ambiguous; write {full}")
        sections[own[0] if len(having) > 1 else having[0]][key] = value
    return sections


def _overlay(sections: Sections, above: Mapping[str, Any], known: KnownKeys) -> None:
    """Replace keys of `sections` by those in the tables of `above`, in place."""
    for name, table in above.items():
        if name == "model" and isinstance(table, str):
            table = {"architecture": table}
        if name not in sections:
            hint = nearest_key(name, list(sections), known.qualified())
            raise ConfigError(f"unknown section {name!r}; {hint}")
        if not isinstance(table, Mapping):
            raise ConfigError(f"{name} is a section: write [{name}] and its keys below it")
        sections[name].update(table)


def _assignment(text: str, known: KnownKeys) -> tuple[list[str], str, Any]:
    """Return the sections, the key and the value of `section.key=value` or `key=value`."""
    name, equals, raw = text.partition("=")
    text = printable(text)
    if not equals:
        raise ConfigError(f"--set {text}: expected section.key=value")
    section, dot, key = name.strip().partition(".")
    if dot and section not in known.sections:
        hint = nearest(section, list(known.sections))
        raise ConfigError(f"--set {text}: unknown section {section!r}; {hint}")
    if dot:
        return [section], key, _value(raw.strip())
    having = known.having(section)
    if not having:
        everything = list(dict.fromkeys(key for keys in known.sections.values() for key in keys))
        hint = nearest_key(section, everything, known.qualified())
        raise ConfigError(f"--set {text}: unknown key {section!r}; {hint}")
    return having, section, _value(raw.strip())


def _value(raw: str) -> Any:
    """Return the TOML value of a text, or the text itself if it is not TOML."""
    try:
        table = tomllib.loads(f"value = {raw}")
    except ValueError:  # also for a number of thousands of digits
        return raw
    return table["value"] if len(table) == 1 else raw


def _architecture(tables: Mapping[str, Any], below: Sections) -> Any:
    """Return the architecture that the tables of a recipe state, or the one that they mean."""
    model = tables.get("model")
    name = model.get("architecture") if isinstance(model, Mapping) else model
    if name is None:
        name = below.get("model", {}).get("architecture")
    return _task_of_data(tables).architecture if name is None else name


def _task_of_data(tables: Mapping[str, Any]) -> Task:
    """Return the task that recognizes the section `[data]` of a recipe, or translation."""
    data = tables.get("data")
    given = data if isinstance(data, Mapping) else {}
    return next((x for x in TASKS.values() if x.recognizes(given)), TASKS["translation"])


def _completed(preset: str, sections: Sections, below: Below, typed: Mapping[str, str]) -> Recipe:
    """Complete the stated settings with defaults and validate them."""
    beneath, owner = below
    architecture, kept = _architecture(sections, beneath), _architecture(beneath, {})
    if beneath and kept != architecture:
        key = typed.get(_ARCHITECTURE, _ARCHITECTURE)
        raise ConfigError(f"{key} is {architecture!r}, but {owner} has {kept!r}; leave it out")
    opens = preset in (AUTO, STUDENT) and not beneath
    if preset == AUTO:
        preset, beneath = DEFAULT, _with_learning_rate(beneath) if beneath else beneath
    lowest = _preset(architecture, preset, typed) | beneath
    task = TASKS[CONFIGS[architecture].task]
    _check_data_keys(task, sections, owner if beneath else f"the model {architecture}", typed)
    values = {name: {**lowest.get(name, {}), **table} for name, table in sections.items()}
    values["train"] = _training(lowest, sections, "schedule" in beneath.get("train", {}))
    if opens and CONFIGS[architecture] is TransformerConfig and "keep_last" in sections["train"]:
        # The run will choose not to average, so a small number of checkpoints is no mistake.
        values["train"].setdefault("average", 0)
    # An empty section of another task is no mistake.
    fields = task.recipe.model_fields
    values = {name: table for name, table in values.items() if table or name in fields}
    recipe = _with_metric(validate(task.recipe, values, typed=typed), task, typed)
    fixed = {**values, "train": sections["train"]} if preset == STUDENT else sections
    return recipe.opened(_unstated(recipe, fixed)) if opens else recipe


def _preset(architecture: Any, name: str, typed: Mapping[str, str]) -> Sections:
    """Return the sections of a preset for an architecture."""
    if not isinstance(architecture, str) or architecture not in PRESETS:
        known = nearest(str(architecture), list(PRESETS))
        key = typed.get(_ARCHITECTURE, _ARCHITECTURE)
        raise ConfigError(f"{key}: unknown architecture {architecture!r}; {known}")
    presets = PRESETS[architecture]
    if name not in presets:
        every = {each for sizes in PRESETS.values() for each in sizes}
        suffix = f" of {architecture}" if name in every else ""
        raise ConfigError(f"unknown preset {name!r}{suffix}; {nearest(name, [AUTO, *presets])}")
    sections = presets[name]
    return {**sections, "model": {"architecture": architecture, **sections["model"]}}


def _training(lowest: Sections, sections: Sections, has_schedule: bool) -> dict[str, Any]:
    """Return `[train]`: the stated keys, and those of `lowest` that go with them.

    A schedule in `lowest` is a run's own if `has_schedule`, and otherwise that of a preset.
    """
    stated, train = sections["train"], dict(lowest["train"])
    is_paper = train.get("schedule") == "paper"
    if any(key in stated for key in _BUDGETS):
        # Stated budgets replace the preset's budgets.
        train = {key: value for key, value in train.items() if key not in _BUDGETS}
        has_own = has_schedule or "schedule" in stated
        if not has_own and train.get("schedule") in ENDLESS:
            train |= TO_THE_END
            if "warmup" in stated:
                # A stated warm-up has no limit.
                del train["warmup_share"]
            if stated.get("patience"):
                # Spent patience begins the last part of the run. Until then the rate stays.
                train["cooldown"] = LAST_PART
    if stated.get("schedule", train.get("schedule")) == "paper":
        # The learning rate of the preset belongs to another schedule.
        train.pop("learning_rate", None)
    elif is_paper:
        width = sections["model"].get("d_model", lowest["model"]["d_model"])
        if isinstance(width, int) and width > 0:  # else its own message follows
            train.setdefault("learning_rate", paper_peak(width))
    return {**train, **stated}


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


def _check_data_keys(task: Task, sections: Sections, model: str, typed: Mapping[str, str]) -> None:
    """Refuse keys of `[data]` that belong to other tasks than that of the `model`."""
    known = task.recipe.data_class().model_fields
    for key in sections["data"]:
        having = [x for x in TASKS.values() if key in x.recipe.data_class().model_fields]
        if key in known or not having:
            continue
        owner = next((each for each in having if each.recognizes({key: ["name"]})), having[0])
        raise ConfigError(
            f"{typed.get(f'data.{key}', f'data.{key}')} is for a model that "
            f"{owner.pipeline.does}, and {model} for one that {task.pipeline.does}; leave out one "
            "of them"
        )


def _unstated(recipe: Recipe, sections: Sections) -> Iterator[str]:
    """Yield the keys of a recipe that are not among these settings."""
    for section in type(recipe).model_fields:
        for key in type(getattr(recipe, section)).model_fields:
            if key not in sections[section]:
                yield f"{section}.{key}"


def _with_metric(recipe: Recipe, task: Task, typed: Mapping[str, str]) -> Recipe:
    """Fill in the metric that chooses checkpoints, or refuse one that the task does not have."""
    names = [metric.name for metric in task.metrics]
    metric = recipe.train.metric or task.chooses
    if metric not in names:
        key = typed.get("train.metric", "train.metric")
        raise ConfigError(f"{key}: expected {' or '.join(map(repr, names))}, found {metric!r}")
    train = recipe.train.model_copy(update={"metric": metric})
    return recipe.model_copy(update={"train": train})
