from pathlib import Path

import numpy as np
import pytest
import torch

from crosshead.addons.series.reading import Series
from crosshead.addons.series.steps import Step, calendar
from crosshead.addons.series.windows import Scale, fit_scale, split_rows, windows
from tests.text.written import HOUR, hours, read, read_series, refusal, write_series


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
    for factor in (1e-200, 1e95):  # of squares that are no numbers
        wide = fit_scale(Series(("a", "b"), grid, values * factor, observed, HOUR), 60)
        assert wide.deviation / factor == pytest.approx(found.deviation, rel=1e-9)
    values[:60, 0] = 4.2
    assert fit_scale(Series(("a", "b"), grid, values, observed, HOUR), 60).deviation[0] == 0


def test_values_far_from_those_of_training_are_refused(tmp_path: Path) -> None:
    found = read(tmp_path, hours([1, 2, 1, 2, 1e20]))
    scale = fit_scale(found, 4)
    said = refusal(windows, [(found, scale)], 2, 2, 1)
    assert said.startswith(
        "the value 1e+20 of column 'a' at 2024-01-01 04:00:00 is more than 1e+12"
    )
    assert len(windows([(read(tmp_path, hours([1, 2, 1, 2, 1e9])), scale)], 2, 2, 1).starts) == 2


def test_windows_are_slices_and_stay_in_their_period(tmp_path: Path) -> None:
    found = read_series([str(write_series(tmp_path / "s.csv", rows=100))])
    scale = Scale(np.zeros(2), np.ones(2))
    every = windows([(found, scale)], 12, 4, 2)
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
    train = windows([(found, Scale(np.zeros(2), np.ones(2)))], 12, 4, 2)
    plan = train.plan(24 * 10, seed=1, epoch=0)
    assert [len(rows) for rows in plan] == [10] * 8 + [5]
    assert sorted(np.concatenate(plan)) == list(range(85))
    again, other = train.plan(24 * 10, 1, 0), train.plan(24 * 10, 1, 1)
    assert all(map(np.array_equal, plan, again)) and not all(map(np.array_equal, plan, other))
    assert "each window of 12 steps of 2 columns has 24 values, more than the 23" in refusal(
        train.plan, 23, 1, 0
    )


def test_windows_that_would_predict_only_filled_values_are_left_out(tmp_path: Path) -> None:
    found = read(tmp_path, hours([1, 2, 3, "", "", "", 7, 8]))
    made = windows([(found, Scale(np.zeros(1), np.ones(1)))], 2, 2, 1).between(0, 8)
    assert made.starts.tolist() == [0, 3, 4]
    assert made.collate([0]).observed[0, :, 0].tolist() == [True, False]
    assert made.collate([0, 1, 2]).count == 4


def test_columns_that_are_only_read_are_no_targets(tmp_path: Path) -> None:
    found = read(tmp_path, "date,a,b\n" + "".join(
        f"2024-01-0{day},{day if day < 5 else ''},{10 * day}\n" for day in range(1, 8)
    ))  # fmt: skip
    made = windows([(found, Scale(np.zeros(2), np.ones(2)))], 2, 2, 1).between(0, 7)
    assert made.starts.tolist() == [0, 1]  # later horizons have values of `b` alone
    batch = made.collate([1])
    assert batch.context[0].tolist() == [[2, 20], [3, 30]]
    assert batch.target[0].tolist() == [[4], [4]]
    assert batch.observed[0].tolist() == [[True], [False]] and batch.count == 1
    assert made.lengths.tolist() == [[4], [4]]
    assert Scale(np.array([1, 2]), np.array([3, 4])).first(1).unscaled(np.array([2])) == [7]
