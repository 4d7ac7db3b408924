import math

import pytest

from crosshead.addons.studies.formats import joined, number


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"), (0.0, "0"), (64, "64"), (0.98765, "0.988"), (-0.4034, "-0.403"), (1.5, "1.5"),
        (123.4, "123"), (999.4, "999"), (999.7, "1,000"), (1000.4, "1,000"), (12345, "12,345"),
        (99_999.4, "99,999"),
        (100_000, "1.0e+05"), (0.001, "0.001"), (0.000999, "1.0e-03"), (3e-8, "3.0e-08"),
        (-2e7, "-2.0e+07"), (math.inf, "inf"),
    ],
)  # fmt: skip
def test_three_digits_are_shown_and_powers_only_of_very_large_and_small_numbers(
    value: float, shown: str
) -> None:
    assert number(value) == shown


def test_numbers_are_listed_in_one_form() -> None:
    assert joined([1, 2.25, 100], ".1f") == "1.0, 2.2, 100.0"
    assert joined([], ".1f") == ""
