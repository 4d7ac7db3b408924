import pytest

from crosshead.addons.studies.effort import FULL, QUICK, Effort, duration, effort_within


def test_a_budget_becomes_the_share_that_fills_it() -> None:
    assert effort_within(6, [720]) == Effort(0.5)
    assert effort_within(6, [660, 60]) == Effort(0.5)


@pytest.mark.parametrize("minutes", [12, 99])
def test_a_budget_beyond_the_full_form_is_the_full_form(minutes: float) -> None:
    assert effort_within(minutes, [720]) == FULL


def test_only_the_full_form_has_no_caveat() -> None:
    assert FULL.caveat == "" and FULL.full and not FULL.quick
    assert QUICK.quick and "says nothing about the claim" in QUICK.caveat
    assert "25% of the full form" in Effort(0.25).caveat
    assert "0.3% of the full form" in Effort(0.003).caveat
    assert "99% of the full form" in Effort(0.999).caveat
    folders = [each.folder for each in (FULL, QUICK, Effort(0.25))]
    assert len(set(folders)) == 3


def test_times_are_read_easily() -> None:
    assert [*map(duration, (0.2, 6, 300, 3600, 5100))] == [
        "1 s",
        "6 s",
        "5 min",
        "1 h",
        "1 h 25 min",
    ]
