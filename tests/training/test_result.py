"""The end of a run: its log, its picture and its scores."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from crosshead.addons.checks.glance import Glance
from crosshead.bundle.weights import weights_of
from crosshead.caller import PYTHON, calling_from
from crosshead.errors import UserError
from crosshead.recipe.train import TrainConfig
from crosshead.tasks import usability
from crosshead.tasks.registry import load_bundle
from crosshead.tasks.translation import parallel_corpus
from crosshead.tasks.translation.task import TranslationValidator
from crosshead.tasks.validation import Validation
from crosshead.training import result as result_module
from crosshead.training.checkpoint import (
    list_checkpoints,
    load_best,
    load_weights,
    save_best,
    save_checkpoint,
)
from crosshead.training.context import Context, MainProcess
from crosshead.training.optimizer import Optimizer
from crosshead.training.progress import Progress
from crosshead.training.result import ChosenWeights, choose_weights, improvement, update_of, verdict
from crosshead.training.run import train
from crosshead.training.schedule import End, EndKind
from tests.training.runs import Remembering, logged, recipe_for, tuning_recipe
from tests.training.setups import setup_of


def test_the_log_ends_with_the_scores_of_the_bundle(finished: Path) -> None:
    lines = logged(finished)
    assert [line["update"] for line in lines if line["kind"] == "train"] == list(range(1, 19))
    assert [line["update"] for line in lines if line["kind"] == "valid"] == [6, 12, 18]
    assert [line["kind"] for line in lines].index("end") == len(lines) - 1
    assert lines[-1]["reason"] == "max_updates 18 is reached"
    train_losses = [line["loss"] for line in lines if line["kind"] == "train"]
    assert train_losses[-1] < train_losses[0]


def test_the_scores_of_the_card_stand_in_the_bundle(finished: Path) -> None:
    scores = load_bundle(finished).config.scores
    assert [score.metric for score in scores] == ["BLEU", "chrF2"]
    card = (finished / "README.md").read_text()
    assert all(f"| {score.metric} | {score.value:.2f} |" in card for score in scores)


@pytest.mark.parametrize("error", [UserError, ValueError])
def test_a_picture_that_fails_is_a_line_and_no_more(
    error: type[Exception], text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(log: Path, picture: Path, metrics: object) -> None:
        raise error("matplotlib is not installed")

    monkeypatch.setattr(result_module, "draw_training_curve", missing)
    display = Remembering()
    train(recipe_for(text, "max_updates=1"), tmp_path / "run", display=display)
    assert "matplotlib is not installed" in display.lines[-1]
    load_bundle(tmp_path / "run")


def test_the_average_is_in_the_log_and_scores_are_named_alike(finished: Path) -> None:
    lines = logged(finished)
    (average,) = (line for line in lines if line["kind"] == "average")
    valid = [line for line in lines if line["kind"] == "valid"]
    assert average.keys() - {"weights"} == valid[0].keys()
    assert average["weights"] == "the average of 3 checkpoints, updates 6 to 18"
    end = lines[-1]
    assert end["search"] == "beam 4, length penalty 0.6"
    assert (end["weights"] == average["weights"]) == average["best"]
    (bleu,) = (s.value for s in load_bundle(finished).config.scores if s.metric == "BLEU")
    assert end["bleu"] == bleu and {"chrf2"} <= end.keys()


def test_greedy_bleu_is_called_so(text: Path, tmp_path: Path) -> None:
    display = Remembering()
    train(recipe_for(text), tmp_path / "run", display=display)
    said = [line for line in display.lines if "BLEU" in line]
    assert len(said) == 4 and all("BLEU (greedy)" in line for line in said)


def test_a_model_that_is_hardly_usable_comes_with_advice(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usability, "translation_faults", lambda *arguments: [])
    found = train(recipe_for(text, "max_updates=1"), tmp_path / "new").findings
    assert found and found.remarks[0].startswith("Hardly usable yet: ")
    assert found.remarks[-1].startswith("Train longer: ")


def test_good_scores_do_not_hide_a_fault_of_the_data(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that copies has good scores if the references are copies."""
    monkeypatch.setattr(usability, "translation_faults", lambda *arguments: [])
    monkeypatch.setattr("crosshead.tasks.translation.parallel_corpus.FEW_PAIRS", 1000)
    good = usability.Remarks(["Usable."], True)
    monkeypatch.setattr(usability, "translation_remarks", lambda *arguments: good)
    found = train(recipe_for(text, "max_updates=1"), tmp_path / "new").findings
    assert found and found.remarks[-1].startswith("The scores may hide a fault of the data: from ")


def test_fine_tuning_names_a_fault_of_the_data_but_advises_no_longer_run(
    finished: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usability, "translation_faults", lambda *arguments: [])
    recipe = tuning_recipe(text, finished, "max_updates=1")
    gist = train(recipe, tmp_path / "tuned", start=finished).findings
    assert gist and not gist.is_usable and "Train longer" not in "".join(gist.remarks)
    monkeypatch.setattr(
        parallel_corpus, "quick_check", lambda *given: Glance([], "sides are shifted")
    )
    found = train(recipe, tmp_path / "shifted", start=finished).findings
    assert found and found.remarks[-1] == "The likely cause is the data: sides are shifted."


def test_fine_tuning_without_gain_is_said_with_advice(
    finished: Path, text: Path, tmp_path: Path
) -> None:
    rate = ("learning_rate=8.0", "warmup=1")
    recipe = tuning_recipe(text, finished, "max_updates=2", *rate)
    found = train(recipe, tmp_path / "tuned", start=finished).findings
    assert found and found.remarks[0] == (
        "Fine-tuning improved nothing in 2 updates: the weights are those that it began with; try "
        "a lower learning rate (--set train.learning_rate=...)."
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "those that it began with; try a lower learning rate ("),
        ({"tuned": False}, None),
        ({"best_update": 3}, None),
        ({"best_average": [3, 6]}, None),
    ],
)
def test_only_fine_tuning_without_gain_is_said_so(
    changes: dict[str, Any], words: str | None
) -> None:
    state = {"tuned": True, "best_update": 0, "best_average": [], "update": 9, **changes}
    setup: Any = SimpleNamespace(progress=SimpleNamespace(**state))
    found = result_module._no_gain(setup)
    assert [words in line for line in found] == [True] if words else not found


def test_the_work_after_the_last_update_is_announced(text: Path, tmp_path: Path) -> None:
    """The last validation and the scoring of the chosen weights may take minutes."""
    shown = Remembering()
    shown.advance = lambda fraction, line: shown.lines.append(f"{fraction:.0%}")  # type: ignore[method-assign]
    train(recipe_for(text, "max_updates=2"), tmp_path / "run", display=shown)
    after = shown.lines[shown.lines.index("100%") + 1 :]
    assert after[0] == "update 2: the last validation has begun"
    assert "validation: " in after[1]
    assert after[2] == "scoring the weights on the validation set"


@pytest.mark.parametrize(
    ("budget", "advice"),
    [
        ({"max_updates": 20}, "--max-updates 1000"),
        ({"max_updates": 600}, "--max-updates 2400"),
        ({"max_epochs": 2}, "--max-epochs 10"),
        ({"max_minutes": 0.48}, "--max-minutes 5"),
        ({"max_minutes": 40.1}, "--max-minutes 161"),
        ({"max_minutes": 2.0, "cooldown": 0.9}, "--max-minutes 8"),
    ],
)
def test_the_advised_run_is_four_times_as_long_or_no_run_of_seconds(
    budget: dict[str, float], advice: str
) -> None:
    config, progress = TrainConfig(learning_rate=0.1, **budget), Progress(update=400, batches=500)
    end = End(EndKind(next(iter(budget))), "it is reached")
    said = verdict(setup_of(config, progress, task="masked"), ["why"], end, Path("run"))
    assert said.endswith(advice)


@pytest.mark.parametrize(
    ("budget", "kind", "update", "advice"),
    [
        ({"max_updates": 30_000}, EndKind.MAX_UPDATES, 400, "--max-updates 120000"),
        ({"max_minutes": 0.5}, EndKind.MAX_MINUTES, 400, "--max-minutes 5"),
        ({"max_epochs": 2}, EndKind.MAX_EPOCHS, 9000, "or train on more data"),
        ({"max_epochs": 2}, EndKind.PATIENCE, 400, "or train on more data"),
    ],
)
def test_the_advice_fits_the_end(
    budget: dict[str, float], kind: EndKind, update: int, advice: str
) -> None:
    config = TrainConfig(learning_rate=0.1, **budget)
    progress, end = Progress(update=update), End(kind, "it ended")
    said = verdict(setup_of(config, progress), ["BLEU 0.1 is below 5"], end, Path("a b"))
    assert said.startswith("this model is not usable yet: BLEU 0.1 is below 5; ")
    assert said.endswith(advice)
    if advice.startswith("--"):
        assert "train --resume --out 'a b'" in said
    assert verdict(setup_of(config, progress), [], end, Path("a b")) == ""


@pytest.mark.parametrize(
    ("epoch", "advice"), [(98, "or train on more data"), (49, "--max-minutes 12")]
)
def test_many_epochs_of_little_data_are_not_continued(epoch: int, advice: str) -> None:
    config = TrainConfig(learning_rate=0.1, max_minutes=3.0)
    progress, end = Progress(update=400, epoch=epoch, seconds=180), End(EndKind.MAX_MINUTES, "it")
    said = verdict(setup_of(config, progress), ["BLEU 2.9 is below 5"], end, Path("a"))
    assert said.endswith(advice)


@pytest.mark.parametrize(
    ("limits", "planned", "advice"),
    [
        ({}, 24_000, "train longer: "),
        ({"max_updates": 24_000}, 0, "train longer: "),
        ({"max_epochs": 600}, 99_000, "train longer: "),
        ({}, 9_000, "check that each line of the target translates the source line, or train on m"),
        ({}, 0, "check that each line of the target translates the source line, or train on more"),
    ],
)
def test_a_run_of_few_of_its_planned_updates_says_nothing_about_the_data(
    limits: dict[str, int], planned: int, advice: str
) -> None:
    """On a busy machine the minutes end the run, though it has made many updates and epochs."""
    config = TrainConfig.model_validate({"learning_rate": 0.1, "max_minutes": 30.0, **limits})
    progress = Progress(update=8000, epoch=200, batches=40, seconds=1700, planned=planned)
    end = End(EndKind.MAX_MINUTES, "it ended")
    said = improvement(setup_of(config, progress), end, Path("a"))
    assert said.startswith(advice)
    assert ("--max-minutes 120" in said) == ("longer" in advice)


def test_a_run_whose_rate_has_fallen_to_0_is_not_resumed() -> None:
    config = TrainConfig(learning_rate=0.1, max_minutes=0.5, cooldown=0.9)
    end = End(EndKind.MAX_MINUTES, "it ended")
    said = verdict(setup_of(config, Progress(update=400)), ["why"], end, Path("a"))
    assert said.endswith("begin this run again with --force and --max-minutes 5")
    assert "--resume" not in said


def test_what_would_make_a_better_model_is_said_of_one_without_faults_too() -> None:
    end, progress = End(EndKind.MAX_MINUTES, "it is reached"), Progress(update=400, epoch=6)
    config = TrainConfig(learning_rate=0.1, max_minutes=0.5, cooldown=0.9)
    said = improvement(setup_of(config, progress), end, Path("a"))
    assert said.startswith("train longer: begin this run again with --force and --max-minutes ")
    full = verdict(setup_of(config, progress), ["why"], end, Path("a"))
    assert full == f"this model is not usable yet: why; {said}"
    with calling_from(PYTHON):
        resumable = TrainConfig(learning_rate=0.1, max_minutes=0.5)
        said = improvement(setup_of(resumable, progress), end, Path("a"))
    assert said.startswith("train longer: crosshead.train(out='a', resume=True, train={'max_minute")


def test_data_that_spoil_the_model_are_named_before_a_longer_run() -> None:
    end = End(EndKind.MAX_UPDATES, "max_updates 40 is reached")
    config = TrainConfig(max_updates=40, learning_rate=0.1)
    progress = Progress(update=40, data_fault="93% wrong")
    said = verdict(setup_of(config, progress), ["why"], end, Path("run"))
    assert said == ("this model is not usable yet: why; the likely cause is the data: 93% wrong")
    assert not verdict(setup_of(config, progress), [], end, Path("run"))


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
