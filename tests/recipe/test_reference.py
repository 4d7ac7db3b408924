import re
import tomllib

import pytest

from crosshead.models.registry import CONFIGS
from crosshead.recipe.compose import compose, known_keys
from crosshead.recipe.presets import PRESETS
from crosshead.recipe.reference import all_keys, commented_recipe, explain_key, reference
from crosshead.recipe.toml import toml_value


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
    [rate] = [key for key in all_keys() if key.name == "learning_rate"]
    assert rate.kind == "number, > 0, <= 1e30"
    assert "recurrent" not in heads.users and "language" in heads.users


def test_names_of_values_are_explained_and_stay_whole() -> None:
    for name in ("sinusoidal", "sinusoidal-halves", "sinusoidal-marian", "learned"):
        assert f"`{name}`" in reference("model.positions")


@pytest.mark.parametrize(
    ("architecture", "preset"), [(name, size) for name, sizes in PRESETS.items() for size in sizes]
)
def test_a_commented_recipe_is_the_preset(architecture: str, preset: str) -> None:
    text = commented_recipe(preset, architecture)
    whole = compose(preset, {"model": architecture}).opened(())
    assert compose(recipe=tomllib.loads(text)) == whole
    assert max(map(len, text.splitlines())) <= 100
    assert re.search(r"^# learning_rate =|^learning_rate = ", text, re.MULTILINE)


def test_a_key_is_explained_by_its_name_or_with_its_section() -> None:
    alone, full = reference("patience"), reference("train.patience")
    assert alone == full and alone.startswith("train.patience = 10\n")
    assert reference("train").count("train.") > 20
    with pytest.raises(KeyError):
        reference("nothing")


def test_a_key_is_explained_with_its_values_in_the_presets() -> None:
    lines = reference("d_model").splitlines()
    sizes = "student 128, tiny 128, small 256, base 512, big 1024"
    assert f"    presets of transformer: {sizes}" in lines
    assert "    presets of recurrent, convolutional: tiny 128, small 256" in lines
    warmup = reference("warmup").splitlines()
    sizes = "student unset, tiny unset, small unset, base 4000, big 4000"
    assert f"    presets of transformer: {sizes}" in warmup
    assert not any("recurrent" in line for line in warmup)
    assert "preset" not in reference("log_every")


@pytest.mark.parametrize(
    ("architecture", "preset"), [(name, size) for name, sizes in PRESETS.items() for size in sizes]
)
def test_the_values_of_presets_are_those_of_recipes(architecture: str, preset: str) -> None:
    recipe = compose(preset, {"model": architecture}).model_dump()
    fixed = known_keys().refused  # an architecture that fixes a key shows its own value
    for key in all_keys():
        users = {architecture, CONFIGS[architecture].task}
        if users & set(key.users) and key.name not in ("architecture", "metric", *fixed):
            shown = {preset: key.default}
            text = re.sub(r"(: \w+|,)\n    ", r"\1 ", explain_key(key, every=True))
            for line in text.splitlines():
                head, _, values = line.strip().partition(": ")
                if architecture in head.removeprefix("presets of ").split(", "):
                    shown = dict(each.split(" ", 1) for each in values.split(", "))
            value = recipe[key.section][key.name]
            written = "unset" if value is None else toml_value(value)
            assert shown[preset] == written, key.name
