"""A task from outside the package is trained, resumed, averaged, saved, packed and loaded."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import crosshead
from crosshead.bundle.files import verify_bundle
from crosshead.cli import run
from crosshead.models import registry as models
from crosshead.recipe.presets import PRESETS
from crosshead.tasks.registry import TASKS
from tests.tasks import sample_task

VALUES = [3 + 2 * math.sin(number / 5) for number in range(400)]


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    tables: list[dict[str, Any]] = [TASKS, models.CONFIGS, models.MODELS, PRESETS]
    kept = [(table, dict(table)) for table in tables]
    sample_task.register()
    monkeypatch.chdir(tmp_path)
    Path("wave.csv").write_text("value\n" + "".join(f"{each}\n" for each in VALUES))
    Path("recipe.toml").write_text(
        '[data]\nseries = ["wave.csv"]\n\n[model]\narchitecture = "series"\n'
    )
    yield
    for table, entries in kept:
        table.clear()
        table.update(entries)


def command(*arguments: Any) -> int:
    return run([str(each) for each in arguments])


def trained(out: str, *arguments: Any) -> list[dict[str, Any]]:
    settings = ["--set", "train.precision=float32", "--threads", 1]
    assert command("train", "recipe.toml", "--out", out, *settings, *arguments) == 0
    return [json.loads(line) for line in Path(out, "log.jsonl").read_text().splitlines()]


def test_it_learns_and_forecasts(capfd: pytest.CaptureFixture[str]) -> None:
    log = trained("run")
    valid = [line for line in log if line["kind"] == "valid"]
    assert valid[-1]["mae"] < 0.05
    assert log[-1]["values"] > 0 and "target_tokens" not in log[-1]
    forecast = crosshead.load("run")
    assert forecast(VALUES[:100]) == pytest.approx(VALUES[100], abs=0.3)
    shown = capfd.readouterr()
    assert "Forecast in Python" in shown.out and "mean absolute error" in shown.err
    assert command("info", "run") == 0
    assert "windows of 8" in capfd.readouterr().out
    card = Path("run", "README.md").read_text()
    assert "that forecasts a series of numbers" in card and "352 windows" in card
    assert not any(wrong for _, wrong in verify_bundle(Path("run")))


def test_its_presets_are_listed(capfd: pytest.CaptureFixture[str]) -> None:
    assert command("presets") == 0
    lines = capfd.readouterr().out.splitlines()
    assert [line.split() for line in lines if line.startswith("series ")] == [
        ["series", "tiny", "windows", "of", "8,", "d_model", "32"]
    ]


def test_a_run_that_is_resumed_is_one_that_was_not_interrupted() -> None:
    rate = "--set", "schedule=inverse-sqrt"  # which does not depend on the budget
    whole = trained("whole", "--max-updates", 40, *rate)
    trained("parts", "--max-updates", 20, *rate)
    assert command("train", "--resume", "--out", "parts", "--max-updates", 40) == 0
    first, second = (Path(name, "model.safetensors").read_bytes() for name in ("whole", "parts"))
    assert first == second and whole


def test_parts_of_a_batch_make_the_same_update() -> None:
    whole = trained("whole", "--max-updates", 10, "--set", "log_every=1")
    parts = trained("parts", "--max-updates", 10, "--set", "log_every=1", "--set", "accumulate=3")
    losses = [[row["loss"] for row in log if row["kind"] == "train"] for log in (whole, parts)]
    assert len(losses[0]) == 10 and losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_bundles_are_averaged_packed_and_tuned() -> None:
    trained("a", "--max-updates", 20)
    trained("b", "--max-updates", 20, "--seed", 2)
    assert command("average", "a", "b", "--out", "mean") == 0
    assert command("pack", "mean", "--out", "mean.crosshead.zip") == 0
    values = [crosshead.load(name)(VALUES) for name in ("mean", "mean.crosshead.zip")]
    assert values[0] == values[1]
    assert command("train", "recipe.toml", "--from", "a", "--out", "c", "--max-updates", 5) == 0


def test_a_run_is_replaced_with_its_own_files(capfd: pytest.CaptureFixture[str]) -> None:
    trained("run", "--max-updates", 5)
    assert {sample_task.RANGE, sample_task.HELD_OUT} <= {
        path.name for path in Path("run").iterdir()
    }
    report = capfd.readouterr().out
    assert "left out of training  windows\ntoo late" in report and "pairs" not in report
    Path("run", "notes.txt").write_text("")
    arguments = ["train", "recipe.toml", "--out", "run", "--max-updates", 6, "--force"]
    assert command(*arguments) == 2 and "notes.txt" in capfd.readouterr().err
    Path("run", "notes.txt").unlink()
    assert command(*arguments) == 0
    assert command("info", "run") == 0
    assert f", {sample_task.HELD_OUT}\n" in capfd.readouterr().out
    Path("run", "model.safetensors").write_bytes(b"damaged")
    assert command("train", "--out", "run", "--resume") == 0


@pytest.mark.parametrize("values", [[9.0, *VALUES[1:]], VALUES[:-5]])
def test_messages_about_changed_data_speak_of_no_text(
    values: list[float], capfd: pytest.CaptureFixture[str]
) -> None:
    trained("run", "--max-updates", 5)
    Path("wave.csv").write_text("value\n" + "".join(f"{each}\n" for each in values))
    capfd.readouterr()
    assert command("train", "--resume", "--out", "run", "--max-updates", 9) == 2
    said = capfd.readouterr().err
    assert ("data" in said or "windows" in said) and "text" not in said and "pair" not in said


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("data.source=['x']", "data.source"),
        ("model.window=0.5", "model.window"),
        ("train.metric=bleu", "expected 'loss' or 'mae', found 'bleu'"),
        ("model.widow=3", "did you mean 'window'"),
        ("model.memory=3", "model.memory"),
        ("tokenizer.kind=words", "tokenizer"),
        ("model.window=1000", "too few"),
    ],
)
def test_mistakes_are_named(setting: str, message: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert command("train", "recipe.toml", "--out", "run", "--set", setting) == 2
    found = capfd.readouterr().err
    assert message in found and found.count("\n") == 1 and not Path("run").exists()
    assert "transformer" not in found
