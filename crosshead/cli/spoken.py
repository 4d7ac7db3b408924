"""Messages in the words that were typed: flags, where a recipe would say keys."""

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from crosshead.errors import UserError

_NOT_ITS_NAME = {"model.architecture": "--model"}
"""Flags that are not called as the key that they set."""


@contextlib.contextmanager
def spoken_as_flags(
    flags: Mapping[str, Mapping[str, Any]], recipe: str | None, assignments: Sequence[str]
) -> Iterator[None]:
    """Make the errors of a block name flags, where no recipe and no `--set` names the key.

    Args:
        flags: The keys that have flags, by section, with what was given or None.
        recipe: The recipe that was given, or None. With one, only the flags that were given count.
        assignments: What was given with `--set`.

    Raises:
        UserError: That of the block, of the same class, with its message changed.
    """
    typed = {each.partition("=")[0].strip().rpartition(".")[2] for each in assignments}
    named = {
        f"{section}.{key}": f"--{key.replace('_', '-')}"
        for section, values in flags.items()
        for key, value in values.items()
        if key not in typed and (recipe is None or value is not None)
    }
    named |= {key: flag for key, flag in _NOT_ITS_NAME.items() if key in named}
    try:
        yield
    except UserError as error:
        error.args = (_spoken(str(error), named),)
        raise


def _spoken(message: str, named: Mapping[str, str]) -> str:
    """A message with flags in the place of keys, outside the names of files."""
    if not named:
        return message
    keys = "|".join(map(re.escape, named))
    pattern = re.compile(rf"(?<![\w/.-])({keys})(?![\w/])(?!\.\w)( = )?")
    return pattern.sub(lambda found: named[found[1]] + (" " if found[2] else ""), message)
