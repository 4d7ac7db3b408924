import importlib.resources
from pathlib import Path

import pytest

from crosshead.errors import ConfigError, UserError
from crosshead.training.recipe import Recipe, to_toml
from crosshead.training.settings import (
    check_resumed,
    new_recipe,
    read_recipe,
    resumed_recipe,
    without_unset,
)


def test_what_is_not_given_is_left_out() -> None:
    flags = {"train": {"seed": 0, "device": None}, "data": {"source": None}}
    assert without_unset(flags) == {"train": {"seed": 0}, "data": {}}


def test_a_recipe_that_ships_is_found_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "captions.toml").write_text("[train]\nmax_updates = 7\n")
    monkeypatch.setattr(importlib.resources, "files", lambda package: tmp_path)
    assert read_recipe("captions") == {"train": {"max_updates": 7}}
    assert new_recipe(None, "captions", {}, ["train.seed=3"]).train.max_updates == 7
    with pytest.raises(ConfigError, match="no recipe 'caption'; did you mean 'captions'"):
        read_recipe("caption")


@pytest.mark.parametrize("preset", ["tiny", "small", "base", "big"])
def test_a_run_is_resumed_with_all_it_began_with(preset: str, tmp_path: Path) -> None:
    began = new_recipe(preset, None, {"train": {"seed": 9}}, [])
    (tmp_path / "recipe.toml").write_text(to_toml(began))
    assert resumed_recipe(tmp_path, None, {}, []) == began
    longer = resumed_recipe(tmp_path, None, {"train": {"max_updates": 5}}, [])
    assert longer.train.max_updates == 5
    assert longer.model == began.model


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[train]\nseed = 8\n", "train.seed is 8, but the run in .* began with 9"),
        ("[train]\nbatch_tokens = 999\n", "train.batch_tokens is 999"),
        ("[model]\nheads = 8\n", "model.heads is 8"),
        ("train = 8\n", "train is a section"),
        ("[model]\nheadz = 8\n", "unknown key 'model.headz'; did you mean 'heads'"),
    ],
)
def test_a_recipe_that_does_not_agree_is_refused(text: str, words: str, tmp_path: Path) -> None:
    began = new_recipe(None, None, {"train": {"seed": 9}}, [])
    (tmp_path / "recipe.toml").write_text(to_toml(began))
    (tmp_path / "other.toml").write_text(text)

    def resumed(name: str) -> Recipe:
        now = resumed_recipe(tmp_path, str(tmp_path / name), {}, [])
        return check_resumed(began, now, tmp_path)

    with pytest.raises(ConfigError, match=words):
        resumed("other.toml")
    (tmp_path / "same.toml").write_text("[train]\nseed = 9\nmax_epochs = 7\n")
    assert resumed("same.toml").train.max_epochs == 7


def test_there_is_no_run_to_resume(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"it holds no recipe\.toml"):
        resumed_recipe(tmp_path, None, {}, [])
