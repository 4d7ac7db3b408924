"""Errors that a user can cause.

Each message is one line with the fault, the place and the remedy.
"""

import re
from collections.abc import Mapping
from pathlib import Path

_CONTROL = re.compile("[\0-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that a terminal acts on: controls, line and paragraph ends, marks that reverse text.
Lone surrogates, which names of files may hold, cannot be written at all."""


def printable(text: str, keep: str = "") -> str:
    """Return a text with its control characters as escapes such as `\\u001b`, as JSON has them."""
    return _CONTROL.sub(lambda found: found[0] if found[0] in keep else _escape(found[0]), text)


def _escape(character: str) -> str:
    return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(character, f"\\u{ord(character):04x}")


class UserError(Exception):
    """A mistake of the user. The command line prints the message and exits with 2.

    The message is one line: what was expected, what was found, where (file:line, key, shape) and
    what to do.
    """


class ConfigError(UserError):
    """An invalid configuration: an unknown key, a wrong type, an impossible combination.

    Attributes:
        key: The key that the message begins with, such as `train.threads`, or "".
    """

    def __init__(self, message: str, key: str = "") -> None:
        super().__init__(f"{key} {message}" if key else message)
        self._message, self.key = message, key

    def named(self, typed: Mapping[str, str]) -> "ConfigError":
        """Return the error with the flag in `typed` instead of its key, if there is one."""
        return ConfigError(self._message, typed[self.key]) if self.key in typed else self


class DataError(UserError):
    """Data that cannot be read or does not fit together."""


class BundleError(UserError):
    """A directory that is not a bundle, or a bundle that is damaged or too new."""


_LONGEST = 400
"""The largest number of characters quoted from a file in a message."""


class DamagedBundle(BundleError):
    """A bundle with a missing or changed file."""

    def __init__(self, path: Path | str, found: str, remedy: str | None = None) -> None:
        remedy = remedy or "the bundle is damaged: take a fresh copy of it, or train it again"
        self.found = found if len(found) <= _LONGEST else f"{found[:_LONGEST]} ..."
        super().__init__(f"{path}: {self.found}; {remedy}")


def why_unreadable(error: OSError) -> str:
    """Return why a file cannot be read and what to do, as the end of a message."""
    if isinstance(error, FileNotFoundError):
        return "no such file; check its name"
    if isinstance(error, IsADirectoryError):
        return "is a directory; expected a file"
    return f"cannot be read ({error.strerror}); make it readable, or name another"


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error means that memory ran out, the processor's or a GPU's."""
    # PyTorch has an error class for GPU memory, but raises a plain RuntimeError for CPU memory.
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or "allocate memory" in str(error)
        or "Storage size calculation overflowed" in str(error)
    )
