from pathlib import Path

import numpy as np
import pytest

from crosshead.data.series.reading import read_series
from crosshead.errors import DataError
from crosshead.evaluation.forecasts import forecast_scores
from tests.data.written import write, write_series
from tests.pipelines.forecasters import forecaster


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
    series = forecast.checked(path)
    scores = forecast_scores(forecast, forecast.windows(series, 70), original=original)
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
    series, scale = read_series([str(path)]), forecast.bundle.scale
    scores = forecast_scores(forecast, forecast.windows(forecast.checked(path), 60))
    assert "columns:1|" in scores[0].signature
    last = {each.metric: each.value for each in scores if each.method == "last value"}
    errors = [
        series.values[start : start + 5, 0] - series.values[start - 1, 0] for start in range(60, 96)
    ]
    assert last["MAE"] == pytest.approx(abs(np.array(errors)).mean() / scale.deviation[0], rel=1e-4)


def test_without_a_window_there_is_no_score(path: Path) -> None:
    forecast = forecaster(path)
    with pytest.raises(DataError, match="there is no window to score"):
        forecast_scores(forecast, forecast.windows(read_series([str(path)]), 97))
