"""Parts that packages add to crosshead by entry points, as its own add-ons do."""

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any


@cache
def added(group: str) -> dict[str, Any]:
    """Return the objects of the entry points `crosshead.GROUP`, by their names in order."""
    from importlib.metadata import entry_points  # takes longer to import than a Ctrl-C waits

    found = sorted(entry_points(group=f"crosshead.{group}"), key=lambda entry: entry.name)
    return {entry.name: entry.load() for entry in found}


def imported_at_use(module: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module that imports names from other modules (PEP 562)."""

    def get(name: str) -> Any:
        if name in homes:
            return getattr(import_module(homes[name]), name)
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return get
