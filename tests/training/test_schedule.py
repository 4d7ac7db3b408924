import itertools
import math

import pytest

from crosshead.recipe.train import TrainConfig
from crosshead.training.progress import Progress
from crosshead.training.schedule import (
    EndKind,
    Overhead,
    budget_line,
    budget_spent,
    cooldown_factor,
    cosine_factor,
    fraction_done,
    is_past_warmup,
    learning_rate,
    needs_timed_validation,
    paper_rate,
    warmup_factor,
)


def inverse_sqrt_rate(update: int, peak: float, warmup: int) -> float:
    """The rate of the schedule inverse-sqrt."""
    config = TrainConfig(learning_rate=peak, warmup=warmup, max_updates=1)
    return learning_rate(config, 64, update, 0.0)


def test_the_papers_rate_is_equation_3() -> None:
    # lrate = d_model^-0.5 * min(step^-0.5, step * warmup^-1.5), with the numbers of section 5.3.
    assert paper_rate(1, 512, 4000) == pytest.approx(1 / math.sqrt(512) / 4000**1.5)
    assert paper_rate(1000, 512, 4000) == pytest.approx(1000 / (math.sqrt(512) * 4000**1.5))
    assert paper_rate(100_000, 512, 4000) == pytest.approx(1 / math.sqrt(512 * 100_000))


@pytest.mark.parametrize("warmup", [1, 7, 4000])
def test_both_schedules_peak_at_the_end_of_the_warm_up(warmup: int) -> None:
    updates = range(1, 3 * warmup + 2)
    papers = [paper_rate(update, 512, warmup) for update in updates]
    stated = [inverse_sqrt_rate(update, 0.3, warmup) for update in updates]
    assert max(updates, key=lambda update: papers[update - 1]) == warmup
    assert max(updates, key=lambda update: stated[update - 1]) == warmup
    assert papers[warmup - 1] == pytest.approx(1 / math.sqrt(512 * warmup))
    assert stated[warmup - 1] == 0.3


def test_inverse_sqrt_rises_linearly_and_falls_with_the_root_of_the_update() -> None:
    assert inverse_sqrt_rate(25, 0.4, 100) == pytest.approx(0.1)
    assert inverse_sqrt_rate(400, 0.4, 100) == pytest.approx(0.2)


def test_cosine_rises_linearly_and_anneals_as_sgdr() -> None:
    # eta_min + (eta_max - eta_min) (1 + cos(pi T_cur / T_i)) / 2, with eta_min = eta_max / 10.
    config = TrainConfig(schedule="cosine", learning_rate=0.3, warmup=40, max_updates=200)
    rates = [learning_rate(config, 64, done + 1, done / 200) for done in range(200)]
    for done in range(200):
        annealed = 0.03 + 0.5 * (0.3 - 0.03) * (1 + math.cos(math.pi * done / 200))
        assert rates[done] == pytest.approx(annealed * min(1, (done + 1) / 40))
    assert all(after < before for before, after in itertools.pairwise(rates[39:]))
    assert cosine_factor(0.0) == pytest.approx(1.0)
    assert cosine_factor(1.0) == pytest.approx(0.1)


def test_cosine_falls_with_the_run_and_not_with_the_update() -> None:
    config = TrainConfig(schedule="cosine", learning_rate=0.3, warmup=4, max_minutes=7)
    assert learning_rate(config, 64, 50, 0.5) == pytest.approx(0.3 * 0.55)
    assert learning_rate(config, 64, 5000, 0.5) == pytest.approx(0.3 * 0.55)


def test_the_configuration_chooses_the_schedule() -> None:
    papers = TrainConfig(schedule="paper", warmup=10, max_updates=1)
    stated = TrainConfig(learning_rate=0.01, warmup=10, max_updates=1)
    annealed = TrainConfig(schedule="cosine", learning_rate=0.01, warmup=10, max_updates=30)
    assert learning_rate(papers, 64, 3, 0.7) == paper_rate(3, 64, 10)
    assert learning_rate(stated, 64, 3, 0.7) == pytest.approx(0.003)
    assert learning_rate(annealed, 64, 20, 0.7) == 0.01 * cosine_factor(0.7)


def test_a_constant_rate_stays_at_its_peak_after_the_warm_up() -> None:
    config = TrainConfig(schedule="constant", learning_rate=0.01, warmup=10, max_updates=1)
    rates = [learning_rate(config, 64, update, 0.9) for update in range(1, 30)]
    assert rates == pytest.approx([0.001 * min(update, 10) for update in range(1, 30)])


def test_the_warm_up_ends_by_updates_or_by_its_share_of_the_run() -> None:
    assert warmup_factor(3, 0.0, 10, 0.2) == 0.3
    assert warmup_factor(3, 0.1, 10, 0.2) == 0.5
    assert warmup_factor(3, 0.3, 10, 0.2) == 1.0
    assert warmup_factor(11, 0.0, 10, 0.2) == 1.0
    assert warmup_factor(3, 1.0, 10, 0.0) == 0.3


@pytest.mark.parametrize("schedule", ["inverse-sqrt", "cosine", "constant"])
def test_every_schedule_with_a_peak_follows_the_share(schedule: str) -> None:
    stated = TrainConfig(schedule=schedule, learning_rate=0.01, warmup=10, max_minutes=1)  # type: ignore[arg-type]
    shared = stated.model_copy(update={"warmup_share": 0.1})
    fall = cosine_factor(0.05) if schedule == "cosine" else 1.0
    assert learning_rate(stated, 64, 3, 0.05) == pytest.approx(0.003 * fall)
    assert learning_rate(shared, 64, 3, 0.05) == pytest.approx(0.005 * fall)
    for update in (20, 200):
        assert learning_rate(shared, 64, update, 0.9) == learning_rate(stated, 64, update, 0.9)


def test_the_warm_up_is_past_after_its_updates_or_its_share() -> None:
    config = TrainConfig(schedule="constant", learning_rate=0.01, warmup=10, max_minutes=1)
    assert not is_past_warmup(config, 10, 0.7) and is_past_warmup(config, 11, 0.7)
    shared = config.model_copy(update={"warmup_share": 0.1})
    assert not is_past_warmup(shared, 3, 0.1) and is_past_warmup(shared, 3, 0.11)


def test_the_cooldown_falls_linearly_to_nothing_at_the_end() -> None:
    factors = [cooldown_factor(done / 10, 0.4) for done in range(11)]
    assert factors == pytest.approx([1.0] * 7 + [0.75, 0.5, 0.25, 0.0])
    assert cooldown_factor(0.0, 1.0) == 1.0
    assert cooldown_factor(0.5, 0.0) == 1.0


@pytest.mark.parametrize("schedule", ["paper", "inverse-sqrt", "cosine", "constant"])
def test_the_cooldown_multiplies_every_schedule(schedule: str) -> None:
    peak = None if schedule == "paper" else 0.01
    plain = TrainConfig(schedule=schedule, learning_rate=peak, warmup=4, max_updates=20)  # type: ignore[arg-type]
    cooled = plain.model_copy(update={"cooldown": 0.5})
    for done in (0.0, 0.5, 0.75, 1.0):
        expected = learning_rate(plain, 64, 9, done) * min(1.0, 2 * (1 - done))
        assert learning_rate(cooled, 64, 9, done) == pytest.approx(expected)


def config(**values: object) -> TrainConfig:
    return TrainConfig.model_validate({"learning_rate": 0.1, "max_updates": 1000} | values)


def stalled(update: int, at: int) -> Progress:
    """The progress of a run whose patience of 3 was spent at an update."""
    return Progress(update=update, since_best=3, stalled=at, patience_spent=3)


@pytest.mark.parametrize(
    ("values", "progress", "since", "word"),
    [
        ({"max_updates": 5}, Progress(update=4), 0, ""),
        ({"max_updates": 5}, Progress(update=5), 0, "max_updates"),
        ({"max_epochs": 2}, Progress(update=9, epoch=1), 0, ""),
        ({"max_epochs": 2}, Progress(update=9, epoch=2), 0, "max_epochs"),
        ({"max_minutes": 1.0}, Progress(update=9, seconds=30), 9, ""),
        ({"max_minutes": 1.0}, Progress(update=9, seconds=30), 20, "max_minutes"),
        ({"max_minutes": 1.0}, Progress(update=0), 1000, ""),
        ({"patience": 3}, Progress(update=9, since_best=2), 0, ""),
        ({"patience": 3}, Progress(update=9, since_best=3), 0, "3 validations"),
        ({"patience": 0}, Progress(update=9, since_best=99), 0, ""),
        ({"patience": 3, "cooldown": 0.2}, Progress(update=9, since_best=3), 0, ""),
        ({"patience": 3, "cooldown": 0.2}, stalled(9, 8), 0, ""),
        ({"patience": 3, "cooldown": 0.2}, stalled(10, 8), 0, "3 validations brought nothing"),
        ({"patience": 4, "cooldown": 0.2}, stalled(10, 8), 0, ""),
        ({"patience": 2, "cooldown": 0.2}, stalled(10, 8), 0, "3 validations brought nothing"),
        ({"patience": 0, "cooldown": 0.2}, stalled(10, 8), 0, ""),
    ],
)
def test_the_first_limit_that_is_reached_is_named(
    values: dict[str, object], progress: Progress, since: float, word: str
) -> None:
    found = budget_spent(config(**values), progress, Overhead(before=10), since)
    assert found.text.startswith(word) if found else not word


def test_the_last_fifth_of_a_run_comes_after_its_patience() -> None:
    """The run is then done to 0.8, however long its other budgets are."""
    patient = config(patience=3, cooldown=0.2, max_updates=10_000)
    assert fraction_done(patient, Progress(update=800), Overhead(), 0) == 0.08
    found = [fraction_done(patient, stalled(each, 800), Overhead(), 0) for each in (800, 900, 1000)]
    assert found == pytest.approx([0.8, 0.9, 1.0])
    nearly_over = config(patience=3, cooldown=0.2, max_updates=820)
    assert fraction_done(nearly_over, stalled(810, 800), Overhead(), 0) == 810 / 820


@pytest.mark.parametrize("cooldown", [0.1, 0.5, 0.9])
def test_the_rate_falls_evenly_from_the_update_at_which_patience_is_spent(cooldown: float) -> None:
    patient = config(patience=3, cooldown=cooldown, max_updates=10_000)
    done = [fraction_done(patient, stalled(each, 800), Overhead(), 0) for each in (800, 900, 1000)]
    factors = [cooldown_factor(each, cooldown) for each in done]
    assert factors == pytest.approx([1.0, 0.5, 0.0]) and done[-1] == 1.0


def test_a_fall_that_has_begun_goes_on_evenly_once_patience_is_spent() -> None:
    budget = config(patience=3, cooldown=0.9, max_updates=1000)
    done = [fraction_done(budget, stalled(each, 500), Overhead(), 0) for each in (500, 550, 625)]
    factors = [cooldown_factor(each, 0.9) for each in done]
    assert factors == pytest.approx([5 / 9, 5 / 9 * 0.6, 0.0])


def test_minutes_leave_time_for_as_long_as_the_end_takes() -> None:
    progress = Progress(update=9, seconds=30, validation_seconds=5)
    minute = config(max_minutes=1.0)
    assert not budget_spent(minute, progress, Overhead(validations_after=4), 9)
    end = budget_spent(minute, progress, Overhead(validations_after=4), 10)
    assert end and end.kind is EndKind.MAX_MINUTES
    assert end.text.endswith("is reached: validation and scoring at the end need about 20 seconds")


def test_at_most_half_of_the_minutes_are_left_for_the_end_of_a_run() -> None:
    """The first validation is the slowest: a model that has learned little writes long outputs."""
    progress = Progress(update=1, seconds=29, validation_seconds=20.75)
    minute, overhead = config(max_minutes=1.0), Overhead(validations_after=4)
    assert not budget_spent(minute, progress, overhead, 0)
    found = budget_spent(minute, progress, overhead, 1)
    assert found and "need about 30 seconds" in found.text
    assert fraction_done(minute, progress, overhead, 0) == pytest.approx(29 / 30)


def test_nothing_is_done_before_the_first_update() -> None:
    late = Overhead(before=100)
    assert fraction_done(config(max_minutes=1.0), Progress(), late, 0) == 0
    assert fraction_done(config(max_minutes=1.0), Progress(update=1), late, 0) == 1


@pytest.mark.parametrize(("minutes", "is_spent"), [(0.5, True), (1.0, True), (1.5, False)])
def test_minutes_that_have_ended_a_run_are_spent(minutes: float, is_spent: bool) -> None:
    """The time that was kept for its end is not left to train in."""
    progress = Progress(update=9, seconds=15, minutes_spent=1.0)
    assert bool(budget_spent(config(max_minutes=minutes), progress, Overhead(), 0)) == is_spent


def test_a_validation_is_measured_once_and_at_half_of_the_minutes() -> None:
    minute, overhead = config(max_minutes=1.0), Overhead(before=10, validations_after=2)
    assert not needs_timed_validation(minute, Progress(update=1), overhead, 19)
    assert needs_timed_validation(minute, Progress(update=1), overhead, 20)
    once = Progress(update=2, validation_seconds=1, validated=1)
    assert not needs_timed_validation(minute, once, overhead, 20)
    assert not needs_timed_validation(config(), Progress(update=1), overhead, 1e9)


def test_the_share_is_of_the_budget_that_ends_the_run_first() -> None:
    overhead = Overhead(before=10, validations_after=2)
    progress = Progress(update=250, seconds=10, validation_seconds=5)
    assert fraction_done(config(), progress, overhead, 0) == 0.25
    assert fraction_done(config(max_minutes=1.0), progress, overhead, 10) == 0.5
    assert fraction_done(config(max_minutes=0.1), progress, overhead, 10) == 1


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"patience": 0}, "training ends after 1,000 updates"),
        (
            {"max_updates": None, "max_epochs": 1, "patience": 1},
            "training ends after 1 epoch or 1 validation without improvement",
        ),
        (
            {"max_minutes": 1.5, "patience": 0},
            "training ends after 1,000 updates or 1.5 minutes",
        ),
        (
            {"patience": 3, "cooldown": 0.9},
            "training ends after 1,000 updates or 3 validations without improvement, after the "
            "learning rate has fallen to 0",
        ),
    ],
)
def test_a_line_says_what_the_percentage_is_of(values: dict[str, object], line: str) -> None:
    assert budget_line(config(**values)) == line
