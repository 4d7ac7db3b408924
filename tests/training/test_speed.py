from pathlib import Path
from typing import Any

import pytest
import torch

from crosshead.tasks.registry import task_of
from crosshead.training import speed
from crosshead.training.hardware import choose_machine
from crosshead.training.run import train
from crosshead.training.settings import stored_recipe
from crosshead.training.speed import measured_seconds
from crosshead.training.updater import RowTooLarge, Updater
from tests.training.runs import digest, recipe_for


def measured(text: Path) -> float | None:
    recipe = recipe_for(text)
    machine = choose_machine(recipe.train, torch.device("cpu"))
    return measured_seconds(recipe, task_of(recipe).read(recipe, None, None), machine)


@pytest.mark.parametrize("seconds", [0.1, 2.0, 30.0])
def test_it_is_the_time_of_an_update(
    seconds: float, text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch has so many seconds, and a part of it its share. The first of a size takes twice."""
    now, rows, largest = 0.0, [], 1
    real = Updater.update

    def update(self: Updater, epoch: Any, batch: Any, rate: float) -> Any:
        nonlocal now, largest
        largest = max(largest, len(batch))
        first = 1 + (len(rows) in {0, 2})
        rows.append(len(batch))
        now += first * seconds * len(batch) / 50
        return real(self, epoch, batch, rate)

    monkeypatch.setattr(Updater, "update", update)
    monkeypatch.setattr(speed.time, "perf_counter", lambda: now)
    found = measured(text)
    assert found is not None
    mean = sum(rows[3:]) / len(rows[3:]) if rows[3:] else None
    expected = seconds * (mean or largest * 8) / 50
    assert found == pytest.approx(expected, rel=0.3)
    assert len(rows) > 2 or seconds == 30.0


def test_memory_that_does_not_suffice_gives_no_speed(
    text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any) -> Any:
        raise RowTooLarge

    monkeypatch.setattr(Updater, "update", fail)
    assert measured(text) is None


@pytest.mark.slow
def test_a_measured_run_draws_what_a_stated_one_draws(text: Path, tmp_path: Path) -> None:
    """The warm-up follows the minutes; the weights are those of a run with that warm-up."""
    recipe = recipe_for(text, "max_minutes=5", "max_updates=6", "valid_every=3")
    free = recipe.model_copy(update={"train": recipe.train.model_copy(update={"warmup": None})})
    train(free, tmp_path / "measured")
    chosen = stored_recipe(tmp_path / "measured")
    assert chosen.train.warmup == 1  # a tenth of six updates
    train(chosen, tmp_path / "stated")
    files = [digest(tmp_path / name / "model.safetensors") for name in ("measured", "stated")]
    assert files[0] == files[1]
