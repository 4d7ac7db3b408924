"""The options of `crosshead train`: each is declared once, described, and used."""

import inspect
from typing import Any, get_args

import pytest

from crosshead.cli import training_options
from crosshead.cli.training import train
from crosshead.cli.training_options import SETTINGS, parameter
from crosshead.recipe.compose import known_keys

OWN: dict[str, Any] = {
    name: each.annotation
    for name, each in inspect.signature(train).parameters.items()
    if name != "given"
}
KEYS: dict[str, Any] = {key: each for keys in SETTINGS.values() for key, each in keys.items()}


@pytest.mark.parametrize("name", [*OWN, *KEYS])
def test_an_option_is_described_in_sentences(name: str) -> None:
    annotation = {**OWN, **KEYS}[name]
    declared = get_args(annotation)[1]
    assert declared.help[0].isupper() and declared.help.endswith((".", ")"))
    assert declared.metavar or get_args(annotation)[0] is bool


def test_every_flag_is_of_a_key_and_has_a_name_of_its_own() -> None:
    sections = known_keys().sections
    for key in KEYS:
        section, _, name = key.partition(".")
        assert name in sections[section]
    names = [*OWN, *map(parameter, KEYS)]
    assert len(names) == len(set(names)) and parameter("model.architecture") == "model"


def test_the_verb_takes_all_options() -> None:
    declared = [
        value
        for name, value in vars(training_options).items()
        if name.endswith(("Option", "Argument"))
    ]
    assert {*map(id, declared)} <= {*map(id, OWN.values()), *map(id, KEYS.values())}
