"""The configuration reference: every key of every recipe, generated from the code."""

import ast
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic.fields import FieldInfo

from crosshead.config import Config, OneOf, shown_number
from crosshead.errors import ConfigError
from crosshead.models.registry import CONFIGS
from crosshead.recipe.compose import compose
from crosshead.recipe.presets import AUTO, DEFAULT, PRESETS, Sections
from crosshead.recipe.recipe import Recipe
from crosshead.recipe.toml import toml_value
from crosshead.tasks.registry import TASKS

_BOUNDS = {Ge: ("ge", ">="), Gt: ("gt", ">"), Le: ("le", "<="), Lt: ("lt", "<")}
_WIDTH = 98


@dataclass(frozen=True)
class Key:
    """A key of a recipe."""

    section: str
    name: str
    kind: str
    """The type and the bounds, or the allowed values."""
    default: str
    """The default in TOML; `unset` if the key may be left open, `required` if there is no
    default."""
    meaning: str
    users: tuple[str, ...] = ()
    """For a key of `[model]`, the architectures that have it with this default; otherwise the tasks
    that have its section."""


def all_keys() -> list[Key]:
    """Return all keys of all recipes, by section, in the order of the code."""
    found: dict[Key, list[str]] = {}
    for user, section, config in _sections():
        meanings = descriptions(config)
        for name, field in config.model_fields.items():
            key = Key(section, name, _kind(field), _default(field), meanings.get(name, ""))
            found.setdefault(key, []).append(user)
    return [replace(key, users=tuple(users)) for key, users in found.items()]


@cache
def descriptions(config: type[Config]) -> dict[str, str]:
    """Return the docstrings of the fields of a configuration, each on one line."""
    found: dict[str, str] = {}
    for each in reversed(config.__mro__):
        if not issubclass(each, Config) or each is Config:
            continue
        [tree] = ast.parse(textwrap.dedent(inspect.getsource(each))).body
        assert isinstance(tree, ast.ClassDef)
        for statement, after in zip(tree.body, tree.body[1:], strict=False):
            if (
                isinstance(statement, ast.AnnAssign)
                and isinstance(statement.target, ast.Name)
                and isinstance(after, ast.Expr)
                and isinstance(after.value, ast.Constant)
            ):
                found[statement.target.id] = " ".join(str(after.value.value).split())
    return found


def explain_key(key: Key, every: bool) -> str:
    """Return the reference entry of a key."""
    head = f"{key.section}.{key.name} = {key.default}"
    lines = [head, f"    {key.kind}"]
    if not every:
        lines += _wrapped(f"for {', '.join(key.users)}", "    ")
    for line in _of_presets(key):
        lines += _wrapped(line, "    ")
    lines += _wrapped(key.meaning, "    ")
    return "\n".join(lines) + "\n"


def _of_presets(key: Key) -> list[str]:
    """Return the values of a key in the presets of the architectures that set another one."""
    found: dict[str, list[str]] = {}
    for architecture, presets in PRESETS.items():
        if architecture in key.users or CONFIGS[architecture].task in key.users:
            values = {size: _set_by(preset, key) for size, preset in presets.items()}
            if set(values.values()) != {key.default}:
                line = ", ".join(f"{size} {value}" for size, value in values.items())
                found.setdefault(line, []).append(architecture)
    return [f"presets of {', '.join(users)}: {line}" for line, users in found.items()]


def _set_by(preset: Sections, key: Key) -> str:
    table = preset.get(key.section, {})
    return toml_value(table[key.name]) if key.name in table else key.default


def _wrapped(text: str, indent: str) -> list[str]:
    """Return a text as indented lines. Names such as `sinusoidal-halves` stay whole."""
    return textwrap.wrap(
        text, _WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    )


def reference(wanted: str | None = None) -> str:
    """Return the reference of all keys, or of the keys that match `wanted`."""
    found = [
        key
        for key in all_keys()
        if wanted is None or wanted in (key.name, f"{key.section}.{key.name}", key.section)
    ]
    if not found:
        raise KeyError(wanted)
    return "\n".join(explain_key(key, _is_of_all(key)) for key in found)


def commented_recipe(preset: str, architecture: str) -> str:
    """Return a whole recipe as TOML with the meaning above each key.

    Keys that are left open are commented out.
    """
    if preset == AUTO:
        raise ConfigError(
            f"the preset {AUTO} chooses its values from the data, so it has no recipe to print; "
            f"print {DEFAULT}, whose values it begins with, or train with {AUTO} and read "
            "recipe.toml in the run directory"
        )
    recipe: Recipe = compose(preset, {"model": architecture})
    lines = [f"# The preset {preset} of {architecture}: every key, with its meaning.", ""]
    for section, values in recipe.model_dump().items():
        config: type[Config] = type(getattr(recipe, section))
        meanings = descriptions(config)
        lines.append(f"[{section}]")
        for name, value in values.items():
            lines += _wrapped(meanings.get(name, ""), "# ")
            lines += [f"# {name} =" if value is None else f"{name} = {toml_value(value)}", ""]
    return "\n".join(lines).rstrip() + "\n"


def _sections() -> Iterator[tuple[str, str, type[Config]]]:
    """Yield the owner, the name and the class of each section of each task and architecture."""
    for task in TASKS.values():
        for section, field in task.recipe.model_fields.items():
            if section != "model":
                assert isinstance(field.annotation, type) and issubclass(field.annotation, Config)
                yield task.name, section, field.annotation
    for architecture, config in CONFIGS.items():
        yield architecture, "model", config


def _is_of_all(key: Key) -> bool:
    return len(key.users) == (len(CONFIGS) if key.section == "model" else len(TASKS))


def _kind(field: FieldInfo) -> str:
    """Return the type of a field and its bounds, in words."""
    for each in field.metadata:
        if isinstance(each, OneOf):
            return " | ".join(map(toml_value, each.names))
    bounds = [
        f"{symbol} {shown_number(getattr(each, name))}"
        for each in field.metadata
        for bound, (name, symbol) in _BOUNDS.items()
        if isinstance(each, bound)
    ]
    return ", ".join([_type_name(field.annotation), *bounds])


def _type_name(annotation: Any) -> str:
    names: Mapping[Any, str] = {
        int: "whole number", float: "number", bool: "true or false", str: "text",
    }  # fmt: skip
    origin = get_origin(annotation)
    if origin is Annotated:
        return _type_name(get_args(annotation)[0])
    if origin is Literal:
        return " | ".join(map(toml_value, get_args(annotation)))
    if origin in (Union, UnionType):
        return " or ".join(
            _type_name(each) for each in get_args(annotation) if each is not NoneType
        )
    if origin is list:
        return f"list of {_type_name(get_args(annotation)[0])}"
    return names.get(annotation, str(annotation))


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    return "unset" if value is None else toml_value(value)
