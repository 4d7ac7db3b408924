"""The base of every configuration: frozen, validated, written as TOML or JSON.

A configuration class stands beside what it configures (`TransformerConfig` beside `Transformer`);
this module knows none of them. An unknown key is an error that names the nearest known one.
"""

import difflib
import tomllib
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from crosshead.errors import ConfigError

C = TypeVar("C", bound="Config")


class Config(BaseModel):
    """A frozen, strictly typed set of named values; unknown keys, NaN and infinity are refused."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, protected_namespaces=()
    )


def validate(config_class: type[C], values: dict[str, Any], where: str = "") -> C:
    """Build a configuration from plain values.

    `where` (a file or a flag) begins the message of the `ConfigError` raised for the first value
    that does not fit.
    """
    try:
        return config_class.model_validate(values)
    except ValidationError as error:
        prefix = f"{where}: " if where else ""
        raise ConfigError(prefix + _explain(config_class, error)) from None


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file; raises `ConfigError` naming file and line where it is not TOML."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None


def nearest(word: str, known: list[str]) -> str:
    """A clause that names the known word nearest to `word`, or lists them all when none is near."""
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"known: {', '.join(sorted(known))}"


def _explain(config_class: type[Config], error: ValidationError) -> str:
    """One line for the first of pydantic's complaints, in the words of a recipe."""
    first = error.errors(include_url=False)[0]
    location = [part for part in first["loc"] if isinstance(part, str)]
    key = ".".join(location)
    if first["type"] == "extra_forbidden":
        fields = _fields_at(config_class, location[:-1])
        return f"unknown key {key!r}; {nearest(location[-1], fields)}"
    message = first["msg"].removeprefix("Value error, ")
    message = message[0].lower() + message[1:]
    found = "" if first["type"] in ("missing", "value_error") else f", found {first['input']!r}"
    return f"{key}: {message}{found}" if key else f"{message}{found}"


def _fields_at(config_class: type[Config], path: list[str]) -> list[str]:
    """The field names of the configuration that stands at `path` below `config_class`."""
    current: Any = config_class
    for name in path:
        field = current.model_fields.get(name) if hasattr(current, "model_fields") else None
        if field is None:
            continue  # the tag of a union, which pydantic puts into the path
        current = field.annotation
    return sorted(getattr(current, "model_fields", {}))
