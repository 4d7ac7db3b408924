import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import crosshead
from crosshead.addons.series.forecaster import SeriesBundleConfig
from crosshead.addons.series.steps import Step, calendar
from crosshead.config import validate
from crosshead.errors import ConfigError, DataError
from tests.addons.series.forecasters import HOUR, forecaster
from tests.text.written import read_series, write, write_series


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_series(tmp_path / "s.csv", rows=100)


def test_a_forecast_follows_the_series_in_its_units(path: Path) -> None:
    forecast, series = forecaster(path), read_series([str(path)])
    found = forecast(path)
    assert found.values.shape == (5, 2) and not found.quantiles
    assert [str(time) for time in found.times[:2]] == [
        "2024-01-05T04:00:00.000000", "2024-01-05T05:00:00.000000",
    ]  # fmt: skip
    scale = forecast.bundle.scales[""]
    context = torch.from_numpy(scale.scaled(series.values[-30:]).astype(np.float32))[None]
    with torch.inference_mode():
        expected = forecast.model(context, torch.zeros(1, 35, 4))[0, :, :, 0].numpy()
    assert found.values == pytest.approx(scale.unscaled(expected), rel=1e-4)


def test_later_rows_are_not_read(path: Path, tmp_path: Path) -> None:
    forecast = forecaster(path, "series-recurrent", quantiles=[0.1, 0.5, 0.9])
    lines = path.read_text().splitlines()
    shorter = write(tmp_path / "short.csv", "\n".join(lines[:61]))
    early, late = forecast(shorter), forecast(path, start="2024-01-03 12:00")
    lines[61] = lines[61].rpartition(",")[0] + ",1e90"
    wild = write(tmp_path / "wild.csv", "\n".join(lines))
    assert np.array_equal(forecast(wild, start="2024-01-03 12:00").values, late.values)
    with pytest.raises(DataError, match=r"the value 1e\+90 of column 'price' at 2024-01-03 12:00"):
        forecast(wild, start="2024-01-03 13:00")
    assert late.first == 60 and len(late.series) == 100
    assert np.array_equal(early.values, late.values) and np.array_equal(early.times, late.times)
    assert all(np.array_equal(early.quantiles[each], late.quantiles[each]) for each in (0.1, 0.9))
    rows = list(early.rows())
    assert " ".join(rows[0]) == "time load load 0.1 load 0.9 price price 0.1 price 0.9"
    assert rows[1]["time"] == "2024-01-03 13:00:00" and rows[1]["load"] == early.values[1, 0]


@pytest.mark.parametrize("architecture", ["series-transformer", "series-recurrent"])
def test_columns_that_are_only_read_have_no_forecast(
    architecture: str, path: Path, tmp_path: Path
) -> None:
    forecast = forecaster(path, architecture, targets=1, quantiles=[0.1, 0.5, 0.9])
    start = "2024-01-03 12:00"
    found = forecast(path, start=start)
    assert found.values.shape == (5, 1) and found.series.names == ("load",)
    assert list(next(found.rows())) == ["time", "load", "load 0.1", "load 0.9"]
    scale = forecast.bundle.scales[""]
    series = read_series([str(path)])
    context = torch.from_numpy(scale.scaled(series.values[30:60]).astype(np.float32))[None]
    known = torch.from_numpy(calendar(series.times[30:65]))[None]
    with torch.inference_mode():
        expected = np.sort(forecast.model(context, known)[0, :, 0].numpy(), axis=-1)[:, 1]
    assert found.values[:, 0] == pytest.approx(
        expected * scale.deviation[0] + scale.mean[0], rel=1e-4
    )
    lines = [line.split(",") for line in path.read_text().splitlines()]

    def changed(row: int) -> np.ndarray:
        """The forecast with the input changed in a row of the file, and with its columns moved."""
        rows = [[price, time, load] for time, load, price in lines]
        rows[row + 1][0] = "8"
        other = write(tmp_path / "other.csv", "\n".join(map(",".join, rows)))
        return forecast(other, start=start).values

    assert np.array_equal(changed(60), found.values)  # the first row of the forecast
    assert not np.array_equal(changed(59), found.values)
    assert ["inputs", "price"] in forecast.facts()
    narrow = write(tmp_path / "one.csv", "\n".join(f"{time},{load}" for time, load, _ in lines))
    with pytest.raises(DataError, match=r"there is no column 'price'"):
        forecast(narrow)


def test_columns_are_found_by_name_and_a_series_is_taken_too(path: Path, tmp_path: Path) -> None:
    forecast = forecaster(path)
    lines = [line.split(",") for line in path.read_text().splitlines()]
    moved = [f"{price},x,{time},{load}" for time, load, price in lines]
    moved[0] = moved[0].replace(",x,", ",other,")
    other = write(tmp_path / "moved.csv", "\n".join(moved))
    expected = forecast(path).values
    assert np.array_equal(forecast(other).values, expected)
    assert np.array_equal(forecast(read_series([str(path)])).values, expected)


def test_series_that_do_not_fit_are_refused(path: Path, tmp_path: Path) -> None:
    forecast, lines = forecaster(path), path.read_text().splitlines()
    short = write(tmp_path / "short.csv", "\n".join(lines[:20]))
    with pytest.raises(DataError, match=r"has 19 rows before the forecast, .* reads 30"):
        forecast(short)
    with pytest.raises(DataError, match=r"has 24 rows before the forecast"):
        forecast(path, start="2024-01-02")
    with pytest.raises(DataError, match=r"no row at 2025-01-02"):
        forecast(path, start="2025-01-02")
    other = write(tmp_path / "two.csv", "\n".join([lines[0], *lines[1::2]]))
    with pytest.raises(DataError, match=r"every 2 hours, .* trained on one every 1 hour"):
        forecast(other)
    narrow = write(tmp_path / "one.csv", "\n".join(line.rpartition(",")[0] for line in lines))
    with pytest.raises(DataError, match=r"there is no column 'price'"):
        forecast(narrow)
    with pytest.raises(DataError, match=r"there is no column 'price' in the series"):
        forecast(read_series([str(narrow)]))


def test_filled_values_in_the_context_are_counted(path: Path, tmp_path: Path) -> None:
    forecast, lines = forecaster(path), path.read_text().splitlines()
    times = [line.partition(",")[0] for line in lines]
    gap = [*lines[:96], *(f"{time},,5" for time in times[96:])]
    found = forecast(write(tmp_path / "gap.csv", "\n".join(gap)))
    assert found.notes == (
        "5 missing values filled with the value before",
        "5 of the 60 values that the model reads are filled",
    )
    assert forecast(path).notes == ()
    assert len(forecast(tmp_path / "gap.csv", start="2024-01-04 00:00").notes) == 1
    blank = write(tmp_path / "blank.csv", "\n".join([*lines[:96], *(f"{t},," for t in times[96:])]))
    found = forecast(blank)
    assert found.notes[-1] == (
        f"the forecast begins at {times[96].replace('T', ' ')}: the last 5 rows have no value of a "
        "column to forecast"
    )
    assert (found.first, str(found.times[0])[:16]) == (95, times[96].replace(" ", "T")[:16])
    assert (found.values == forecast(path, start=times[96]).values).all()
    gap = [*lines[:71], *(f"{time},,5" for time in times[71:])]
    with pytest.raises(
        DataError,
        match=r"^column 'load' has no value in the 30 rows that the model reads from 2024-01-03 "
        r"22:00:00 on; give its values, or forecast from another time",
    ):
        forecast(write(tmp_path / "gap.csv", "\n".join(gap)))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"means": [1.0]}, "means: expected a number for each of 2 columns, found 1"),
        ({"deviations": [1.0, 0.0]}, "expected deviations and a step above 0"),
        ({"step": [0, 0, 1]}, "expected deviations and a step above 0"),
        ({"target": []}, "^target: "),
    ],
)
def test_a_damaged_configuration_is_refused(
    changes: dict[str, Any], words: str, path: Path
) -> None:
    values = forecaster(path).bundle.config.model_dump(mode="json")
    validate(SeriesBundleConfig, values)
    with pytest.raises(ConfigError, match=words):
        validate(SeriesBundleConfig, {**values, **changes})


def test_the_facts_name_the_data(path: Path) -> None:
    assert forecaster(path, quantiles=[0.25, 0.5]).facts() == [
        ["columns", "load, price"], ["step", "1 hour"], ["context", "30 steps"],
        ["horizon", "5 steps"], ["quantiles", "0.25, 0.5"],
    ]  # fmt: skip
    assert Step(*HOUR).words() == "1 hour"


def test_a_table_in_memory_is_forecast_like_its_file(tmp_path: Path) -> None:
    path = write_series(tmp_path / "wave.csv", rows=200)
    crosshead.train(
        series=path, data={"horizon": 2, "context": 9}, model="dlinear", out=tmp_path / "run",
        train={"max_updates": 1, "threads": 1}, display=crosshead.Silent(),
    )  # fmt: skip
    forecast = crosshead.load(tmp_path / "run")
    head, *rows = (line.split(",") for line in path.read_text().splitlines())
    table = {name: [row[at] for row in rows] for at, name in enumerate(head)}
    found = forecast(table)
    np.testing.assert_array_equal(found.values, forecast(path).values)
    assert "series" not in repr(found)
    with pytest.raises(DataError, match="expected files, or a table of columns"):
        forecast(7)


def test_an_older_bundle_makes_the_same_forecasts(tmp_path: Path) -> None:
    """The forecasts were made when the bundle was written."""
    stored = Path(__file__).parent.parent.parent / "fixtures" / "forecaster-format-1"
    found = list(crosshead.load(stored)(stored / "wave.csv").rows())
    with open(stored / "forecast.csv") as file:
        for row, expected in zip(found, csv.DictReader(file), strict=True):
            assert row["time"] == expected.pop("time")
            assert row == pytest.approx({**row, **{k: float(v) for k, v in expected.items()}})
    recipe = (stored / "recipe.toml").read_text().replace("../wave.csv", str(stored / "wave.csv"))
    write(tmp_path / "recipe.toml", recipe)
    summary = crosshead.train(
        recipe=tmp_path / "recipe.toml", out=tmp_path / "run", display=crosshead.Silent()
    )
    assert summary is not None
    again = crosshead.load(tmp_path / "run").bundle.config
    assert again.means == crosshead.load(stored).bundle.config.means
