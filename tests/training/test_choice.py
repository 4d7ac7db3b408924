"""The average of the last checkpoints: what it is the mean of, and when a run takes it."""

import json
from pathlib import Path

import pytest
import torch

from crosshead.bundle.weights import weights_of
from crosshead.recipe.train import TrainConfig
from crosshead.tasks.registry import load_bundle
from crosshead.tasks.translation.task import TranslationValidator
from crosshead.tasks.validation import Validation
from crosshead.training.checkpoint import (
    list_checkpoints,
    load_best,
    load_weights,
    save_best,
    save_checkpoint,
)
from crosshead.training.choice import ChosenWeights, choose_weights, update_of
from crosshead.training.context import Context, MainProcess
from crosshead.training.optimizer import Optimizer
from crosshead.training.progress import Progress
from crosshead.training.run import train
from tests.training.runs import Remembering, logged, recipe_for
from tests.training.setups import setup_of


@pytest.mark.parametrize(("loss", "is_best"), [(0.5, True), (2.5, False)])
def test_the_average_is_of_every_checkpoint_that_it_names(
    loss: float, is_best: bool, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the mean of the last three, and the bundle holds it where it validates best."""
    losses = iter([3.0, 2.0, 2.2, loss])  # of updates 6, 12, 18 and of the average

    def validate(validator: TranslationValidator, weights: dict[str, torch.Tensor]) -> Validation:
        found = next(losses)
        return Validation({"loss": found, "nll": found, "bleu": 0.0})

    monkeypatch.setattr(TranslationValidator, "validate", validate)
    out = tmp_path / "run"
    train(recipe_for(text, "train.metric=loss"), out)
    several = [load_weights(place) for place in list_checkpoints(out / "checkpoints")]
    mean = {name: torch.stack([w[name] for w in several]).mean(dim=0) for name in several[0]}
    found = weights_of(load_bundle(out).model)
    expected = mean if is_best else several[1]
    torch.testing.assert_close({name: found[name] for name in expected}, expected)
    (average,) = (line for line in logged(out) if line["kind"] == "average")
    assert (average["loss"], average["best"]) == (loss, is_best)
    where = "updates 6 to 18" if is_best else "at update 12"
    assert where in logged(out)[-1]["weights"]


class Scripted:
    """A validator whose loss of any weights is given."""

    def __init__(self, loss: float) -> None:
        self.loss = loss
        self.seen: list[dict[str, torch.Tensor]] = []

    def validate(self, weights: dict[str, torch.Tensor]) -> Validation:
        self.seen.append(weights)
        return Validation({"loss": self.loss, "nll": 9.0, "bits_per_character": 2.0})


def checkpoints(folder: Path, values: tuple[float, ...]) -> tuple[MainProcess, Progress]:
    """Checkpoints of updates 10, 20, … whose weights are these numbers; the second is the best."""
    progress = Progress()
    for number, value in enumerate(values, 1):
        model = torch.nn.Linear(1, 1)
        torch.nn.init.constant_(model.weight, value)
        progress = Progress(update=10 * number, best_update=20, best_score=[-2.0, -3.0])
        optimizer = Optimizer(model, TrainConfig(max_updates=9, learning_rate=0.1))
        save_checkpoint(folder, optimizer, progress, keep=9)
        if number == 2:
            save_best(folder, optimizer.weights())
    return MainProcess(lambda weights: Validation({}), folder), progress


def chosen_of(
    main: MainProcess, progress: Progress, loss: float, **more: int
) -> tuple[ChosenWeights, Scripted, list[str]]:
    validator, display = Scripted(loss), Remembering()
    config = TrainConfig(max_updates=9, learning_rate=0.1, **more)
    context = Context(display=display, main=main)
    found = choose_weights(setup_of(config, progress, context, task="language"), validator)  # type: ignore[arg-type]
    return found, validator, display.lines


@pytest.mark.parametrize(("loss", "weight"), [(1.5, 6.0), (2.5, 2.0), (2.0, 6.0)])
def test_the_better_of_best_and_average_is_chosen(
    loss: float, weight: float, tmp_path: Path
) -> None:
    """Equal losses are decided by the other metric: 2 bits of the average, 3 of the best."""
    main, progress = checkpoints(tmp_path, (1.0, 2.0, 4.0, 12.0))
    found, validator, lines = chosen_of(main, progress, loss, average=3)
    [averaged] = validator.seen
    assert averaged["weight"].item() == 6.0  # of 2, 4 and 12
    assert found.weights["weight"].item() == weight == load_best(tmp_path)["weight"].item()
    average = "the average of 3 checkpoints, updates 20 to 40"
    assert lines[0].startswith(f"{average}: loss {loss:.3f}")
    if weight == 6.0:
        assert found.clause == average and lines[0].endswith("(best so far)")
        assert found.validated == {"loss": loss, "bits_per_character": 2.0}
        assert progress.best_average == [20, 30, 40] and progress.best_alone == [-2.0, -3.0]
        stored = json.loads((list_checkpoints(tmp_path)[-1] / "state.json").read_text())
        assert stored["progress"]["best_average"] == [20, 30, 40]
    else:
        assert found.clause == "the best validation loss, at update 20"
        assert found.validated == {"loss": 2.0, "bits_per_character": 3.0}
        assert not progress.best_average


def test_choosing_again_gives_the_same_weights(tmp_path: Path) -> None:
    main, progress = checkpoints(tmp_path, (1.0, 2.0, 4.0))
    first, _, _ = chosen_of(main, progress, 1.5, average=3)
    again, _, lines = chosen_of(main, progress, 1.5, average=3)
    assert torch.equal(first.weights["weight"], again.weights["weight"])
    assert first[1:] == again[1:] and lines[0].endswith("(best so far)")
    assert progress.best_alone == [-2.0, -3.0]


@pytest.mark.parametrize("average", [0, 1])
def test_nothing_is_averaged_unless_several_are_asked_for(average: int, tmp_path: Path) -> None:
    main, progress = checkpoints(tmp_path, (1.0, 2.0, 4.0))
    found, validator, _ = chosen_of(main, progress, 0.0, average=average)
    assert found.weights["weight"].item() == 2.0 and not validator.seen


def test_the_weights_that_training_began_with_are_named_as_such(tmp_path: Path) -> None:
    main, progress = checkpoints(tmp_path, (1.0, 2.0))
    progress.best_update = 0
    found, _, _ = chosen_of(main, progress, 9.0, average=2)
    assert found.clause.endswith("at update 0 (the initial weights)")


def test_the_update_is_in_the_name_of_a_checkpoint(tmp_path: Path) -> None:
    checkpoints(tmp_path, (1.0, 2.0, 3.0))
    assert [update_of(place) for place in list_checkpoints(tmp_path)] == [10, 20, 30]
