"""Read and write recipes as TOML."""

import tomllib
from pathlib import Path
from typing import Any

import tomli_w

from crosshead.caller import option
from crosshead.errors import ConfigError, DataError, why_unreadable
from crosshead.recipe.recipe import Recipe
from crosshead.system.lines import split_lines
from crosshead.system.stored import NotRegularError, open_regular

LARGEST_FILE = 1 << 20
"""The largest size of a recipe file in bytes."""


def read_toml(path: Path) -> dict[str, Any]:
    """Return the tables of a TOML file."""
    try:
        with open_regular(path) as file:
            data = file.read(LARGEST_FILE + 1)
        text = "".join(f"{line}\n" for line in split_lines(data, str(path)))
    except NotRegularError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except OSError as error:
        raise ConfigError(f"{path}: {why_unreadable(error)}") from None
    except DataError as error:  # it names the place and the command that converts the file
        raise ConfigError(str(error)) from None
    if len(data) > LARGEST_FILE:
        raise ConfigError(
            f"{path}: has more than {LARGEST_FILE:,} bytes, expected a recipe; name another file"
        )
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, deep lists
        raise ConfigError(f"{path}: not valid TOML: {error}; {_advice()}") from None


def _advice() -> str:
    """Return the advice for a file that is not TOML."""
    return (
        "expected lines such as [train] and device = 'cpu', with quotation marks around text "
        "(single ones if it contains \\); if it is a file of data, give it with "
        f"{option('source')} or {option('pairs')}"
    )


def to_toml(recipe: Recipe) -> str:
    """Return the recipe as TOML, from which `compose` makes an equal recipe.

    Unset keys are left out.
    """
    sections = recipe.model_dump().items()
    return tomli_w.dumps(
        {name: {k: v for k, v in keys.items() if v is not None} for name, keys in sections}
    )


def toml_value(value: Any) -> str:
    """Return a value as TOML."""
    return tomli_w.dumps({"": value}).partition(" = ")[2].strip()
