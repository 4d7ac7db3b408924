"""Values of foreign configurations, checked before they are used."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from crosshead.config import Config, validate
from crosshead.errors import ConfigError
from crosshead.interop.imports.reading import ForeignModelError

C = TypeVar("C", bound=Config)


def whole_number(values: Mapping[str, Any], key: str, where: Path | str) -> int:
    """Return a whole number of a foreign configuration.

    Args:
        values: The configuration; numbers may be texts, as in YAML.
        key: The key of the number.
        where: The file, for messages.

    Raises:
        ForeignModelError: If the key is missing, or its value is no whole number.
    """
    found = values.get(key)
    if isinstance(found, str) and found.lstrip("-").isdecimal() and len(found) < 20:
        return int(found)
    if type(found) is not int:
        raise ForeignModelError(f"{where}: {key}: expected a whole number, found {found!r:.60}")
    return found


def checked(config_class: type[C], values: dict[str, Any], where: Path) -> C:
    """Return a configuration of plain values.

    Args:
        config_class: The class of the configuration.
        values: The values by key.
        where: The foreign file of the values, for messages.

    Raises:
        ForeignModelError: If the values do not fit.
    """
    try:
        return validate(config_class, values, str(where))
    except ConfigError as error:
        raise ForeignModelError(f"{error}; this model cannot be imported") from None
