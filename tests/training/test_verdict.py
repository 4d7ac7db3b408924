"""The verdict on a run, and what it advises."""

import re
from pathlib import Path

import pytest

from crosshead.bundle.config import BundleScore
from crosshead.caller import PYTHON, calling_from
from crosshead.recipe.train import TrainConfig
from crosshead.tasks.registry import TASKS
from crosshead.tasks.usability import (
    LOW_BLEU,
    Findings,
)
from crosshead.training.budget import End, EndKind
from crosshead.training.progress import Progress
from crosshead.training.verdict import improvement, verdict, warmup_fault

IN_WARMUP = TrainConfig(max_updates=40, learning_rate=0.1, warmup=40)


def scored(bleu: float, *faults: str) -> Findings:
    score = BundleScore(metric="BLEU", value=bleu, signature="s", test_set="validation")
    return Findings([score], list(faults), above_chance=bleu >= LOW_BLEU)


@pytest.mark.parametrize("findings", [scored(3.0, "BLEU 3.0 is below 5"), Findings([])])
def test_a_run_that_ends_in_its_warm_up(findings: Findings) -> None:
    """Of a model of text, without BLEU, it is a sign by itself."""
    (fault,) = warmup_fault(IN_WARMUP, Progress(update=39), findings)
    assert "update 39" in fault and "warm-up of 40 updates" in fault
    assert not warmup_fault(IN_WARMUP, Progress(update=40), findings)
    shared = IN_WARMUP.model_copy(update={"warmup_share": 0.1})
    assert not warmup_fault(shared, Progress(update=39), findings)


@pytest.mark.parametrize(("findings", "tuned"), [(scored(5.0), False), (Findings([]), True)])
def test_a_model_that_is_of_use_may_have_ended_in_its_warm_up(
    findings: Findings, tuned: bool
) -> None:
    assert not warmup_fault(IN_WARMUP, Progress(update=13, tuned=tuned), findings)


@pytest.mark.parametrize(
    ("budget", "update", "advice"),
    [
        ({"max_updates": 20}, 20, "--max-updates 1100"),  # five times 210 updates
        ({"max_updates": 600}, 600, "--max-updates 2400"),  # four times the run
        ({"max_epochs": 2}, 35, "--max-epochs 60"),
        ({"max_minutes": 2.0}, 7, "--max-minutes 300"),  # 150 times as long
        ({"max_minutes": 2.0, "cooldown": 0.9}, 7, "--max-minutes 8"),
        ({"max_updates": 20, "cooldown": 0.9}, 20, "--max-updates 1000"),
    ],
)
def test_the_advice_leads_far_beyond_a_warm_up_that_stays(
    budget: dict[str, float], update: int, advice: str
) -> None:
    """A run that begins again chooses its warm-up by the new budget."""
    config = TrainConfig(learning_rate=0.1, warmup=210, **budget)
    progress = Progress(update=update, batches=500, seconds=100, validation_seconds=10)
    end = End(EndKind(next(iter(budget))), "it is reached")
    said = verdict(["why"], TASKS["masked"], config, progress, end, Path("run"))
    assert re.search(rf"{advice}\b", said)


@pytest.mark.parametrize(
    ("minutes", "seconds", "advice"),
    [
        (22.52, 1200, "--max-minutes 91"),
        (0.48, 5, "--max-minutes 5"),
        (40.1, 2400, "--max-minutes 170"),
        (5.0, 300, "--max-minutes 20"),
    ],
)
def test_the_advice_has_whole_minutes_of_two_digits(
    minutes: float, seconds: float, advice: str
) -> None:
    config = TrainConfig(learning_rate=0.1, warmup=40, max_minutes=minutes)
    progress, end = Progress(update=400, seconds=seconds), End(EndKind.MAX_MINUTES, "it ended")
    said = verdict(["why"], TASKS["translation"], config, progress, end, Path("run"))
    assert said.endswith(advice)


@pytest.mark.parametrize(
    ("budget", "kind", "update", "advice"),
    [
        ({"max_updates": 30_000}, EndKind.MAX_UPDATES, 400, "--max-updates 120000"),
        ({"max_minutes": 0.5}, EndKind.MAX_MINUTES, 400, "--max-minutes 5"),
        ({"max_epochs": 2}, EndKind.MAX_EPOCHS, 9000, "or train on more data"),
        (
            {"max_epochs": 2},
            EndKind.PATIENCE,
            9000,
            "the model has stopped improving: check that each line of the target translates the "
            "source line, or train on more data",
        ),
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
    ("epoch", "warmup", "advice"),
    [
        (98, 10, "or train on more data"),
        (49, 10, "--max-minutes 12"),
        (98, 500, "--max-minutes 19"),
    ],
)
def test_many_epochs_of_little_data_are_not_continued(epoch: int, warmup: int, advice: str) -> None:
    config = TrainConfig(learning_rate=0.1, max_minutes=3.0, warmup=warmup)
    progress, end = Progress(update=400, epoch=epoch, seconds=180), End(EndKind.MAX_MINUTES, "it")
    said = verdict(["BLEU 2.9 is below 5"], TASKS["translation"], config, progress, end, Path("a"))
    assert said.endswith(advice)


@pytest.mark.parametrize(
    ("limits", "planned", "advice"),
    [
        ({}, 24_000, "the run made 8,000 of about 24,000 planned updates; train longer: "),
        ({"max_updates": 24_000}, 0, "the run made 8,000 of about 24,000 planned updates; train l"),
        ({"max_epochs": 600}, 99_000, "the run made 8,000 of about 24,000 planned updates; train "),
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
    assert ("--max-minutes 120" in said) == ("planned" in advice)


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
    config, progress = IN_WARMUP, Progress(update=40, data_fault="93% wrong")
    said = verdict(["why"], TASKS["translation"], config, progress, end, Path("run"))
    assert said == ("this model is not usable yet: why; the likely cause is the data: 93% wrong")
    assert not verdict([], TASKS["translation"], config, progress, end, Path("run"))
