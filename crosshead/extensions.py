"""Parts that packages add to crosshead by entry points, as its own add-ons do."""

from collections import UserDict
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar

from crosshead.errors import UserError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")


@cache
def added(group: str) -> dict[str, Any]:
    """Return the objects of the entry points `crosshead.GROUP`, by their names in order."""
    from importlib.metadata import entry_points  # takes longer to import than a Ctrl-C waits

    found = sorted(entry_points(group=f"crosshead.{group}"), key=lambda entry: entry.name)
    return {entry.name: _loaded(entry) for entry in found}


def _loaded(entry: "EntryPoint") -> Any:
    try:
        return entry.load()
    except Exception as error:  # the package may be of anybody
        package = entry.dist.name if entry.dist else entry.value
        raise UserError(
            f"{entry.name!r} of the package {package} cannot be loaded ({type(error).__name__}: "
            f"{error}); install the package again, or remove it"
        ) from error


class Table(UserDict[str, T]):
    """Entries by name, to which packages add theirs by registering tasks when a table is used.

    Importing a module uses no table, so packages may import anything of crosshead.
    """

    begun = complete = False
    """True if packages register their tasks, and if they have done so."""

    _lock = RLock()

    def __init__(self, entries: Mapping[str, T]) -> None:
        self._entries = dict(entries)

    @property
    def data(self) -> dict[str, T]:  # type: ignore[override]
        """The entries, for the methods of the base class."""
        if not Table.complete:
            with Table._lock:  # other threads wait; what registers may use a table
                if not Table.begun:
                    Table.begun = True
                    try:
                        for register in added("tasks").values():
                            register()
                        Table.complete = True
                    finally:
                        Table.begun = Table.complete
        return self._entries


def imported_at_use(module: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module that imports names from other modules (PEP 562)."""

    def get(name: str) -> Any:
        if name in homes:
            return getattr(import_module(homes[name]), name)
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return get
