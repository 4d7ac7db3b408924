import math

import pytest

from crosshead.studies.study import Band, judge, number

BANDS = (Band("low", 0, 1, "why"), Band("high", 2, math.inf, "why"))


@pytest.mark.parametrize(
    ("measured", "word"),
    [
        ({"low": 0.0, "high": 2.0}, "holds"),
        ({"low": 1.0, "high": math.inf}, "holds"),
        ({"low": 1.01, "high": 2.0}, "holds in part"),
        ({"low": 0.5}, "holds in part"),
        ({"low": 0.5, "high": math.nan}, "holds in part"),
        ({"low": -0.01, "high": 1.99}, "does not hold"),
        ({"low": -0.01}, "does not hold"),
        ({"low": math.nan}, "not measured"),
    ],
)
def test_the_verdict_follows_from_the_numbers(measured: dict[str, float], word: str) -> None:
    assert judge(BANDS, measured).word == word


def test_a_verdict_names_what_was_not_met_and_what_was_not_measured() -> None:
    said = str(judge((*BANDS, Band("third", 0, 0, "why")), {"low": 2.0, "third": 0.0}))
    assert said == "holds in part: 1 of 3 as expected; not: low; not measured: high"


def test_a_number_that_nobody_expected_is_refused() -> None:
    with pytest.raises(ValueError, match="'middle' is measured, and no band"):
        judge(BANDS, {"low": 0.5, "middle": 1.0})


def test_bands_and_numbers_are_read_easily() -> None:
    bands = [Band("", 0, 0, ""), Band("", 0.5, math.inf, ""), Band("", -math.inf, 1e-6, "")]
    assert [*map(str, bands), str(BANDS[0])] == [
        "exactly 0", "at least 0.5", "at most 1.0e-06", "0 to 1",
    ]  # fmt: skip
    assert [*map(number, (12345, 0.98765, 64, math.inf, 3e-8, -0.4034))] == [
        "12,345", "0.988", "64", "inf", "3.0e-08", "-0.403",
    ]  # fmt: skip
