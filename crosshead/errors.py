"""The errors a user can cause: each is one line that says what, where and what to do."""

from collections.abc import Mapping
from pathlib import Path


class UserError(Exception):
    """A mistake in what the user gave: the command line prints its message and exits with 2.

    The message is one line: what was expected, what was found, where (file:line, key, shape) and
    what to do about it.
    """


class ConfigError(UserError):
    """A configuration that cannot be: an unknown key, a wrong type, an impossible combination.

    Attributes:
        key: The key that the message begins with, such as `train.threads`, or "".
    """

    def __init__(self, message: str, key: str = "") -> None:
        super().__init__(f"{key} {message}" if key else message)
        self._message, self.key = message, key

    def named(self, typed: Mapping[str, str]) -> "ConfigError":
        """Return the error with its key named as in `typed`, which has a flag for some keys."""
        return ConfigError(self._message, typed[self.key]) if self.key in typed else self


class DataError(UserError):
    """Text that cannot be read or does not fit together."""


class BundleError(UserError):
    """A directory that is not a bundle, or a bundle that is damaged or too new."""


_LONGEST = 400
"""Characters of what is said of a file that may hold anything."""


class DamagedBundle(BundleError):
    """A bundle whose file `path` is missing or is not what was written: `found` says how.

    `mend` is what to do, where it is more than to take a fresh copy.
    """

    def __init__(self, path: Path | str, found: str, mend: str | None = None) -> None:
        mend = mend or "the bundle is damaged: take a fresh copy of it, or train it again"
        self.found = found if len(found) <= _LONGEST else f"{found[:_LONGEST]} ..."
        super().__init__(f"{path}: {self.found}; {mend}")


def why_unreadable(error: OSError) -> str:
    """Return why a file cannot be read and what to do, to stand after the file's name."""
    if isinstance(error, FileNotFoundError):
        return "no such file; check its name"
    if isinstance(error, IsADirectoryError):
        return "is a directory; expected a file"
    return f"cannot be read ({error.strerror}); make it readable, or name another"


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error means that memory ran out, the processor's or a GPU's."""
    # PyTorch has a class of its own for a GPU's memory and a plain RuntimeError for the CPU's.
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or "allocate memory" in str(error)
        or "Storage size calculation overflowed" in str(error)
    )
