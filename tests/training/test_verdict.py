"""The verdict on a run, and what it advises."""

from pathlib import Path

import pytest

from crosshead.caller import PYTHON, calling_from
from crosshead.recipe.train import TrainConfig
from crosshead.tasks.registry import TASKS
from crosshead.training.budget import End, EndKind
from crosshead.training.progress import Progress
from crosshead.training.verdict import improvement, verdict


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
    said = verdict(["why"], TASKS["masked"], config, progress, end, Path("run"))
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
    progress, end, task = Progress(update=update), End(kind, "it ended"), TASKS["translation"]
    said = verdict(["BLEU 0.1 is below 5"], task, config, progress, end, Path("a b"))
    assert said.startswith("this model is not usable yet: BLEU 0.1 is below 5; ")
    assert said.endswith(advice)
    if advice.startswith("--"):
        assert "train --resume --out 'a b'" in said
    assert verdict([], task, config, progress, end, Path("a b")) == ""


@pytest.mark.parametrize(
    ("epoch", "advice"), [(98, "or train on more data"), (49, "--max-minutes 12")]
)
def test_many_epochs_of_little_data_are_not_continued(epoch: int, advice: str) -> None:
    config = TrainConfig(learning_rate=0.1, max_minutes=3.0)
    progress, end = Progress(update=400, epoch=epoch, seconds=180), End(EndKind.MAX_MINUTES, "it")
    said = verdict(["BLEU 2.9 is below 5"], TASKS["translation"], config, progress, end, Path("a"))
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
    said = improvement(TASKS["translation"], config, progress, end, Path("a"))
    assert said.startswith(advice)
    assert ("--max-minutes 120" in said) == ("longer" in advice)


def test_a_run_whose_rate_has_fallen_to_0_is_not_resumed() -> None:
    config = TrainConfig(learning_rate=0.1, max_minutes=0.5, cooldown=0.9)
    end = End(EndKind.MAX_MINUTES, "it ended")
    said = verdict(["why"], TASKS["translation"], config, Progress(update=400), end, Path("a"))
    assert said.endswith("begin this run again with --force and --max-minutes 5")
    assert "--resume" not in said


def test_what_would_make_a_better_model_is_said_of_one_without_faults_too() -> None:
    end, progress = End(EndKind.MAX_MINUTES, "it is reached"), Progress(update=400, epoch=6)
    config = TrainConfig(learning_rate=0.1, max_minutes=0.5, cooldown=0.9)
    said = improvement(TASKS["translation"], config, progress, end, Path("a"))
    assert said.startswith("train longer: begin this run again with --force and --max-minutes ")
    full = verdict(["why"], TASKS["translation"], config, progress, end, Path("a"))
    assert full == f"this model is not usable yet: why; {said}"
    with calling_from(PYTHON):
        resumable = TrainConfig(learning_rate=0.1, max_minutes=0.5)
        said = improvement(TASKS["translation"], resumable, progress, end, Path("a"))
    assert said.startswith("train longer: crosshead.train(out='a', resume=True, train={'max_minute")


def test_data_that_spoil_the_model_are_named_before_a_longer_run() -> None:
    end = End(EndKind.MAX_UPDATES, "max_updates 40 is reached")
    config = TrainConfig(max_updates=40, learning_rate=0.1)
    progress = Progress(update=40, data_fault="93% wrong")
    said = verdict(["why"], TASKS["translation"], config, progress, end, Path("run"))
    assert said == ("this model is not usable yet: why; the likely cause is the data: 93% wrong")
    assert not verdict([], TASKS["translation"], config, progress, end, Path("run"))
