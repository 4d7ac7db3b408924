"""Parts that packages add: all are there, and come from the modules that entry points name."""

import threading
from importlib import import_module, metadata

import pytest

from crosshead.errors import UserError
from crosshead.extensions import Table, added, imported_at_use


def test_the_add_ons_of_the_package_are_added() -> None:
    assert {"series", "vision"} <= added("tasks").keys()
    assert {"checks", "export", "serving", "series"} <= added("verbs").keys()
    assert added("nothing") == {}


@pytest.mark.parametrize("package", ["models", "pipelines", "evaluation", "inspection"])
def test_names_of_add_ons_are_imported_at_their_first_use(package: str) -> None:
    module = import_module(f"crosshead.{package}")
    for name in module.__all__:
        assert getattr(module, name) is not None


def test_an_unknown_name_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match=r"'crosshead.models' has no attribute 'nothing'"):
        imported_at_use("crosshead.models", {})("nothing")


def test_a_part_that_cannot_be_loaded_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = metadata.EntryPoint("maths", "crosshead_maths.verbs", "crosshead.broken")
    monkeypatch.setattr(metadata, "entry_points", lambda group: [entry])
    with pytest.raises(UserError, match=r"'maths' of the package crosshead_maths.verbs cannot be "):
        added("broken")


@pytest.fixture
def unused(monkeypatch: pytest.MonkeyPatch) -> "Table[int]":
    """A table before its first use."""
    monkeypatch.setattr(Table, "begun", False)
    monkeypatch.setattr(Table, "complete", False)
    return Table({"one": 1})


def test_all_threads_see_what_packages_have_added(
    unused: "Table[int]", monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, seen = threading.Event(), list[list[str]]()

    def register() -> None:
        begun.set()
        unused["two"] = 2  # the thread that registers may use the table

    monkeypatch.setattr("crosshead.extensions.added", lambda group: {"a": register})
    threads = [threading.Thread(target=lambda: seen.append(list(unused))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert begun.is_set() and seen == [["one", "two"]] * 8


def test_a_package_that_fails_to_register_fails_at_every_use(
    unused: "Table[int]", monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> None:
        raise UserError("no")

    monkeypatch.setattr("crosshead.extensions.added", lambda group: {"a": fails})
    for _ in range(2):
        with pytest.raises(UserError, match="no"):
            list(unused)
