"""Preparation of new runs: what is chosen, recorded and checked before training."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from crosshead.errors import UserError
from crosshead.models.attention_kinds import POSITIONS, SCORES, PositionKind
from crosshead.recipe.compose import compose
from crosshead.tasks.corpus import Corpus
from crosshead.tasks.registry import load_bundle
from crosshead.training.context import Context
from crosshead.training.directory import stored_recipe
from crosshead.training.hardware import FreeMemory
from crosshead.training.new import prepare_new
from crosshead.training.run import train
from tests.addons.checks.made_up import pairs
from tests.recipe.composing import new_recipe
from tests.training.runs import (
    SMALL,
    Remembering,
    logged,
    recipe_for,
    stop_after,
    tuning_recipe,
)


def test_the_sizes_of_a_run_follow_its_text_and_are_kept(text: Path, tmp_path: Path) -> None:
    out, display = tmp_path / "run", Remembering()
    left_open = [each for each in SMALL if not each.startswith(("tokenizer.", "warmup", "valid_"))]
    data = {"source": str(text / "en"), "target": str(text / "de")}
    recipe = compose(flags={"data": data}, assignments=[*left_open, "data.max_length=60"])
    assert (recipe.tokenizer.vocab_size, recipe.train.warmup) == (None, None)
    stop = stop_after(out, 4)
    train(recipe, out, display=display, should_stop=stop)
    stored = stored_recipe(out)
    size = stored.tokenizer.vocab_size
    assert size is not None and 256 < size < 500
    assert (stored.train.warmup, stored.train.valid_every) == (1, 200)  # of 18 updates
    (sizes,) = (line for line in display.lines if "warm-up" in line)
    assert f"vocabulary {size:,}, " in sizes
    assert "warm-up of 1 update, validation every 200 updates" in sizes
    train(recipe, out, resume=True)
    assert load_bundle(out).config.source_vocabulary == size
    assert stored_recipe(out) == stored
    valid = [line["update"] for line in logged(out) if line["kind"] == "valid"]
    assert valid == [18]  # a short run is validated at its end


def test_the_keys_that_the_recipe_stated_are_recorded(text: Path) -> None:
    stated = prepare_new(recipe_for(text), None, Context()).progress.stated
    assert {"tokenizer.vocab_size", "train.warmup", "train.valid_every"} <= set(stated)
    left_open = [each for each in SMALL if not each.startswith(("tokenizer.", "warmup"))]
    data = {"source": str(text / "en"), "target": str(text / "de")}
    recipe = compose(flags={"data": data}, assignments=[*left_open, "data.max_length=60"])
    chosen = prepare_new(recipe, None, Context()).progress.stated
    assert not {"tokenizer.vocab_size", "train.warmup"} & set(chosen)
    assert "train.valid_every" in chosen


def test_the_fault_of_the_data_is_recorded_but_for_few_pairs_to_tune_on(
    text: Path, finished: Path, tmp_path: Path
) -> None:
    for name in ("en", "de"):
        lines = (text / name).read_text().splitlines()[:40]
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    begun = prepare_new(recipe_for(tmp_path), None, Context())
    few = "from 37 pairs a model only learns to repeat them"
    assert begun.progress.data_fault.startswith(few)
    assert any(few in line for line in begun.corpus.opening(begun.recipe.data))
    tuned = prepare_new(tuning_recipe(tmp_path, finished), finished, Context())
    assert not tuned.progress.data_fault
    assert not any(few in line for line in tuned.corpus.opening(tuned.recipe.data))


def test_the_number_of_training_rows_is_checked_before_the_model_is_built(text: Path) -> None:
    def refuse(corpus: Corpus) -> None:
        raise UserError(f"{corpus.size} are too few")

    setup = prepare_new(recipe_for(text), None, Context())
    with pytest.raises(UserError, match=f"{setup.progress.size} are too few"):
        prepare_new(recipe_for(text), None, Context(check_data=refuse))


def test_auto_chooses_a_model_that_fits_into_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, lines in zip(("en", "de"), pairs(3000), strict=True):
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    data = {"source": str(tmp_path / "en"), "target": str(tmp_path / "de")}
    recipe = compose("auto", flags={"data": data, "train": {"max_minutes": 600}})
    free = FreeMemory(30_000_000, "30 MB")  # not for the 4 million parameters of width 256
    monkeypatch.setattr("crosshead.training.hardware.free_memory", lambda *machine: free)
    display = Remembering()
    setup = prepare_new(recipe, None, Context(display=display))
    assert setup.recipe.model.d_model == 64
    assert any("memory does not suffice for width 256" in line for line in display.lines)


@pytest.mark.parametrize("preset", ["tiny", "auto"])
def test_the_updates_that_the_minutes_allow_are_planned_where_the_speed_is_measured(
    preset: str, text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crosshead.training.new.measured_seconds", lambda *given: 0.5)
    files = {"source": [str(text / "en")], "target": [str(text / "de")]}
    data = {"data": {**files, "tagged": 0.0, "noise": 0.0}}  # which lengthen some pairs
    given = ["max_minutes=10", "precision=float32", "threads=1", "model.d_model=16", "heads=2"]
    planned = prepare_new(new_recipe(preset, None, data, given), None, Context()).progress.planned
    assert 0.8 * 600 / 0.5 * 7 / 8 < planned <= 600 / 0.5 * 7 / 8
    stated = new_recipe(preset, None, data, ["max_updates=10", *given[1:]])
    assert prepare_new(stated, None, Context()).progress.planned == 0


class Mixed(nn.Module):
    """A score that multiplies by a matrix in float32, whatever the type of the queries."""

    def forward(self, query: Tensor, key: Tensor, relative: object) -> Tensor:
        return query @ torch.eye(query.shape[-1]) @ key.transpose(-2, -1)


def mixed(query: Tensor, key: Tensor, relative: object) -> Tensor:
    """A score that is a function, and multiplies in float32."""
    return Mixed()(query, key, relative)


class Counting(nn.Module):
    """Positions from a recurrence, which raises `ValueError` if it gets another type."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.rnn = nn.GRU(1, d_model)

    def forward(self, start: int, length: int) -> Tensor:
        return self.rnn(torch.arange(start, start + length).float()[:, None])[0]


def test_added_positions_that_do_not_compute_in_the_precision_are_named(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = PositionKind(added=lambda config: Counting(config.d_model))
    monkeypatch.setitem(POSITIONS, "counting", kind)
    data = {"data": {"source": str(text / "en"), "target": str(text / "de")}}
    given = [*SMALL, "max_updates=1", "positions=counting", "precision=bfloat16"]
    with pytest.raises(UserError, match=r"^Counting does not compute in bfloat16 .*--precision"):
        train(compose(flags=data, assignments=given), tmp_path / "run")


@pytest.mark.parametrize("made", [Mixed(), mixed])
@pytest.mark.parametrize("measured", [False, True])
def test_an_added_score_that_does_not_compute_in_the_precision_is_named(
    measured: bool, made: Any, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one line, before the first update, and where the speed is measured first."""
    monkeypatch.setitem(SCORES, "mixed", lambda config: made)
    settings = [each for each in SMALL if not (measured and each.startswith(("warmup", "max_up")))]
    data = {"data": {"source": str(text / "en"), "target": str(text / "de")}}
    budget = "max_minutes=1" if measured else "max_updates=1"
    given = [*settings, budget, "score=mixed"]
    with pytest.raises(
        UserError, match=r"^(?i:Mixed) does not compute in bfloat16 .*--prec"
    ) as caught:
        train(compose(flags=data, assignments=[*given, "precision=bfloat16"]), tmp_path / "run")
    assert "\n" not in str(caught.value) and not (tmp_path / "run").exists()
    if not measured:
        assert train(compose(flags=data, assignments=given), tmp_path / "run").scores
