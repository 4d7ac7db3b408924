import math

import pytest

from crosshead.addons.studies.study import (
    Band,
    Value,
    duration,
    judge,
    reported,
)
from tests.addons.studies.trials import full, quick

BANDS = (Band("low", 0, 1, "why"), Band("high", 2, math.inf, "why"))
FAILED = "a precondition failed"


@pytest.mark.parametrize(
    ("measured", "word"),
    [
        ({"low": 0.0, "high": 2.0}, "holds"),
        ({"low": 1.0, "high": math.inf}, "holds"),
        ({"low": 1.01, "high": 2.0}, "holds in part"),
        ({"low": 0.5}, "holds as far as measured"),
        ({"low": 0.5, "high": FAILED}, "holds as far as measured"),
        ({"low": -0.01, "high": 1.99}, "does not hold"),
        ({"low": -0.01}, "does not hold"),
        ({"low": FAILED, "high": FAILED}, "not measured"),
        ({}, "not measured"),
    ],
)
def test_the_verdict_follows_from_the_numbers(measured: dict[str, Value], word: str) -> None:
    assert judge(BANDS, measured).word == word


def test_a_verdict_counts_neither_for_nor_against_what_was_not_measured() -> None:
    bands = (*BANDS, Band("third", 0, 0, "why"))
    verdict = judge(bands, {"low": 2.0, "high": FAILED, "third": 0.0})
    assert verdict.unmeasured == {"high": "a precondition failed"}
    assert str(verdict) == "holds in part: 1 of 2 as expected, 1 not measured; not: low"


def test_what_is_reported_is_not_judged() -> None:
    bands = (*BANDS, reported("middle", "no source has a number"))
    verdict = judge(bands, {"low": 0.5, "high": 2.0, "middle": -99.0})
    assert verdict.word == "holds" and verdict.met_of_all == "2 of 2"


def test_a_number_that_nobody_expected_is_refused() -> None:
    with pytest.raises(ValueError, match="'middle' is measured but has no"):
        judge(BANDS, {"low": 0.5, "middle": 1.0})


def test_nothing_is_left_unmeasured_without_a_reason() -> None:
    with pytest.raises(ValueError, match="'low' is NaN; say why"):
        judge(BANDS, {"low": math.nan})


def test_the_quick_form_has_its_own_amounts_and_one_seed() -> None:
    assert [each.amount(20, 800) for each in (quick(), full())] == [20, 800]
    assert (quick().seeds(), full().seeds()) == ([1000], [1000, 1001])
    assert full().seeds(5) == [1000, 1001, 1002, 1003, 1004]


def test_bands_are_read_easily() -> None:
    bands = [Band("", 0, 0, ""), Band("", 0.5, math.inf, ""), Band("", -math.inf, 1e-6, "")]
    assert [*map(str, bands), str(BANDS[0])] == [
        "exactly 0", "at least 0.5", "at most 1.0e-06", "0 to 1",
    ]  # fmt: skip


def test_times_are_read_easily() -> None:
    assert [*map(duration, (0.2, 6, 300, 3600, 5100))] == [
        "1 s",
        "6 s",
        "5 min",
        "1 h",
        "1 h 25 min",
    ]
