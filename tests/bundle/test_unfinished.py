"""A run that has no bundle yet is tried by its best weights so far."""

import logging
from pathlib import Path

import pytest
import torch

from crosshead.bundle.unfinished import BEST
from crosshead.bundle.weights import weights_of
from crosshead.cli import run
from crosshead.errors import BundleError
from crosshead.tasks.registry import load_bundle
from crosshead.training.checkpoint import load_best
from crosshead.training.run import train
from tests.training.conftest import text
from tests.training.runs import recipe_for, stop_after

__all__ = ["text"]


@pytest.fixture(scope="module")
def stopped(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was stopped after two validations; to be read only."""
    out = tmp_path_factory.mktemp("runs") / "stopped"
    summary = train(recipe_for(text), out, should_stop=stop_after(out, 14))
    assert summary.interrupted and not (out / "config.json").exists()
    return out


def copy_of(run_directory: Path, place: Path) -> Path:
    """What loading reads of a run."""
    (place / "checkpoints").mkdir(parents=True)
    for name in ("recipe.toml", "tokenizer.json", f"checkpoints/{BEST}"):
        (place / name).write_bytes((run_directory / name).read_bytes())
    return place


def test_it_is_loaded_and_a_note_says_of_which_update(
    stopped: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "crosshead"):
        bundle = load_bundle(stopped)
    [said] = caplog.messages
    assert said.startswith(f"{stopped}: the run is not finished")
    assert said.split()[-1] in ("6", "12")
    best = load_best(stopped / "checkpoints")
    weights = weights_of(bundle.model)
    assert all(torch.equal(weights[name], each) for name, each in best.items())
    assert not bundle.model.training


def test_the_command_line_translates_with_it(
    stopped: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lines").write_text("one two\nthree\n")
    assert run(["translate", str(stopped), str(tmp_path / "lines"), "--device", "cpu"]) == 0
    captured = capfd.readouterr()
    assert captured.out.count("\n") == 2
    assert "the run is not finished" in captured.err


def test_a_finished_run_that_lost_its_configuration_is_not_called_unfinished(
    stopped: Path, tmp_path: Path
) -> None:
    place = copy_of(stopped, tmp_path / "run")
    (place / "model.safetensors").write_bytes(b"of the finished run")
    with pytest.raises(BundleError, match=r"config.json is missing; .*train --resume --out"):
        load_bundle(place)
    (place / "model.safetensors").unlink()
    (place / "config.json").symlink_to("nowhere")
    with pytest.raises(BundleError):
        load_bundle(place)


def test_what_is_damaged_is_refused(stopped: Path, tmp_path: Path) -> None:
    out = copy_of(stopped, tmp_path / "run")
    path = out / "checkpoints" / BEST
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    with pytest.raises(BundleError, match=rf"{BEST}: its checksum differs"):
        load_bundle(out)
    path.write_bytes(data[:-100])
    with pytest.raises(BundleError, match=BEST):
        load_bundle(out)


def test_a_run_without_a_validation_has_nothing_to_try(stopped: Path, tmp_path: Path) -> None:
    out = copy_of(stopped, tmp_path / "run")
    (out / "checkpoints" / BEST).unlink()
    with pytest.raises(BundleError, match="no bundle yet"):
        load_bundle(out)


def test_the_bundle_takes_its_place(text: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    train(recipe_for(text), out, should_stop=stop_after(out, 8))
    assert load_bundle(out).config.scores == []
    train(recipe_for(text), out, resume=True)
    assert load_bundle(out).config.scores
