"""A run that an earlier commit (e700801) saved goes on as it would have gone on there."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from crosshead.bundle.places import earlier_run_path
from crosshead.errors import ConfigError, DataError, UserError
from crosshead.recipe.stored import changes
from crosshead.recipe.toml import to_toml
from crosshead.tasks.registry import load_bundle
from crosshead.text.parallel import held_out
from crosshead.training.directory import check_directory, saved_recipe, stored_recipe
from crosshead.training.run import train
from tests.recipe.composing import new_recipe, resumed_recipe
from tests.training.runs import Remembering, logged, own_text, recipe_for, stop_after, tree

STORED = Path(__file__).parent.parent / "fixtures" / "run-format-1"
LOSSES = [3.520035743713379, 3.4847585317250847, 3.650292558921613, 3.488931862219657]
"""Losses of updates 5 to 8, as the commit that saved the run computed them."""


def test_a_stored_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # That commit drew the held-out pairs from all pairs, also from those that repeat others.
    monkeypatch.setattr(held_out, "_first_rows", lambda text: np.arange(len(text)))
    out = Path(shutil.copytree(STORED, tmp_path / "stored"), "model")
    display = Remembering()
    recipe = resumed_recipe(out, None, {"train": {"max_updates": 8}}, [])
    summary = train(recipe, out, resume=True, display=display)
    assert summary.progress.update == 8
    assert "resuming from update 4" in display.lines[0]
    assert not any("bit-identical" in line for line in display.lines)
    found = [row["loss"] for row in logged(out) if row["kind"] == "train" and row["update"] > 4]
    assert found == pytest.approx(LOSSES, rel=1e-4)
    assert load_bundle(out).config.model == recipe.model


def edited(finished: Path, place: Path, before: str, after: str) -> Path:
    """A copy of a finished run with another recipe."""
    out = Path(shutil.copytree(finished, place))
    recipe = (out / "recipe.toml").read_text()
    assert recipe.count(before) == 1
    (out / "recipe.toml").write_text(recipe.replace(before, after))
    return out


@pytest.mark.parametrize(
    ("key", "before", "after"),
    [
        ("model.dropout", "\ndropout = 0.1", "\ndropout = 0.3"),
        ("train.label_smoothing", "label_smoothing = 0.1", "label_smoothing = 0.2"),
        ("train.seed", "seed = 1\nprecision", "seed = 2\nprecision"),
        ("model.heads", "\nheads = 2", "\nheads = 4"),
        ("train.batch_tokens", "batch_tokens = 200", "batch_tokens = 201"),
        ("data.max_length", "max_length = 20", "max_length = 21"),
    ],
)
def test_an_edit_that_would_change_a_resumed_run_is_refused_by_name(
    finished: Path, tmp_path: Path, key: str, before: str, after: str
) -> None:
    out = edited(finished, tmp_path / "run", before, after)
    files = tree(out)
    with pytest.raises(ConfigError, match=rf"recipe\.toml: {key} is ") as caught:
        train(resumed_recipe(out, None, {}, []), out, resume=True)
    assert "\n" not in str(caught.value)
    assert tree(out) == files


def test_a_lost_recipe_is_written_again_from_the_checkpoint(finished: Path, tmp_path: Path) -> None:
    out = Path(shutil.copytree(finished, tmp_path / "run"))
    recipe = (out / "recipe.toml").read_text()
    (out / "recipe.toml").unlink()
    check_directory(out, resume=True, force=False, inputs=[])
    found, before = saved_recipe(out), saved_recipe(finished)
    assert found and before and to_toml(found) == to_toml(before)
    train(resumed_recipe(out, None, {"train": {"max_updates": 19}}, []), out, resume=True)
    written = (out / "recipe.toml").read_text()
    assert written == recipe.replace("max_updates = 18", "max_updates = 19")
    (out / "recipe.toml").unlink()
    earlier_run_path(out).mkdir()  # a killed --force was moving this run
    with pytest.raises(UserError, match="no run with a checkpoint to resume"):
        stored_recipe(out)


def test_an_edit_that_a_resumed_run_may_follow_is_told(finished: Path, tmp_path: Path) -> None:
    out = edited(finished, tmp_path / "run", "max_updates = 18", "max_updates = 19")
    saved = saved_recipe(out)
    assert saved and saved.train.max_updates == 18
    (line,) = changes(saved, stored_recipe(out), out)
    assert line == f"train.max_updates is 19, but the run in {out} began with 18"


@pytest.fixture
def project(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a text and a run of it that was stopped, with names typed in the folder."""
    folder = tmp_path / "project"
    folder.mkdir()
    own_text(text, folder)
    monkeypatch.chdir(folder)
    recipe = recipe_for(Path(), "max_updates=3", "average=0", "train.valid_every=2")
    train(recipe, Path("run"), should_stop=stop_after(Path("run"), 2))
    return folder


def test_a_run_directory_tells_no_absolute_path_and_moves_with_its_text(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = project.rename(tmp_path / "moved")
    monkeypatch.chdir(tmp_path)
    train(resumed_recipe(moved / "run", None, {}, []), moved / "run", resume=True)
    rows = (moved / "run/left-out.tsv").read_text().splitlines()
    assert "en\t41\tempty side" in rows
    for path in (moved / "run").rglob("*"):
        if path.is_file():
            assert str(tmp_path).encode() not in path.read_bytes(), path
    again = new_recipe(None, "moved/run/recipe.toml", {}, [])
    assert again.data.source == ["moved/en"]


def test_where_the_text_is_gone_the_message_says_what_to_pass(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = (project / "run").rename(tmp_path / "run")
    monkeypatch.chdir(tmp_path)  # where the names that were typed do not lead to the text either
    recipe = resumed_recipe(out, None, {}, [])
    with pytest.raises(DataError, match=r"en: no such file, .*say where it is now with --source"):
        train(recipe, out, resume=True)
    files = {"source": [str(project / "en")], "target": [str(project / "de")]}
    again = train(resumed_recipe(out, None, {"data": files}, []), out, resume=True)
    assert again.progress.update == 3


def test_a_run_that_moved_without_its_text_finds_it_by_the_names_that_were_typed(
    project: Path, tmp_path: Path
) -> None:
    out = (project / "run").rename(tmp_path / "run")
    again = train(resumed_recipe(out, None, {}, []), out, resume=True)
    assert again.progress.update == 3 and again.progress.names == ["en", "de"]
    assert stored_recipe(out).data.source == [str(project / "en")]


def test_a_run_whose_recipe_has_absolute_names_is_resumed(project: Path) -> None:
    """As earlier versions wrote them."""
    out = project / "run"
    recipe = stored_recipe(out)
    (out / "recipe.toml").write_text(to_toml(recipe))
    assert str(project / "en") in (out / "recipe.toml").read_text()
    assert train(resumed_recipe(out, None, {}, []), out, resume=True).progress.update == 3
