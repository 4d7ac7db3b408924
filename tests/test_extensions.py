"""Parts that packages add: all are there, and come from the modules that entry points name."""

from importlib import import_module

import pytest

from crosshead.extensions import added, imported_at_use


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
