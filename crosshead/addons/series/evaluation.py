"""The scores of a forecaster on a series, and their table."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from crosshead.addons.series.forecaster import SeriesForecaster
from crosshead.addons.series.forecasts import ForecastScore, forecast_scores, why_without_season
from crosshead.cli.answers import answering
from crosshead.cli.terminal import note, table
from crosshead.tasks.loading import load_as


def series_evaluation(
    bundle: Path,
    series: Path,
    start: str | None,
    original: bool,
    device: str,
    threads: int | None,
) -> list[ForecastScore]:
    """Return the scores of a forecaster on a series."""
    forecaster = load_as(SeriesForecaster, bundle, device, threads)
    every = forecaster.checked(series)
    for line in every[0].notes:
        note(f"{series}: {line}")
    given, season = forecaster.windows(every, start), forecaster.bundle.config.season
    if start is None:
        note(
            f"{series}: all {len(given.starts):,} windows are scored; if the model was trained on "
            "this file, give --start after its training period"
        )
    if why := why_without_season(given, season):
        note(f"{series}: {why}")
    total = len(given.starts)
    with answering(total, "windows") as advance:
        progress = partial(advance, 0, total)
        found = forecast_scores(forecaster, given, original=original, progress=progress)
        progress(1.0)
    return found


def forecast_table(scores: Sequence[ForecastScore]) -> str:
    """Return a table of the scores of forecasts, with their signature below."""
    metrics = list(dict.fromkeys(each.metric for each in scores))
    found = {(each.method, each.metric): f"{each.value:.4g}" for each in scores}
    rows = [["forecast", *metrics]] + [
        [method, *(found.get((method, metric), "") for metric in metrics)]
        for method in dict.fromkeys(each.method for each in scores)
    ]
    return table(rows, numbers=len(metrics)) + f"\n{scores[0].signature}\n"
