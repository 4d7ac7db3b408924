import gzip
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from crosshead.config import validate
from crosshead.data import series as module
from crosshead.data.series import (
    Scale,
    Series,
    SeriesData,
    Step,
    calendar,
    fit_scale,
    read_series,
    split_rows,
    windows,
)
from crosshead.errors import ConfigError, DataError
from tests.data.written import refusal, write, write_series

HOUR = Step(3_600_000_000)


def days(count: int) -> Step:
    return Step(count * 24 * 3_600_000_000)


def read(path: Path, text: str, *target: str) -> Series:
    return read_series([str(write(path / "s.csv", text))], target)


def hours(values: list[object], skip: tuple[int, ...] = ()) -> str:
    rows = [f"2024-01-01 {hour:02}:00,{value}" for hour, value in enumerate(values)]
    return "\n".join(["date,a", *(row for hour, row in enumerate(rows) if hour not in skip)])


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
    assert said.startswith(f"{first}:2: the time 2024-01-01 comes after 2024-01-03 01:00:00")


def test_gaps_are_filled_with_the_value_before_and_counted(tmp_path: Path) -> None:
    found = read(tmp_path, hours(["", 2, "NA", 4, 5, 6], skip=(4,)))
    assert found.values[:, 0].tolist() == [2, 2, 2, 4, 4, 6]
    assert found.observed[:, 0].tolist() == [False, True, False, True, False, True]
    assert found.notes == (
        "1 missing row added and filled",
        "2 missing values filled with the value before",
    )


def test_of_rows_with_one_time_the_last_counts(tmp_path: Path) -> None:
    found = read(tmp_path, hours([1, 2, 3]) + "\n2024-01-01 02:00,9")
    assert found.values[:, 0].tolist() == [1, 2, 9]
    assert found.notes == ("1 row left out: with the same time as a later row",)


def test_of_two_rows_in_a_month_the_last_counts(tmp_path: Path) -> None:
    rows = ["2024-01-01,1", "2024-02-01,2", "2024-02-29,3", "2024-03-31,4", "2024-04-30,5"]
    found = read(tmp_path, "\n".join(["month,a", *rows]))
    assert found.values[:, 0].tolist() == [1, 3, 4, 5]
    assert found.notes == ("1 row left out: in the same step as a later row",)


def test_a_few_times_move_to_the_grid_and_many_are_refused(tmp_path: Path) -> None:
    text = hours(list(range(20)))
    found = read(tmp_path, text.replace("07:00", "07:10"))
    assert found.notes == ("1 time moved to the nearest step of 1 hour",)
    assert found.values[:, 0].tolist() == list(range(20)) and found.observed.all()
    many = re.sub(r"1(\d):00", r"1\1:10", text)
    with pytest.raises(DataError, match=r"10 of 20 times are not whole steps of 1 hour"):
        read(tmp_path, many)
    with pytest.raises(DataError, match=r"most of its rows are missing \(4 of 13 are there\)"):
        read(tmp_path, hours(list(range(13)), skip=(2, 3, 4, 5, 6, 7, 8, 9, 10)))


@pytest.mark.parametrize(
    ("times", "step", "following"),
    [
        (["1949-01", "1949-02", "1949-03"], "1 month", "1949-04-01"),
        (["2024-01-31", "2024-02-29", "2024-03-31"], "1 month", "2024-04-30"),
        (["2023-03-31", "2023-06-30", "2023-09-30"], "3 months", "2023-12-31"),
        (["2022-05-01", "2023-05-01", "2024-05-01"], "12 months", "2025-05-01"),
        (["2024-01-01", "2024-01-08", "2024-01-15"], "7 days", "2024-01-22"),
        (["2024-01-01T00:00:00+02:00", "2024-01-01T00:15:00+02:00"], "15 minutes",
         "2024-01-01T00:30"),
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
        (days(30), 1),
    ],
)  # fmt: skip
def test_seasons_are_guessed_from_the_step(step: Step, season: int) -> None:
    assert step.season() == season


@pytest.mark.parametrize(
    ("text", "target", "words"),
    [
        ("date,load\n2024-01-01,1\n2024-01-02,2", ["lod"], "no column 'lod'; did you mean 'load'?"),
        ("date,a\n2024-01-01,1\n2024-01-02,two", [], ":3: column 'a': expected a number, found 't"),
        ("date,a\n2024-01-01,1\n2024-01-02,inf", [], ":3: column 'a': expected a number"),
        ("date,a\n2024-01-01,1\nyesterday,2", [], ":3: column 'date': expected a time such as"),
        ("date,a\n2024-01-02,1\n2024-01-01,2", [], ":3: the time 2024-01-01 comes after"),
        ("date,a\n2024-01-01,1\n2024-01-02,1,2", [], ":3: expected 2 cells as in the first line"),
        ("date,a,a\n2024-01-01,1,2", [], "two columns are called 'a'"),
        ("", [], "is empty; expected a line of column names"),
        ("\n\n", [], "is empty"),
        ("date,a\n", [], "is empty"),
        ("a,b\n1,2\n3,4", [], "there is no time column among a, b; name it with data.time"),
        ("date,a\n2024-01-01,1", [], "expected at least two rows with different times"),
        ("date,a\n2024-01-01,1\n2024-01-02,2", ["date"], "'date' is the time column"),
        ("date,a\n2024-01-01,x\n2024-01-02,y", [], "there is no column of numbers beside 'date'"),
        ("date,a,b\n2024-01-01,1,\n2024-01-02,2,", ["b"], "column 'b' has no value at all"),
    ],
)
def test_bad_files_are_refused_in_one_line(
    text: str, target: list[str], words: str, tmp_path: Path
) -> None:
    path = write(tmp_path / "s.csv", text)
    said = refusal(read_series, [str(path)], target)
    assert said.startswith(str(path)) and words in said


def test_missing_and_binary_files_are_refused(tmp_path: Path) -> None:
    assert "no such file" in refusal(read_series, [str(tmp_path / "no.csv")])
    path = write(tmp_path / "s.csv", b"date,a\n2024-01-01,\xff")
    assert "not UTF-8" in refusal(read_series, [str(path)])


def test_parquet_needs_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    said = refusal(read_series, [str(write(tmp_path / "s.parquet", b"PAR1"))])
    assert "pip install pyarrow" in said


def test_columns_of_text_are_left_out_unless_they_are_named(tmp_path: Path) -> None:
    text = "when,a,city\n2024-01-01,1,Rome\n2024-01-02,2,Rome"
    found = read(tmp_path, text)
    assert found.names == ("a",)
    assert found.notes == ("columns without numbers are left out: city",)
    with pytest.raises(DataError, match=r":2: column 'city': expected a number, found 'Rome'"):
        read(tmp_path, text, "city")


def test_periods_are_those_of_the_papers() -> None:
    assert split_rows("12/4/4 months", 17_420, HOUR) == (8640, 11_520, 14_400)
    assert split_rows("70/10/20", 1000, HOUR) == (700, 800, 1000)
    assert split_rows("5/2/1 rows", 10, HOUR) == (5, 7, 8)
    assert split_rows("10/1/1 days", 400, HOUR) == (240, 264, 288)
    assert split_rows("24/12/12 months", 50, Step(months=1)) == (24, 36, 48)
    assert "needs 288 rows, but the series has 100" in refusal(split_rows, "10/1/1 days", 100, HOUR)
    assert "add up to 100" in refusal(split_rows, "70/10/10", 100, HOUR)


def test_scale_is_fitted_to_the_training_rows_alone(tmp_path: Path) -> None:
    values = np.random.default_rng(1).normal(3, 2, (100, 2))
    grid = np.datetime64("2024-01-01", "us") + np.arange(100) * np.timedelta64(1, "h")
    observed = np.ones((100, 2), bool)
    observed[::7, 1] = False
    found = fit_scale(Series(("a", "b"), grid, values, observed, HOUR), 60)
    assert found.mean[0] == values[:60, 0].mean() and found.deviation[0] == values[:60, 0].std()
    assert found.mean[1] == pytest.approx(values[:60, 1][observed[:60, 1]].mean())
    assert found.unscaled(found.scaled(values)) == pytest.approx(values)
    values[:60, 0] = 4.2
    assert fit_scale(Series(("a", "b"), grid, values, observed, HOUR), 60).deviation[0] == 0


def test_windows_are_slices_and_stay_in_their_period(tmp_path: Path) -> None:
    found = read_series([str(write_series(tmp_path / "s.csv", rows=100))])
    scale = Scale(np.zeros(2), np.ones(2))
    every = windows(found, scale, 12, 4)
    train, valid, test = (every.between(*rows) for rows in ((0, 70), (70, 80), (80, 100)))
    assert train.starts.tolist() == list(range(70 - 12 - 4 + 1))
    assert valid.starts.tolist() == list(range(58, 65))  # the context begins in training
    assert test.starts.tolist() == list(range(68, 85))
    batch = test.collate([0, 16])
    values = torch.from_numpy(found.values.astype(np.float32))
    assert torch.equal(batch.context, torch.stack([values[68:80], values[84:96]]))
    assert torch.equal(batch.target, torch.stack([values[80:84], values[96:100]]))
    known = torch.from_numpy(calendar(found.times))
    assert torch.equal(batch.known, torch.stack([known[68:84], known[84:100]]))
    assert batch.count == 16 and test.lengths.tolist() == [[24]] * 17


def test_a_plan_has_each_window_once_and_depends_on_seed_and_epoch(tmp_path: Path) -> None:
    found = read_series([str(write_series(tmp_path / "s.csv", rows=100))])
    train = windows(found, Scale(np.zeros(2), np.ones(2)), 12, 4)
    plan = train.plan(24 * 10, seed=1, epoch=0)
    assert [len(rows) for rows in plan] == [10] * 8 + [5]
    assert sorted(np.concatenate(plan)) == list(range(85))
    again, other = train.plan(24 * 10, 1, 0), train.plan(24 * 10, 1, 1)
    assert all(map(np.array_equal, plan, again)) and not all(map(np.array_equal, plan, other))
    assert "a window reads 12 steps of 2 columns, more than" in refusal(train.plan, 23, 1, 0)


def test_windows_that_would_predict_only_filled_values_are_left_out(tmp_path: Path) -> None:
    found = read(tmp_path, hours([1, 2, 3, "", "", "", 7, 8]))
    made = windows(found, Scale(np.zeros(1), np.ones(1)), 2, 2)
    assert made.starts.tolist() == [0, 3, 4]
    assert made.collate([0]).observed[0, :, 0].tolist() == [True, False]
    assert made.collate([0, 1, 2]).count == 4


def test_calendar_features() -> None:
    times = np.array(["2024-01-01 12:00", "2023-12-31 00:00"], "M8[us]")
    assert calendar(times) == pytest.approx(
        np.array([[0, -0.5, -0.5, -0.5], [-0.5, 0.5, 0.5, 364 / 365 - 0.5]])
    )


def test_a_time_of_the_series_is_found(tmp_path: Path) -> None:
    found = read_series([str(write_series(tmp_path / "s.csv", rows=48))])
    assert found.row("2024-01-02") == 24 and found.row("2024-01-03 00:00") == 48
    assert "is not in the series, which has rows from 2024-01-01 to" in refusal(
        found.row, "2024-01-03 01:00"
    )
    assert "expected a time such as" in refusal(found.row, "soon")


def test_columns_may_be_given_in_one_text() -> None:
    assert SeriesData(target=["a, b", "c"]).target == ["a", "b", "c"]  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"^target: names 'x' twice"):
        validate(SeriesData, {"target": "x,y,x"})
    assert SeriesData(series="a.csv", target="x,y").target == ["x", "y"]  # type: ignore[arg-type]
    assert calendar(np.array(["2024-01-01"], "M8[us]")).shape[-1] == module.CALENDAR


def test_parquet_is_read_like_csv(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow, which reads Parquet, is missing")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = write_series(tmp_path / "s.csv", rows=50)
    expected = read_series([str(path)])
    columns = {name: expected.values[:, place] for place, name in enumerate(expected.names)}
    table = pyarrow.table({"date": expected.times, **columns})
    parquet.write_table(table, tmp_path / "s.parquet")
    found = read_series([str(tmp_path / "s.parquet")])
    assert np.array_equal(found.values, expected.values)
    assert np.array_equal(found.times, expected.times) and found.names == expected.names
