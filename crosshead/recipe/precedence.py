"""Combine the settings of a recipe: preset < recipe file < named flags < `--set`."""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crosshead.config import nearest, nearest_key
from crosshead.errors import ConfigError, printable
from crosshead.recipe.presets import AUTO, ENDLESS, PRESETS, TO_THE_END, Sections, paper_peak
from crosshead.recipe.train import LAST_PART


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


def stated(
    known: KnownKeys,
    recipe: Mapping[str, Any] | None = None,
    flags: Mapping[str, Mapping[str, Any]] | None = None,
    assignments: Sequence[str] = (),
    *,
    where: str = "",
    narrowed: Callable[[Sections], KnownKeys] | None = None,
) -> Sections:
    """Return the stated settings: `recipe`, then `flags`, then `assignments`. Later ones win."""
    sections: Sections = {name: {} for name in known.sections}
    _overlay(sections, recipe or {}, where, known)
    _overlay(sections, flags or {}, "", known)
    read = [_assignment(text, known) for text in assignments]
    # The settings without ambiguous keys come first, because the task follows from them.
    for having, key, value in read:
        if len(having) == 1:
            sections[having[0]][key] = value
    of_task = known if narrowed is None else narrowed(sections)
    for text, (having, key, value) in zip(assignments, read, strict=True):
        sections[_section(text, key, having, of_task)][key] = value
    return sections


_BUDGETS = ("max_updates", "max_epochs", "max_minutes")


def completed(
    preset: str,
    below: Sections,
    sections: Sections,
    typed: Mapping[str, str] | None,
    default: str,
) -> Sections:
    """Return the stated settings, completed by `below` and the preset of the architecture."""
    train = sections["train"]
    beneath = below.get("model", {}).get("architecture", default)
    architecture = sections["model"].get("architecture", beneath)
    lowest = {**_preset(architecture, preset, typed or {}), **below}
    lowest = {name: dict(table) for name, table in lowest.items()}
    is_paper = lowest["train"].get("schedule") == "paper"
    if any(key in train for key in _BUDGETS):
        # Stated budgets replace the preset's budgets.
        lowest["train"] = {k: v for k, v in lowest["train"].items() if k not in _BUDGETS}
        has_own = "schedule" in {**below.get("train", {}), **train}
        if not has_own and lowest["train"].get("schedule") in ENDLESS:
            lowest["train"] |= TO_THE_END
            if "warmup" in train:
                # A stated warm-up has no limit.
                del lowest["train"]["warmup_share"]
            if train.get("patience"):
                # Spent patience begins the last part of the run. Until then the rate stays.
                lowest["train"]["cooldown"] = LAST_PART
    if train.get("schedule", lowest["train"].get("schedule")) == "paper":
        # The learning rate of the preset belongs to another schedule.
        lowest["train"].pop("learning_rate", None)
    elif is_paper:
        width = sections["model"].get("d_model", lowest["model"]["d_model"])
        if isinstance(width, int) and width > 0:  # else its own message follows
            lowest["train"].setdefault("learning_rate", paper_peak(width))
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
        raise ConfigError(f"unknown preset {name!r}{suffix}; {nearest(name, [AUTO, *presets])}")
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


def _assignment(text: str, known: KnownKeys) -> tuple[list[str], str, Any]:
    """Return the sections, the key and the value of `section.key=value` or `key=value`."""
    name, equals, raw = text.partition("=")
    text = printable(text)
    if not equals:
        raise ConfigError(f"--set {text}: expected section.key=value")
    section, dot, key = name.strip().partition(".")
    if not dot:
        key = section
        having = known.having(key)
        if not having:
            everything = list(
                dict.fromkeys(key for keys in known.sections.values() for key in keys)
            )
            hint = nearest_key(key, everything, known.qualified())
            raise ConfigError(f"--set {text}: unknown key {key!r}; {hint}")
        return having, key, _value(raw.strip())
    if section not in known.sections:
        hint = nearest(section, list(known.sections))
        raise ConfigError(f"--set {text}: unknown section {section!r}; {hint}")
    return [section], key, _value(raw.strip())


def _section(text: str, key: str, having: list[str], of_task: KnownKeys) -> str:
    """Return the one section among those `having` a key, or the only one that the task has."""
    if len(having) > 1:
        having = [section for section in of_task.having(key) if section in having] or having
    if len(having) > 1:
        full = " or ".join(f"{section}.{key}" for section in having)
        raise ConfigError(f"--set {printable(text)}: {key!r} is ambiguous; write {full}")
    return having[0]


def _value(raw: str) -> Any:
    """Return the TOML value of a text, or the text itself if it is not TOML."""
    try:
        table = tomllib.loads(f"value = {raw}")
    except ValueError:  # also for a number of thousands of digits
        return raw
    return table["value"] if len(table) == 1 else raw
