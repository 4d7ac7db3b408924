"""Trials before a run: does its longest batch fit into memory, and how long does an update take."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from crosshead.errors import DataError
from crosshead.models.transformer import Transformer
from crosshead.recipe.compose import compose
from crosshead.recipe.recipe import Recipe
from crosshead.recipe.train import TrainConfig
from crosshead.tasks.registry import task_of
from crosshead.tasks.token_loss import token_loss
from crosshead.tasks.token_task import TokenTask
from crosshead.tasks.translation.parallel_corpus import ParallelCorpus as Corpus
from crosshead.tasks.validation import Loss
from crosshead.text.batching import Batch
from crosshead.training import trial
from crosshead.training.context import Context
from crosshead.training.directory import stored_recipe
from crosshead.training.distributed import ALONE, World
from crosshead.training.hardware import Machine, choose_machine
from crosshead.training.progress import Progress
from crosshead.training.run import train
from crosshead.training.setup import build
from crosshead.training.trial import measured_seconds, try_longest_batch
from crosshead.training.updater import RowTooLarge, Updater
from tests.tasks.reading import read_corpus
from tests.training.runs import Remembering, digest, recipe_for

MACHINE = Machine(torch.device("cpu"), 1, torch.float32, "as asked")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Recipe, Corpus]:
    """The settings and the text of a run, line 4 of which is the longest by far."""
    monkeypatch.chdir(tmp_path)
    lines = [f"one {word}" for word in "abcdefghijklmnopqrst"]
    lines[3] *= 100
    for name in ("en", "de"):
        Path(name).write_text("\n".join([" ", *lines]) + "\n")
    data = {"source": "en", "target": "de", "valid_source": "en", "valid_target": "de"}
    small = ["tokenizer.kind=words", "d_model=16", "heads=2", "train.batch_tokens=1020"]
    recipe = compose(flags={"data": data}, assignments=small)
    return recipe, read_corpus(recipe, None, None)


@pytest.fixture
def rows_that_fit(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Memory for as many rows at a time as the list says; and the shapes of what was computed."""
    fits = [0]

    def limited(model: Transformer, batch: Batch, settings: TrainConfig) -> Loss:
        fits.append(len(batch.source))
        if len(batch.source) > fits[0]:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate")
        return token_loss(model, batch, settings)

    monkeypatch.setattr(TokenTask, "loss", staticmethod(limited))
    return fits


def tried(run: tuple[Recipe, Corpus], world: World = ALONE, **train: int) -> tuple[Progress, str]:
    """How a run would split its batches, and what it says."""
    recipe, corpus = run
    recipe = recipe.model_copy(update={"train": recipe.train.model_copy(update=train)})
    display = Remembering()
    setup = build(recipe, MACHINE, corpus, Context(world, display))
    try_longest_batch(setup)
    assert all(each.grad is None for each in setup.model.parameters())
    assert not setup.optimizer.adam.state
    return setup.progress, "".join(display.lines)


def test_a_batch_of_the_longest_rows_is_tried(
    run: tuple[Recipe, Corpus], rows_that_fit: list[int]
) -> None:
    rows_that_fit[0] = 10
    progress, said = tried(run)
    assert (progress.microbatches, said, rows_that_fit) == (1, "", [10, 10])
    assert tried(run, accumulate=3)[0].microbatches == 3
    assert rows_that_fit[2:] == [4]  # one of three microbatches


def test_a_batch_that_does_not_fit_is_split_before_the_run(
    run: tuple[Recipe, Corpus], rows_that_fit: list[int]
) -> None:
    rows_that_fit[0] = 3
    progress, said = tried(run)
    assert (progress.microbatches, progress.accumulate) == (4, 1)
    assert said == (
        "not enough memory for a whole batch of the longest rows: batches are computed in 4 "
        "microbatches"
    )
    assert tried(run, accumulate=2)[0].microbatches == 4


def test_a_row_that_does_not_fit_is_refused_by_its_line(
    run: tuple[Recipe, Corpus], rows_that_fit: list[int]
) -> None:
    with pytest.raises(
        DataError,
        match=r"^en:5: training on 101 and 101 tokens needs more memory than \d+\.\d GB of .*; "
        r"lower data\.max_length, or choose a smaller model$",
    ):
        tried(run)


def test_batches_of_several_processes_have_to_fit(
    run: tuple[Recipe, Corpus], rows_that_fit: list[int]
) -> None:
    rows_that_fit[0] = 5
    two = World(0, 2, 0, 2)
    assert tried(run, two)[0].microbatches == 1
    rows_that_fit[0] = 4
    with pytest.raises(DataError, match=r"^en:5: .*; raise train.accumulate, lower data.max_len"):
        tried(run, two)
    assert tried(run, two, accumulate=2)[0].microbatches == 2


def test_the_trial_changes_no_weight_and_no_draw(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(recipe_for(text, "max_updates=2"), tmp_path / "tried")
    monkeypatch.setattr(trial, "_computes", lambda *given: True)
    train(recipe_for(text, "max_updates=2"), tmp_path / "untried")
    files = [digest(tmp_path / name / "model.safetensors") for name in ("tried", "untried")]
    assert files[0] == files[1]


def measured(text: Path) -> float | None:
    recipe = recipe_for(text)
    machine = choose_machine(recipe.train, torch.device("cpu"))
    corpus = task_of(recipe).read(recipe, None, None)
    return measured_seconds(build(recipe, machine, corpus, Context()))


@pytest.mark.parametrize("seconds", [0.1, 2.0, 30.0])
def test_it_is_the_time_of_an_update(
    seconds: float, text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch has so many seconds, and a part of it its share. The first of a size takes twice."""
    now, rows, largest = 0.0, [], 1
    real = Updater.gradients

    def gradients(self: Updater, epoch: Any, batch: Any) -> Any:
        nonlocal now, largest
        largest = max(largest, len(batch))
        first = 1 + (len(rows) in {0, 2})
        rows.append(len(batch))
        now += first * seconds * len(batch) / 50
        return real(self, epoch, batch)

    monkeypatch.setattr(Updater, "gradients", gradients)
    monkeypatch.setattr(trial.time, "perf_counter", lambda: now)
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

    monkeypatch.setattr(Updater, "gradients", fail)
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
