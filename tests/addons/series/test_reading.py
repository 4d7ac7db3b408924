import gzip
import re
from pathlib import Path

import numpy as np
import pytest

from crosshead.addons.series.steps import Step
from crosshead.errors import DataError
from tests.text.written import HOUR, hours, read, read_series, refusal, write, write_series


def test_a_regular_file_is_read_as_it_is(tmp_path: Path) -> None:
    found = read_series([str(write_series(tmp_path / "s.csv", rows=50))])
    assert found.names == ("load", "price") and len(found) == 50 and not found.notes
    assert found.step == HOUR and found.step.words() == "1 hour" and found.step.season() == 24
    assert found.observed.all() and found.values[0] == pytest.approx([10, 6])
    assert str(found.times[1]) == "2024-01-01T01:00:00.000000"


def test_files_continue_one_another_and_may_be_packed(tmp_path: Path) -> None:
    whole = write_series(tmp_path / "s.csv", rows=50)
    head, *rows = whole.read_text().splitlines()
    first = write(tmp_path / "a.csv", "\n".join([head, *rows[:20]]))
    second = tmp_path / "b.csv.gz"
    second.write_bytes(gzip.compress("\n".join([head, *rows[20:]]).encode()))
    found, expected = read_series([str(first), str(second)]), read_series([str(whole)])
    assert np.array_equal(found.values, expected.values)
    assert np.array_equal(found.times, expected.times)
    said = refusal(read_series, [str(second), str(first)])
    assert said.startswith(f"{first}:2: the time 2024-01-01 stands below a later time; sort")


def test_gaps_are_filled_with_the_value_before_and_counted(tmp_path: Path) -> None:
    found = read(tmp_path, hours([1, 2, "NA", 4, 5, 6], skip=(4,)))
    assert found.values[:, 0].tolist() == [1, 2, 2, 4, 4, 6]
    assert found.observed[:, 0].tolist() == [True, True, False, True, False, True]
    assert found.notes == (
        "1 missing row added and filled",
        "1 missing value filled with the value before",
    )


def test_rows_before_the_first_value_of_a_column_are_left_out(tmp_path: Path) -> None:
    """A later value in its place would be the future of the forecasts that read it."""
    rows = ["date,a,b", *(f"2024-01-0{day},{day},{day if day > 3 else ''}" for day in range(1, 8))]
    rows[6] = "2024-01-06,,6"
    found = read_series([str(write(tmp_path / "s.csv", "\n".join(rows)))])
    assert found.values.tolist() == [[4, 4], [5, 5], [5, 6], [7, 7]]
    assert str(found.times[0]).startswith("2024-01-04")
    assert found.notes == (
        "3 rows left out at the beginning: column 'b' has its first value at 2024-01-04",
        "1 missing value filled with the value before",
    )


def test_of_rows_with_one_time_the_last_counts(tmp_path: Path) -> None:
    found = read(tmp_path, hours(list(range(10))) + "\n2024-01-01 09:00,99")
    assert found.values[:, 0].tolist() == [*range(9), 99]
    assert found.notes == ("1 row left out: in the same step as another row",)


@pytest.mark.parametrize(
    ("header", "row", "words"),
    [
        ("date,shop,a", "2024-01-{0:02},east,1\n2024-01-{0:02},west,2",
         "name the column that tells series apart (--id)"),
        ("date,a", "2024-01-{0:02},1\n2024-01-{0:02},2", "another row; give one row for each time"),
    ],
)  # fmt: skip
def test_several_series_in_one_file_are_refused(
    header: str, row: str, words: str, tmp_path: Path
) -> None:
    rows = [row.format(day) for day in range(1, 10)]
    found = refusal(read, tmp_path, "\n".join([header, *rows]))
    assert "9 of 18 rows have the time of another row" in found and words in found


def test_of_two_rows_in_a_month_the_last_counts(tmp_path: Path) -> None:
    rows = ["2024-01-01,1", "2024-02-01,2", "2024-02-29,3", "2024-03-31,4", "2024-04-30,5"]
    found = read(tmp_path, "\n".join(["month,a", *rows]))
    assert found.values[:, 0].tolist() == [1, 3, 4, 5]
    moved = "2 times moved to the nearest step of 1 month"
    assert found.notes == (moved, "1 row left out: in the same step as another row")


def test_an_odd_day_of_a_month_moves_alone(tmp_path: Path) -> None:
    """Also as the first row, which does not set the day of all others."""
    for odd in (0, 7):
        months = [f"2020-{month:02}-01" for month in range(1, 13)]
        given = [f"{day[:-2]}15" if row == odd else day for row, day in enumerate(months)]
        found = read(tmp_path, "\n".join(["month,a", *(f"{day},1" for day in given)]))
        assert found.times.astype("M8[D]").astype(str).tolist() == months
        assert found.notes == ("1 time moved to the nearest step of 1 month",)


def test_a_few_times_move_to_the_grid_and_many_are_refused(tmp_path: Path) -> None:
    text = hours(list(range(20)))
    found = read(tmp_path, text.replace("07:00", "07:10"))
    assert found.notes == ("1 time moved to the nearest step of 1 hour",)
    assert found.values[:, 0].tolist() == list(range(20)) and found.observed.all()
    many = re.sub(r"1(\d):00", r"1\1:10", text)
    with pytest.raises(DataError, match=r"step is 1 hour, but 10 of 20 times lie between"):
        read(tmp_path, many)
    with pytest.raises(DataError, match=r"9 of 13 rows are missing"):
        read(tmp_path, hours(list(range(13)), skip=(2, 3, 4, 5, 6, 7, 8, 9, 10)))


def test_of_several_columns_of_times_the_finest_counts(tmp_path: Path) -> None:
    rows = "".join(f"2024,2024-0{month},{month}\n" for month in range(1, 7))
    found = read(tmp_path, f"Year,Month,load\n{rows}")
    assert (found.names, found.step.words()) == (("Year", "load"), "1 month")


def test_a_time_of_the_series_is_found(tmp_path: Path) -> None:
    found = read_series([str(write_series(tmp_path / "s.csv", rows=48))])
    assert found.row("2024-01-02") == 24 and found.row("2024-01-03 00:00") == 48
    for time in ("2024-01-02 00:30", "2024-01-02 23:59", "2024-01-03 01:00", "1999-01-01"):
        assert refusal(found.row, time) == (
            f"the series has no row at {time}: it has one every 1 hour from 2024-01-01 to "
            "2024-01-02 23:00:00; give one of them"
        )
    assert "expected a time such as" in refusal(found.row, "soon")
    assert found.row("2024-01-02 23:00") == found.since("2024-01-02 22:30") == 47


AUTUMN = [
    f"2024-10-27T{hour:02}:{minute:02}:00{offset}"
    for offset, hours_of in (("+02:00", (0, 1, 2)), ("+01:00", (2, 3, 4)))
    for hour in hours_of
    for minute in (0, 30)
]
"""Half hours in Berlin on the day that has 02:00 to 03:00 twice."""


def zoned(times: list[str]) -> str:
    return "\n".join(["date,a", *(f"{time},{number}" for number, time in enumerate(times))])


@pytest.mark.parametrize("step", [1, 2])
def test_times_with_offsets_are_times_of_utc(step: int, tmp_path: Path) -> None:
    found = read(tmp_path, zoned(AUTUMN[::step]))
    assert found.values[:, 0].tolist() == list(range(len(AUTUMN) // step))
    assert found.notes == ("offsets of times from UTC are converted to UTC",)
    assert str(found.times[0])[:16] == "2024-10-26T22:00"
    assert str(found.times[-1])[:16] == ("2024-10-27T03:30" if step == 1 else "2024-10-27T03:00")
    assert found.row("2024-10-27T02:00+01:00") == found.row("2024-10-27 01:00") == 6 // step


def test_a_day_with_an_offset_stays_the_day(tmp_path: Path) -> None:
    days = [f"2024-10-{day}T00:00:00+0{1 + (day < 28)}:00" for day in range(20, 31)]
    found = read(tmp_path, zoned(days))
    assert found.observed.all() and found.step.words() == "1 day"
    assert str(found.times[-1])[:16] == "2024-10-30T00:00"
    assert found.notes == (
        "offsets of times from UTC are left out: all times are the same on the clock",
    )
    assert found.row("2024-10-30T00:00:00+01:00") == found.row("2024-10-30") == 10


def test_some_times_with_an_offset_are_refused(tmp_path: Path) -> None:
    said = refusal(read, tmp_path, zoned([*AUTUMN[:2], "2024-10-27 01:00", AUTUMN[3]]))
    assert ":4: column 'date': expected an unambiguous time such as" in said


def test_business_days_have_no_rows_on_other_days(tmp_path: Path) -> None:
    """A holiday is a gap, and a rare row of another day moves to the calendar."""
    days = [str(np.busday_offset("2024-01-01", n)) for n in range(100)]
    rows = [f"{day},{n}" for n, day in enumerate(days) if n != 30]
    rows.insert(50, "2024-03-16,7")  # a Saturday
    found = read(tmp_path, "\n".join(["date,a", *sorted(rows)]))
    assert found.times.astype("M8[D]").astype(str).tolist() == days
    assert found.step.words() == "1 day (Mon, Tue, Wed, Thu, Fri)"
    assert np.flatnonzero(~found.observed).tolist() == [30] and found.step.season() == 5
    assert "1 missing row added and filled" in found.notes
    assert "1 time moved to the nearest step of 1 day (Mon, Tue, Wed, Thu, Fri)" in found.notes


@pytest.mark.parametrize("saturday", [0, 30, 60])
def test_a_row_of_a_saturday_moves_no_other_row(saturday: int, tmp_path: Path) -> None:
    days = [str(np.busday_offset("2024-01-08", n)) for n in range(60)]
    odd = str(np.datetime64("2024-01-06") + (saturday // 5) * 7)
    rows = sorted([*(f"{day},{n}" for n, day in enumerate(days)), f"{odd},99"])
    found = read(tmp_path, "\n".join(["date,a", *rows]))
    values = dict(zip(found.times.astype("M8[D]").astype(str), found.values[:, 0], strict=True))
    assert {day: values[day] for day in days} == {day: n for n, day in enumerate(days)}
    assert set(values) - set(days) == ({"2024-01-05"} if saturday == 0 else set())


def test_a_gap_in_days_is_no_calendar(tmp_path: Path) -> None:
    rows = [f"2024-01-{day:02},{day}" for day in range(1, 31) if day not in (6, 7)]
    found = read(tmp_path, "\n".join(["date,a", *rows]))
    assert found.step.words() == "1 day" and len(found) == 30


def test_gaps_of_whole_numbers_are_filled(tmp_path: Path) -> None:
    found = read(tmp_path, "step,a\n-4,1\n-2,2\n2,3\n4,4")
    assert found.times.tolist() == [-4, -2, 0, 2, 4] and found.step == Step(numbers=2)
    assert found.row("0") == 2 and found.row("6") == 5
    assert refusal(found.row, "3") == (
        "the series has no row at 3: it has one every 2 in whole numbers from -4 to 4; give one of "
        "them"
    )
    for time in ("soon", "2024-01-31"):
        assert "expected a time such as 4, found" in refusal(found.row, time)


def test_a_further_file_needs_the_columns_that_are_read(tmp_path: Path) -> None:
    first = write(tmp_path / "a.csv", "date,a,b\n2024-01-01,1,1\n2024-01-02,2,2")
    second = write(tmp_path / "b.csv", "c,date,a\n9,2024-01-03,3\n9,2024-01-04,4")
    both = [str(first), str(second)]
    assert read_series(both, ["a"]).values[:, 0].tolist() == [1, 2, 3, 4]
    assert refusal(read_series, both).startswith(f"{second}: there is no column 'b'")


def test_whole_numbers_stay_whole_numbers_where_they_look_like_years(tmp_path: Path) -> None:
    def rows(begin: int, end: int) -> Path:
        lines = ["t,load", *(f"{t},{t % 7}" for t in range(begin, end))]
        return write(tmp_path / f"{begin}.csv", "\n".join(lines))

    series = read_series([rows(0, 2000)])
    assert series.row("999") == 999 and series.row("1600") == series.since("1600") == 1600
    later = read_series([rows(1600, 1700)], (), None, None, series.step)
    assert later.fitting(["load"], series.step).times[0] == 1600
    assert read_series([rows(5000, 5400)]).step == series.step
