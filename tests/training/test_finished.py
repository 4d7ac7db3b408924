"""Runs that are resumed after their end: left alone, mended or trained on."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from crosshead.bundle.files import verify_bundle
from crosshead.bundle.places import earlier_run_path
from crosshead.cli.reports import end_of_run
from crosshead.errors import DamagedBundle
from crosshead.recipe.recipe import Recipe
from crosshead.tasks.registry import load_bundle
from crosshead.tasks.translation.task import TranslationValidator
from crosshead.tasks.validation import Validation
from crosshead.training.checkpoint import list_checkpoints
from crosshead.training.run import train
from tests.parameters import mostly_slow
from tests.training.runs import Remembering, digest, logged, recipe_for, stop_after, tree
from tests.training.states import state_bytes

Script = Callable[..., None]


@pytest.fixture
def losses(monkeypatch: pytest.MonkeyPatch) -> Script:
    """Let validations find these losses, one after another."""
    script: Iterator[float] = iter(())

    def validate(validator: TranslationValidator, weights: dict[str, torch.Tensor]) -> Validation:
        found = next(script)
        return Validation({"loss": found, "nll": found, "bleu": 0.0})

    def play(*values: float) -> None:
        nonlocal script
        script = iter(values)

    monkeypatch.setattr(TranslationValidator, "validate", validate)
    return play


def by_loss(text: Path, *assignments: str) -> Recipe:
    return recipe_for(text, "train.metric=loss", *assignments)


def resumed(recipe: Recipe, out: Path) -> tuple[Any, list[str]]:
    display = Remembering()
    return train(recipe, out, resume=True, display=display), display.lines


def saved(out: Path) -> dict[str, Any]:
    """Where the newest checkpoint says that the run stands."""
    path = list_checkpoints(out / "checkpoints")[-1] / "state.json"
    return json.loads(path.read_text())["progress"]


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-9] ^= 4
    path.write_bytes(bytes(data))


def nothing_said(lines: list[str]) -> str:
    (line,) = (line for line in lines if line.startswith("nothing to train"))
    return line


def test_a_finished_run_whose_bundle_is_whole_is_left_alone(
    finished: Path, text: Path, tmp_path: Path
) -> None:
    """Also where a smaller budget is given: the stored recipe stays."""
    out = tmp_path / "run"
    shutil.copytree(finished, out)
    before = tree(out)
    for budget in ("max_updates=18", "max_updates=9", "max_minutes=0.0001"):
        summary, lines = resumed(recipe_for(text, budget), out)
        assert lines[-1] == nothing_said(lines)
        assert "ended at update 18 (max_updates 18 is reached)" in lines[-1]
        assert tree(out) == before
        said = end_of_run(summary)
        assert "no update was made" in said and len(said.splitlines()) == 2


def test_a_finished_run_whose_learning_rate_is_0_begins_again(text: Path, tmp_path: Path) -> None:
    recipe = recipe_for(text, "max_updates=2", "cooldown=0.5")
    train(recipe, tmp_path / "run")
    _, lines = resumed(recipe, tmp_path / "run")
    assert "begin it again with --force and a larger budget (--max-up" in nothing_said(lines)


def test_an_earlier_run_beside_a_finished_one_is_removed(
    finished: Path, text: Path, tmp_path: Path
) -> None:
    """A kill leaves it empty before the first file has moved, or with files at the end."""
    out = tmp_path / "run"
    shutil.copytree(finished, out)
    for name in ("", "recipe.toml"):
        earlier_run_path(out).mkdir()
        if name:
            (earlier_run_path(out) / name).write_text("")
        resumed(recipe_for(text, "max_updates=18"), out)
        assert not earlier_run_path(out).exists()


@pytest.mark.slow
def test_a_run_that_its_minutes_have_ended_has_nothing_to_train(text: Path, tmp_path: Path) -> None:
    """The time that it keeps for its end is not trained in; a larger budget is."""
    out, minutes = tmp_path / "run", ["max_updates=100000", "valid_every=5", "decode.beam=1"]
    first = train(recipe_for(text, *minutes, "max_minutes=0.015"), out)
    assert first.reason.startswith("max_minutes 0.015 is reached")
    before = tree(out)
    _, lines = resumed(recipe_for(text, *minutes, "max_minutes=0.015"), out)
    assert "max_minutes 0.015 is reached" in nothing_said(lines)
    assert tree(out) == before
    (out / "model.safetensors").unlink()
    resumed(recipe_for(text, *minutes, "max_minutes=0.015"), out)
    assert digest(out / "model.safetensors") == before["model.safetensors"]
    more = first.progress.update + 3
    longer, _ = resumed(recipe_for(text, *minutes, "max_minutes=5", f"max_updates={more}"), out)
    assert longer.progress.update == more


def test_a_run_that_patience_has_ended_has_nothing_to_train(
    losses: Script, text: Path, tmp_path: Path
) -> None:
    out, recipe = tmp_path / "run", by_loss(text, "patience=1", "max_updates=60", "warmup=5")
    losses(3.0, 3.5, 2.0)
    assert train(recipe, out).reason == "1 validation brought nothing better"
    before = tree(out)
    _, lines = resumed(recipe, out)
    assert "1 validation brought nothing better" in nothing_said(lines)
    assert tree(out) == before


@pytest.mark.parametrize(
    ("average", "weights"),
    mostly_slow(
        [(0.5, "average of 3 checkpoints, updates 6 to 18"), (9.0, "update 12")],
        [(0.5, "average of 3 checkpoints, updates 6 to 18")],
    ),
)
def test_a_damaged_bundle_is_written_again_without_training(
    average: float, weights: str, losses: Script, text: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    losses(3.0, 2.0, 2.2, average)
    assert weights in train(by_loss(text), out).weights
    before, state = tree(out), saved(out)
    flip(out / "model.safetensors")
    with pytest.raises(DamagedBundle, match="crosshead train --resume --out"):
        load_bundle(out)
    losses(average)
    summary, lines = resumed(by_loss(text, "max_updates=9"), out)
    assert "is written now" in nothing_said(lines)
    assert weights in summary.weights and summary.progress.update == 18
    names = ["model.safetensors", "tokenizer.json", "recipe.toml", "checkpoints/best.safetensors"]
    assert {name: digest(out / name) for name in names} == {name: before[name] for name in names}
    assert not any(wrong for _, wrong in verify_bundle(out))
    assert saved(out) == state
    assert [line["kind"] for line in logged(out)][-2:] == ["average", "end"]


@pytest.mark.slow
def test_an_average_stays_the_best_of_a_run_that_is_prolonged(
    losses: Script, text: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    losses(3.0, 2.0, 2.2, 0.5)
    train(by_loss(text), out)
    weights = digest(out / "model.safetensors")
    losses(1.5, 1.0, 0.7)  # better than all single weights before, worse than the average
    summary, _ = resumed(by_loss(text, "max_updates=30"), out)
    assert summary.weights == "the average of 3 checkpoints, updates 6 to 18"
    assert summary.progress.update == 30 and summary.progress.best_score == [-0.5, 0.0]
    assert digest(out / "model.safetensors") == weights
    losses(0.4, 0.6)
    summary, _ = resumed(by_loss(text, "max_updates=36"), out)
    assert summary.weights == "the best validation loss, at update 36"
    assert saved(out)["best_average"] == [] and digest(out / "model.safetensors") != weights


@pytest.mark.slow
def test_patience_compares_single_weights(losses: Script, text: Path, tmp_path: Path) -> None:
    """A run that is prolonged trains on while they improve, though an average was better."""
    out = tmp_path / "run"
    losses(3.0, 2.0, 2.2, 0.5)
    train(by_loss(text, "patience=2"), out)
    losses(1.9, 1.8, 1.7, 0.4)
    summary, _ = resumed(by_loss(text, "patience=2", "max_updates=36"), out)
    assert summary.reason == "max_updates 36 is reached"
    assert summary.weights == "the average of 3 checkpoints, updates 24 to 36"


def test_an_average_that_is_lost_is_made_of_its_checkpoints_again(
    losses: Script, text: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    losses(3.0, 2.0, 2.2, 0.5)
    train(by_loss(text), out)
    best, weights = out / "checkpoints/best.safetensors", digest(out / "model.safetensors")
    before = digest(best)
    best.unlink()
    (out / "model.safetensors").unlink()
    losses(0.5)
    _, lines = resumed(by_loss(text), out)
    assert any("best.safetensors: missing or damaged; written again from" in line for line in lines)
    assert (digest(best), digest(out / "model.safetensors")) == (before, weights)


def test_a_moving_average_that_is_lost_is_read_from_its_checkpoint_again(
    losses: Script, text: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    recipe = by_loss(text, "ema=0.8", "average=0")
    losses(3.0, 2.0, 2.2)
    summary = train(recipe, out)
    assert summary.weights.endswith("at update 12, as a moving average of decay 0.8")
    best, weights = out / "checkpoints/best.safetensors", digest(out / "model.safetensors")
    before = digest(best)
    best.unlink()
    (out / "model.safetensors").unlink()
    resumed(recipe, out)
    assert (digest(best), digest(out / "model.safetensors")) == (before, weights)


@pytest.mark.slow
def test_a_bundle_of_an_earlier_update_is_written_again(text: Path, tmp_path: Path) -> None:
    """A run that was prolonged and stopped at its end has the bundle of its first end."""
    out, recipe = tmp_path / "run", recipe_for(text, "max_updates=24", "average=0")
    train(recipe_for(text, "average=0"), out)
    before = digest(out / "config.json")
    stopped = train(recipe, out, resume=True, should_stop=stop_after(out, 24))
    assert stopped.interrupted and digest(out / "config.json") == before
    summary, lines = resumed(recipe, out)
    assert "is written now" in nothing_said(lines)
    assert summary.scores and "updates | 24 |" in (out / "README.md").read_text()


@pytest.mark.slow
def test_a_finished_run_of_an_older_crosshead_gets_the_same_bundle(
    text: Path, tmp_path: Path
) -> None:
    """Its state does not say that there is a bundle, so the bundle is written once more."""
    out = tmp_path / "run"
    train(recipe_for(text), out)
    before = digest(out / "model.safetensors")
    path = list_checkpoints(out / "checkpoints")[-1] / "state.json"
    values = json.loads(path.read_text())
    for key in ("best_average", "best_alone", "minutes_spent", "bundled", "tuned"):
        del values["progress"][key]
    path.write_bytes(state_bytes(values["progress"], values["sha256"]))
    resumed(recipe_for(text), out)
    assert digest(out / "model.safetensors") == before
    _, lines = resumed(recipe_for(text), out)
    assert "stays as it is" in lines[-1]
