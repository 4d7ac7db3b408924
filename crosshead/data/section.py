"""The base of the section `[data]` of a recipe."""

from collections.abc import Sequence
from typing import ClassVar, Self

from crosshead.config import Config


class DataSection(Config):
    """Files of training and validation data; each kind of data adds its keys."""

    file_keys: ClassVar[tuple[str, ...]] = ()
    """The keys that name files. The value of each is a list."""

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
