"""Values of foreign configurations are checked, and a wrong one is named with its file."""

from pathlib import Path

import pytest

from crosshead.decoding.search import DecodeConfig
from crosshead.interop.imports.reading import ForeignModelError
from crosshead.interop.imports.settings import checked, whole_number


def test_whole_numbers_are_those_of_json_and_of_yaml() -> None:
    assert whole_number({"a": 3}, "a", "x") == whole_number({"a": "3"}, "a", "x") == 3
    for value in (None, "three", 3.5, True, "9" * 30):
        with pytest.raises(ForeignModelError, match="x: a: expected a whole number"):
            whole_number({"a": value}, "a", "x")


def test_a_configuration_that_does_not_fit_names_the_foreign_file() -> None:
    assert checked(DecodeConfig, {"beam": 2}, Path("x")).beam == 2
    with pytest.raises(ForeignModelError, match=r"x: beam: .* this model cannot be imported"):
        checked(DecodeConfig, {"beam": 0}, Path("x"))
