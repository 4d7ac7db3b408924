import itertools
import math

import pytest

from crosshead.recipe.train import TrainConfig
from crosshead.training.schedule import (
    cooldown_factor,
    cosine_factor,
    is_past_warmup,
    learning_rate,
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
