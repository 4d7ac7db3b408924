"""The options of `crosshead train`: each is declared once, described, and used."""

import inspect
from typing import Any, get_args

import pytest

from crosshead.cli import training_options
from crosshead.cli.training import train

DECLARED: dict[str, Any] = {
    name: value
    for name, value in vars(training_options).items()
    if name.endswith(("Option", "Argument"))
}


@pytest.mark.parametrize("name", DECLARED)
def test_an_option_is_described_in_sentences(name: str) -> None:
    declared = get_args(DECLARED[name])[1]
    assert declared.help[0].isupper() and declared.help.endswith((".", ")"))
    assert declared.metavar or get_args(DECLARED[name])[0] is bool


def test_the_verb_takes_all_options() -> None:
    found = inspect.signature(train).parameters
    used = [each.annotation for name, each in found.items() if name != "added"]
    assert sorted(map(id, used)) == sorted(map(id, DECLARED.values()))
