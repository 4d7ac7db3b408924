import re
import tomllib
from pathlib import Path

import pytest

from crosshead.cli import run
from crosshead.config import ConfigError
from crosshead.recipe.presets import PRESETS
from crosshead.tasks.recipes import compose, known_keys
from crosshead.tasks.reference import all_keys, commented_recipe, reference

PAGE = Path(__file__).parent.parent.parent / "docs" / "configuration.md"


def test_every_key_of_every_recipe_is_described() -> None:
    assert [f"{key.section}.{key.name}" for key in all_keys() if not key.meaning] == []
    described = {(key.section, key.name) for key in all_keys()}
    sections = known_keys().sections
    assert described == {(section, name) for section, names in sections.items() for name in names}
    assert len(described) > 90


def test_defaults_are_those_of_recipes() -> None:
    shown = {(key.section, key.name, key.default) for key in all_keys()}
    assert ("train", "label_smoothing", "0.1") in shown
    assert ("train", "max_updates", "unset") in shown
    assert ("data", "source", "[]") in shown
    [heads] = [key for key in all_keys() if key.name == "heads"]
    assert heads.kind == "whole number, >= 1, <= 1,024"
    assert "recurrent" not in heads.users and "language" in heads.users


@pytest.mark.parametrize(
    ("architecture", "preset"), [(name, size) for name, sizes in PRESETS.items() for size in sizes]
)
def test_a_commented_recipe_is_the_preset(architecture: str, preset: str) -> None:
    text = commented_recipe(preset, architecture)
    assert compose(recipe=tomllib.loads(text)) == compose(preset, {"model": architecture})
    assert max(map(len, text.splitlines())) <= 100
    assert re.search(r"^# learning_rate =|^learning_rate = ", text, re.MULTILINE)


def test_a_key_is_explained_by_its_name_or_with_its_section() -> None:
    alone, full = reference("patience"), reference("train.patience")
    assert alone == full and alone.startswith("train.patience = 10\n")
    assert reference("train").count("train.") > 20
    with pytest.raises(KeyError):
        reference("nothing")


def test_the_command_explains_and_prints(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["recipe", "--explain", "lr"]) == 2
    assert "did you mean 'learning_rate'" in capfd.readouterr().err
    assert run(["recipe"]) == 2
    assert "--explain" in capfd.readouterr().err
    assert run(["recipe", "--preset", "small", "--explain"]) == 2
    assert capfd.readouterr().err.count("\n") == 1
    assert run(["recipe", "--preset", "tiny", "--model", "language"]) == 0
    assert 'architecture = "language"' in capfd.readouterr().out
    assert run(["recipe", "heads"]) == 0
    assert capfd.readouterr().out.startswith("model.heads = 8\n")
    with pytest.raises(ConfigError, match="unknown preset 'base' of language"):
        commented_recipe("base", "language")


def test_the_page_is_the_reference() -> None:
    """Write it again with: crosshead recipe --explain."""
    block = re.search(r"```text\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert block and block[1] == reference()
