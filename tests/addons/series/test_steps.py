import datetime
from pathlib import Path

import numpy as np
import pytest

from crosshead.addons.series.steps import CALENDAR, Step, calendar, find_step, read_times
from tests.text.written import HOUR, read


def days(count: int) -> Step:
    return Step(count * 24 * 3_600_000_000)


@pytest.mark.parametrize(
    ("times", "step", "following"),
    [
        (["1949-01", "1949-02", "1949-03"], "1 month", "1949-04-01"),
        (["2024-01-31", "2024-02-29", "2024-03-31"], "1 month", "2024-04-30"),
        (["2023-03-31", "2023-06-30", "2023-09-30"], "3 months", "2023-12-31"),
        (["2022-05-01", "2023-05-01", "2024-05-01"], "12 months", "2025-05-01"),
        (["1870", "1871", "1872"], "12 months", "1873-01-01"),
        (["1/30/2024", "1/31/2024", "2/1/2024"], "1 day", "2024-02-02"),
        (["31/1/2024 12:00", "31/1/2024 13:00"], "1 hour", "2024-01-31T14:00"),
        (["2024-01-01", "2024-01-08", "2024-01-15"], "7 days", "2024-01-22"),
        (["2024-01-01T00:00:00", "2024-01-01T00:15:00"], "15 minutes", "2024-01-01T00:30"),
        (["2024-01-01 00:00:00.1", "2024-01-01 00:00:00.3"], "0.2 seconds",
         "2024-01-01T00:00:00.5"),
    ],
)  # fmt: skip
def test_steps_are_found_and_continued(
    times: list[str], step: str, following: str, tmp_path: Path
) -> None:
    rows = "".join(f"{time},{number}\n" for number, time in enumerate(times))
    found = read(tmp_path, f"ds;v\n{rows}".replace(",", ";"))
    assert found.step.words() == step and len(found) == len(times) and not found.notes
    assert found.step.after(found.times[-1], 1)[0] == np.datetime64(following, "us")


@pytest.mark.parametrize(
    ("step", "season"),
    [
        (Step(60_000_000), 1440), (Step(900_000_000), 96), (HOUR, 24), (days(1), 7), (days(7), 52),
        (Step(months=1), 12), (Step(months=3), 4), (Step(months=12), 1), (Step(1_000_000), 1),
        (days(30), 1), (days(2), 182), (Step(12 * HOUR.microseconds), 2),
        (Step(5 * HOUR.microseconds), 1), (Step(13 * HOUR.microseconds), 1),
    ],
)  # fmt: skip
def test_seasons_are_guessed_from_the_step(step: Step, season: int) -> None:
    assert step.season() == season


def test_calendar_features() -> None:
    times = np.array(["2024-01-01 12:00", "2023-12-31 00:00"], "M8[us]")
    assert calendar(times) == pytest.approx(
        np.array([[0, -0.5, -0.5, -0.5], [-0.5, 0.5, 0.5, 364 / 365 - 0.5]])
    )
    assert calendar(times).shape[-1] == CALENDAR


def test_digits_are_hours_or_seconds_or_milliseconds() -> None:
    noon = datetime.datetime(2024, 1, 31, 12)
    for cell in ("2024013112", "1706702400", "1706702400000", "202401311200"):
        assert read_times([cell]).values[0] == np.datetime64(noon)
    assert read_times(["17067024", "17067025"]).values.tolist() == [17067024, 17067025]


@pytest.mark.parametrize(
    ("cell", "time"),
    [
        ("31.01.24 13:30", "2024-01-31 13:30"), ("1.2.2024", "2024-02-01"),
        ("31.12.69", "1969-12-31"), ("31.12.68", "2068-12-31"),
        ("2024-01-31 12:05 AM", "2024-01-31 00:05"), ("2024-01-31 12:00:30 p.m.",
        "2024-01-31 12:00:30"), ("31.01.2024 1:00pm", "2024-01-31 13:00"),
    ],
)  # fmt: skip
def test_short_years_and_clocks_of_12_hours_are_read(cell: str, time: str) -> None:
    assert read_times([cell]).values[0] == np.datetime64(time, "us")


@pytest.mark.parametrize("cell", ["2024-01-31 13:00 PM", "2024-01-31 0:30 AM"])
def test_clocks_of_12_hours_have_hours_from_1_to_12(cell: str) -> None:
    assert np.isnat(read_times([cell]).values[0])


@pytest.mark.parametrize("days", [28, 30, 365])
def test_equal_steps_of_many_days_are_not_months(days: int) -> None:
    times = np.datetime64("2004-01-05", "us") + np.arange(40) * np.timedelta64(days, "D")
    known = np.delete(times, 7)  # one row is missing
    found = find_step([known])
    assert found is not None
    places, nearest, between = found.on_grid(known)
    assert found.words() == f"{days} days" and not between.any() and (nearest == known).all()
    assert places.tolist() == np.delete(np.arange(40), 7).tolist()


def test_the_last_days_of_three_months_are_months() -> None:
    times = np.array(["2024-06-30", "2024-07-31", "2024-08-31"], "M8[us]")
    assert find_step([times]) == Step(months=1, day=31)
