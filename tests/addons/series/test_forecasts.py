from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from crosshead.addons.series.forecaster import SeriesForecaster
from crosshead.addons.series.forecasts import forecast_scores, why_without_season
from tests.addons.series.forecasters import forecaster
from tests.text.written import read_series, refusal, write, write_series


def hour(row: int) -> str:
    """The time of a row of the series."""
    return str(np.datetime64("2024-01-01T00", "h") + row)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_series(tmp_path / "s.csv", rows=100)


@pytest.mark.parametrize("original", [False, True])
def test_scores_are_those_of_all_windows_written_out(path: Path, original: bool) -> None:
    lines = path.read_text().splitlines()
    lines[81] = lines[81].rpartition(",")[0] + ","  # a missing value is not scored
    write(path, "\n".join(lines))
    forecast = forecaster(path, quantiles=[0.1, 0.5, 0.9])
    config = forecast.bundle.config
    [series] = given = forecast.checked(path)
    scores = forecast_scores(forecast, forecast.windows(given, hour(70)), original=original)
    found = {(each.method, each.metric): each.value for each in scores}
    unit = np.ones(2) if original else np.array(config.deviations)
    starts = range(70, 96)
    errors: dict[str, list[np.ndarray]] = {"model": [], "last value": [], "seasonal naive (24)": []}
    pinball, inside = [], []
    for start in starts:
        rows = slice(start, start + 5)
        seen = series.observed[rows]
        truth = np.where(seen, series.values[rows], np.nan)
        made = forecast(series, start=str(series.times[start]).replace("T", " "))
        low, high = made.quantiles[0.1], made.quantiles[0.9]
        errors["model"].append((made.values - truth) / unit)
        errors["last value"].append((series.values[start - 1] - truth) / unit)
        season = series.values[start - 24 : start - 24 + 5]
        errors["seasonal naive (24)"].append((season - truth) / unit)
        inside.append(np.where(seen, (low <= truth) & (truth <= high), np.nan))
        for level in (0.1, 0.5, 0.9):
            error = (truth - made.quantiles[level]) / unit
            pinball.append(np.maximum(level * error, (level - 1) * error))
    naive = np.array(config.naive_errors) * (config.deviations if original else 1)
    for method, several in errors.items():
        every = np.stack(several)
        assert found[method, "MSE"] == pytest.approx(np.nanmean(every**2), rel=1e-4)
        assert found[method, "MAE"] == pytest.approx(np.nanmean(abs(every)), rel=1e-4)
        by_column = np.nanmean(abs(every), axis=(0, 1))
        assert found[method, "MASE"] == pytest.approx((by_column / naive).mean(), rel=1e-4)
    assert found["model", "pinball loss"] == pytest.approx(np.nanmean(pinball), rel=1e-4)
    share = found["model", "coverage of the 80 % interval, %"]
    assert share == pytest.approx(100 * np.nanmean(inside))
    assert f"windows:{len(starts)}|steps:5|columns:2" in scores[0].signature


def test_columns_that_are_only_read_are_not_scored(path: Path) -> None:
    forecast = forecaster(path, "series-recurrent", targets=1, quantiles=[0.1, 0.5, 0.9])
    series, scale = read_series([str(path)]), forecast.bundle.scales[""]
    scores = forecast_scores(forecast, forecast.windows(forecast.checked(path), hour(60)))
    assert "columns:1|" in scores[0].signature
    last = {each.metric: each.value for each in scores if each.method == "last value"}
    errors = [
        series.values[start : start + 5, 0] - series.values[start - 1, 0] for start in range(60, 96)
    ]
    assert last["MAE"] == pytest.approx(abs(np.array(errors)).mean() / scale.deviation[0], rel=1e-4)


@pytest.mark.parametrize(
    ("quantiles", "pairs"),
    [
        ([0.05, 0.1, 0.5, 0.9], {"80": (1, 3)}),
        ([0.025, 0.25, 0.5, 0.75, 0.975], {"95": (0, 4), "50": (1, 3)}),
        ([0.0125, 0.5, 0.9875], {"97.5": (0, 2)}),
        ([0.1, 0.5, 0.8], {}),
    ],
)
def test_every_symmetric_interval_has_its_coverage(
    quantiles: list[float], pairs: dict[str, tuple[int, int]], path: Path
) -> None:
    forecast = forecaster(path, quantiles=quantiles)
    given = forecast.windows(forecast.checked(path), hour(60))
    found = {each.metric: each.value for each in forecast_scores(forecast, given)}
    assert [name for name in found if name.startswith("coverage")] == [
        f"coverage of the {share} % interval, %" for share in pairs
    ]
    [(_, batch, made)] = forecast.predictions(given)
    target = batch.target.numpy()
    for share, (low, high) in pairs.items():
        inside = (made[..., low] <= target) & (target <= made[..., high])
        assert found[f"coverage of the {share} % interval, %"] == pytest.approx(100 * inside.mean())


def with_season(path: Path, season: int) -> SeriesForecaster:
    bundle = forecaster(path).bundle
    config = bundle.config.model_copy(update={"season": season})
    return SeriesForecaster(replace(bundle, config=config))


def test_the_seasonal_forecast_reads_a_season_that_is_longer_than_the_context(path: Path) -> None:
    forecast, season = with_season(path, 50), 50
    [series] = given = forecast.checked(path)
    scores = forecast_scores(forecast, forecast.windows(given, hour(50)))
    found = {(each.method, each.metric): each.value for each in scores}
    errors = [
        (series.values[start - season : start - season + 5] - series.values[start : start + 5])
        / forecast.bundle.config.deviations
        for start in range(50, 96)
    ]
    assert found["seasonal naive (50)", "MAE"] == pytest.approx(np.abs(errors).mean(), rel=1e-4)
    assert "|season:50|" in scores[0].signature
    short = with_season(path, 3)
    scores = forecast_scores(short, short.windows(given, hour(60)))
    naive = {each.metric: each.value for each in scores if each.method == "seasonal naive (3)"}
    errors = [
        series.values[start - 3 + np.arange(5) % 3] - series.values[start : start + 5]
        for start in range(60, 96)
    ]
    errors = [each / forecast.bundle.config.deviations for each in errors]
    assert naive["MAE"] == pytest.approx(np.abs(errors).mean(), rel=1e-4)


def test_a_season_that_the_first_forecast_has_not_before_it_is_named(path: Path) -> None:
    forecast = with_season(path, 50)
    given = forecast.checked(path)
    every = forecast.windows(given)
    assert [each.method for each in forecast_scores(forecast, every) if each.metric == "MAE"] == [
        "model", "last value",
    ]  # fmt: skip
    assert why_without_season(every, 50).startswith(
        "the seasonal naive forecast has no scores: it repeats the 50 rows before a forecast, and "
        "the first forecast has 30 rows before it"
    )
    assert why_without_season(forecast.windows(given, hour(50)), 50) == ""
    assert why_without_season(every, 30) == ""


def test_without_a_window_the_reason_is_named(path: Path, tmp_path: Path) -> None:
    forecast = forecaster(path)
    given = forecast.checked(path)
    for row in (97, 100):
        assert "needs 30 rows before it" in refusal(forecast.windows, given, hour(row))
    assert len(forecast.windows(given, hour(95)).starts) == 1
    lines = path.read_text().splitlines()
    ends = [*lines[:81], *(f"{line.partition(',')[0]},," for line in lines[81:])]
    gap = forecast.checked(write(tmp_path / "gap.csv", "\n".join(ends)))
    assert "a value in its 5 steps from 2024" in refusal(forecast.windows, gap, hour(80))
    assert len(forecast.windows(gap, hour(79)).starts) == 1
    short = forecast.checked(write(tmp_path / "short.csv", "\n".join(lines[:31])))
    assert "; give more rows" in refusal(forecast.windows, short)
    gap = [*lines[:31], *(f"{line.partition(',')[0]},," for line in lines[31:])]
    short = forecast.checked(write(tmp_path / "none.csv", "\n".join(gap)))
    assert "; give more rows" in refusal(forecast.windows, short)
