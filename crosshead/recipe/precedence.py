"""Combine the settings of a recipe: preset < recipe file < named flags < `--set`."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crosshead.config import nearest, nearest_key
from crosshead.errors import ConfigError
from crosshead.recipe.presets import PRESETS, Sections


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


def stated(
    known: KnownKeys,
    recipe: Mapping[str, Any] | None = None,
    flags: Mapping[str, Mapping[str, Any]] | None = None,
    assignments: Sequence[str] = (),
    *,
    where: str = "",
) -> Sections:
    """Return the stated settings: `recipe`, then `flags`, then `assignments`. Later ones win.

    Args:
        known: The keys that recipes may have.
        recipe: The tables of a recipe file.
        flags: Values of command-line flags, by section and key.
        assignments: Texts `section.key=value`, or `key=value` if only one section has the key.
        where: The name of the recipe's file, which begins messages about it.

    Raises:
        ConfigError: If a section is unknown or is not a table, or an assignment cannot be
            understood.
    """
    sections: Sections = {name: {} for name in known.sections}
    _overlay(sections, recipe or {}, where, known)
    _overlay(sections, flags or {}, "", known)
    for assignment in assignments:
        section, key, value = _assignment(assignment, known)
        sections[section][key] = value
    return sections


_BUDGETS = ("max_updates", "max_epochs", "max_minutes")


def completed(
    preset: str,
    below: Sections,
    sections: Sections,
    typed: Mapping[str, str] | None,
    default: str,
) -> Sections:
    """Return the stated settings, completed by `below` and the preset of the architecture.

    Args:
        preset: The name of the preset.
        below: Sections that replace the preset's sections.
        sections: The stated settings.
        typed: The flags that were typed, by key, for messages.
        default: The architecture if none is stated.
    """
    train = sections["train"]
    beneath = below.get("model", {}).get("architecture", default)
    architecture = sections["model"].get("architecture", beneath)
    lowest = {**_preset(architecture, preset, typed or {}), **below}
    lowest = {name: dict(table) for name, table in lowest.items()}
    beginning = lowest["train"].get("schedule")
    schedule = train.get("schedule", beginning)
    if any(key in train for key in _BUDGETS):
        # Stated budgets replace the preset's budgets. The `max_updates` of a cosine schedule stays,
        # because it is also the end of the schedule.
        ends = {"max_updates"} if schedule == beginning == "cosine" else set()
        replaced = set(_BUDGETS) - ends
        lowest["train"] = {k: v for k, v in lowest["train"].items() if k not in replaced}
    if schedule == "paper":
        # The learning rate of the preset belongs to another schedule.
        lowest["train"].pop("learning_rate", None)
    return {name: {**lowest.get(name, {}), **table} for name, table in sections.items()}


def _preset(architecture: Any, name: str, typed: Mapping[str, str]) -> Sections:
    """Return the sections of a preset for an architecture."""
    if not isinstance(architecture, str) or architecture not in PRESETS:
        known = nearest(str(architecture), list(PRESETS))
        key = typed.get("model.architecture", "model.architecture")
        raise ConfigError(f"{key}: unknown architecture {architecture!r}; {known}")
    presets = PRESETS[architecture]
    if name not in presets:
        every = {each for sizes in PRESETS.values() for each in sizes}
        suffix = f" of {architecture}" if name in every else ""
        raise ConfigError(f"unknown preset {name!r}{suffix}; {nearest(name, list(presets))}")
    sections = presets[name]
    return {**sections, "model": {"architecture": architecture, **sections["model"]}}


def _overlay(
    sections: dict[str, Any], above: Mapping[str, Any], where: str, known: KnownKeys
) -> None:
    """Replace keys of `sections` by those in the tables of `above`, in place."""
    prefix = f"{where}: " if where else ""
    for name, table in above.items():
        if name == "model" and isinstance(table, str):
            table = {"architecture": table}
        if name not in sections:
            hint = nearest_key(name, list(sections), known.qualified())
            raise ConfigError(f"{prefix}unknown section {name!r}; {hint}")
        if not isinstance(table, Mapping):
            raise ConfigError(f"{prefix}{name} is a section: write [{name}] and its keys below it")
        sections[name].update(table)


def _assignment(text: str, known_keys: KnownKeys) -> tuple[str, str, Any]:
    """Return the section, the key and the value of `section.key=value` or `key=value`."""
    name, equals, raw = text.partition("=")
    if not text.isprintable():
        text = repr(text)  # a message is one line
    if not equals:
        raise ConfigError(f"--set {text}: expected section.key=value")
    keys, refused = known_keys.sections, known_keys.refused
    section, dot, key = name.strip().partition(".")
    if not dot:
        key = section
        having = [section for section, known in keys.items() if key in known]
        if not having and key in refused:
            having = ["model"]
        if len(having) > 1:
            full = " or ".join(f"{section}.{key}" for section in having)
            raise ConfigError(f"--set {text}: {key!r} is ambiguous; write {full}")
        if not having:
            everything = list(dict.fromkeys(key for known in keys.values() for key in known))
            hint = nearest_key(key, everything, known_keys.qualified())
            raise ConfigError(f"--set {text}: unknown key {key!r}; {hint}")
        section = having[0]
    if section not in keys:
        raise ConfigError(
            f"--set {text}: unknown section {section!r}; {nearest(section, list(keys))}"
        )
    return section, key, _value(raw.strip())


def _value(raw: str) -> Any:
    """Return the TOML value of a text, or the text itself if it is not TOML."""
    try:
        table = tomllib.loads(f"value = {raw}")
    except ValueError:  # also for a number of thousands of digits
        return raw
    return table["value"] if len(table) == 1 else raw
