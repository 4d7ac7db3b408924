import pytest

from crosshead.addons.studies.effort import (
    FULL,
    QUICK,
    Effort,
    Times,
    duration,
    effort_within,
    minutes_of,
    seeds_of,
)


def test_amounts_lie_between_the_quick_and_the_full_form() -> None:
    assert [each.amount(20, 800) for each in (QUICK, Effort(0.5), FULL)] == [20, 410, 800]


def test_a_budget_becomes_the_share_that_fills_it() -> None:
    times = Times(quick=60, full=660)
    effort = effort_within(6, [times])
    assert effort == Effort(0.5)
    assert minutes_of(effort, times) == pytest.approx(6)
    together = effort_within(6, [times, Times(quick=0, full=60)])
    assert sum(minutes_of(together, each) for each in (times, Times(0, 60))) == pytest.approx(6)


@pytest.mark.parametrize(("minutes", "found"), [(0.1, QUICK), (1, QUICK), (11, FULL), (99, FULL)])
def test_a_budget_beyond_both_forms_is_the_nearer_one(minutes: float, found: Effort) -> None:
    assert effort_within(minutes, [Times(quick=60, full=660)]) == found


def test_only_the_full_form_has_no_caveat() -> None:
    assert FULL.caveat == "" and FULL.full and not FULL.quick
    assert QUICK.quick and "says nothing about the claim" in QUICK.caveat
    assert "25% of the full form" in Effort(0.25).caveat
    assert "0.3% of the full form" in Effort(0.003).caveat
    assert "99% of the full form" in Effort(0.999).caveat
    folders = [each.folder for each in (FULL, QUICK, Effort(0.25))]
    assert len(set(folders)) == 3


def test_all_but_the_quick_form_have_several_seeds() -> None:
    assert seeds_of(QUICK, 3) == [3000]
    assert seeds_of(Effort(0.01), 3) == seeds_of(FULL, 3) == [3000, 3001]
    assert seeds_of(FULL, 1, 5) == [1000, 1001, 1002, 1003, 1004]


def test_times_are_read_easily() -> None:
    assert [*map(duration, (0.2, 6, 300, 3600, 5100))] == [
        "1 s",
        "6 s",
        "5 min",
        "1 h",
        "1 h 25 min",
    ]
