"""The base of the section `[data]` of a recipe."""

import os
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, BeforeValidator

from crosshead.config import Config
from crosshead.errors import ConfigError
from crosshead.system.lines import is_utf8

__all__ = ["DataSection"]


def _listed(value: Any) -> Any:
    """Return one name as a list, and paths as text."""
    names = [value] if isinstance(value, str | os.PathLike) else value
    if not isinstance(names, list):
        return names
    return [os.fspath(each) if isinstance(each, os.PathLike) else each for each in names]


def _check_names(names: list[str]) -> list[str]:
    for name in names:
        if not is_utf8(name):
            # The recipe and the model card contain the name, and both are UTF-8.
            raise ValueError(f"the name {name!a} is not UTF-8: rename the file")
        if "\0" in name:
            raise ValueError(f"{name!a} is no file name: it contains a NUL; remove the NUL")
    return names


Names = Annotated[list[str], BeforeValidator(_listed), AfterValidator(_check_names)]
"""The value of a key that names files; a single name needs no brackets."""


class DataSection(Config):
    """Files of training and validation data; each kind of data adds its keys."""

    file_keys: ClassVar[tuple[str, ...]] = ()
    """The keys that name files. The value of each is a list."""

    @property
    def has_old_validation(self) -> bool:
        """True if there are validation files of an old domain, in fine-tuning."""
        return False

    def files(self) -> list[str]:
        """Return the names of all training and validation files."""
        return [name for key in self.file_keys for name in getattr(self, key)]

    def renamed(self, names: Sequence[str]) -> Self:
        """Return the section with new names for all its files.

        Args:
            names: The new names, in the order of `files`.
        """
        rest = iter(names)
        return self.model_copy(
            update={key: [next(rest) for _ in getattr(self, key)] for key in self.file_keys}
        )


def file_names(given: Any) -> list[str] | None:
    """Return the file names, or None for data in memory and for missing data."""
    if isinstance(given, str | os.PathLike):
        return [os.fspath(given)]
    if not isinstance(given, Sequence) or not given:
        return None
    if all(isinstance(each, os.PathLike) for each in given):
        return [os.fspath(each) for each in given]
    if all(isinstance(each, str) and len(each) < 1000 and os.path.isfile(each) for each in given):
        raise ConfigError(
            f"a list of str is data, but {given[0]!r} is a file: give one name, or a list of Path"
        )
    return None
