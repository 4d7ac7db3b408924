"""The verb `forecast`, and the picture of a forecast."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from crosshead.cli.app import app
from crosshead.cli.kinds import TRAIN, TrainOptions, evaluate
from crosshead.cli.options import (
    BundleArgument,
    BundlesArgument,
    DeviceOption,
    Files,
    JsonlOption,
    ThreadsOption,
)
from crosshead.cli.terminal import json_line, note, open_output, put, table
from crosshead.system.plotting import drawing, new_figure
from crosshead.tasks.translation.verbs.translate import OutputOption

if TYPE_CHECKING:
    from crosshead.addons.series.forecaster import Forecast
    from crosshead.addons.series.forecasting import ForecastScore

MOST_DRAWN = 12
"""The largest number of columns in a picture."""

_OPTIONS: dict[str, Any] = {
    "series": Annotated[
        Files,
        typer.Option(
            metavar="F",
            help="File of time series, CSV or Parquet with a time column, for a forecaster. "
            "Repeat it for files that continue it; --target then names columns.",
        ),
    ],
    "inputs": Annotated[
        Files,
        typer.Option(
            metavar="C,D",
            help="Columns of --series that the model reads and does not forecast, separated by "
            "commas, for series-transformer and series-recurrent (default: none).",
        ),
    ],
    "future": Annotated[
        Files,
        typer.Option(
            metavar="C,D",
            help="Columns of --series that are known for the steps to forecast, too, such as "
            "holidays; otherwise as for --inputs.",
        ),
    ],
    "id": Annotated[
        str | None,
        typer.Option(
            "--id",
            metavar="COLUMN",
            help="Column that tells the series of a long table apart; one model is trained on all "
            "of them (default: a column called unique_id or item_id, if there is one).",
        ),
    ],
    "horizon": Annotated[
        int | None,
        typer.Option(metavar="N", help="Steps to forecast, for --series (default: 96)."),
    ],
}


def _as_columns(data: dict[str, Any]) -> None:
    """Join the names of columns in repeated options, such as `--target`, by commas."""
    for key in ("target", "inputs", "future") if "series" in data else ():
        if key in data:
            data[key] = ",".join(data[key])


TRAIN.append(TrainOptions("series", _OPTIONS, keys=_as_columns))


@app.command(
    epilog="\b\nExamples:\n"
    "  crosshead forecast runs/ett --series ETTh1.csv > forecast.csv\n"
    "  crosshead forecast runs/ett --series ETTh1.csv --start '2018-06-20 00:00' --plot f.png"
)
def forecast(
    bundle: BundleArgument,
    series: Annotated[
        Path,
        typer.Option(
            metavar="F",
            help="File of the series, CSV or Parquet, with the columns of the training data. "
            "Columns of --future need values in the rows to forecast, too.",
        ),
    ],
    start: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Time of the first step to forecast; the model does not read this row or later "
            "ones (default: the step after the last row with a value).",
        ),
    ] = None,
    output: OutputOption = None,
    jsonl: JsonlOption = False,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="PICTURE",
            help="Draw the history, the forecast and its interval into this .png, .svg or .pdf.",
        ),
    ] = None,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
) -> None:
    """Forecast the next steps of a time series.

    The output is CSV: the time and the forecast of each column. A model with quantiles also has a
    column for each quantile, such as `OT 0.1`. A model of a long table forecasts each series of the
    file, and the output is a long table, too. Messages say what was changed in the series, such as
    missing values that were filled.
    """
    from crosshead.addons.series.forecaster import SeriesForecaster
    from crosshead.addons.series.steps import pandas
    from crosshead.cli.arguments import check_outputs
    from crosshead.inspection.drawing import check_picture, save
    from crosshead.tasks.loading import load_as

    if plot is not None:
        check_picture(plot)
    check_outputs({"--output": output, "--plot": plot}, [series], bundle)
    forecaster = load_as(SeriesForecaster, bundle, device, threads)
    found = forecaster.every(series, start)
    for each in found:
        for line in each.notes:
            note(f"{series}: {line}")
    every = [row for each in found for row in each.rows()]
    if jsonl:
        text = "".join(map(json_line, every))
    else:
        text = (
            pandas().DataFrame(every).to_csv(index=False, float_format="%.10g", lineterminator="\n")
        )
    with open_output(output) as write:
        if plot is not None:
            save(plot, _picture(found))
        write(text.encode())


@drawing()
def _picture(every: "Sequence[Forecast]") -> Any:
    """Return a figure with a panel for each column of each series, with its forecast."""
    import numpy as np
    from matplotlib import dates

    from crosshead.addons.series.steps import shown_time

    columns = [(found, column) for found in every for column in range(len(found.series.names))]
    drawn = columns[:MOST_DRAWN]
    if len(drawn) < len(columns):
        note(f"the picture has the first {MOST_DRAWN} of {len(columns)} columns")
    figure = new_figure(figsize=(9, 1 + 2.2 * len(drawn)))
    panels = figure.subplots(len(drawn), 1, sharex=True, squeeze=False)[:, 0]
    ends = []
    for (found, column), panel in zip(drawn, panels, strict=True):
        steps, times = len(found.times), found.series.times
        past = slice(max(0, found.first - max(24, 3 * steps)), found.first)
        before = slice(max(0, found.first - 1), found.first)  # it joins the lines
        later = slice(before.start, found.first + steps)
        levels = sorted(found.quantiles)
        ends += [times[past][0], found.times[-1]]
        values, observed = found.series.values[:, column], found.series.observed[:, column]
        panel.plot(times[past], values[past], color="0.3", linewidth=1, label="history")
        if found.first < len(times):
            known = np.where(observed[later], values[later], np.nan)
            panel.plot(times[later], known, color="0.6", lw=1, label="later values")
        ahead = [*times[before], *found.times]
        if len(levels) > 1:
            low, high = (
                [*values[before], *found.quantiles[level][:, column]]
                for level in (levels[0], levels[-1])
            )
            share = f"{100 * (levels[-1] - levels[0]):.6g} % interval"
            panel.fill_between(ahead, low, high, lw=0, color="C0", alpha=0.25, label=share)
        forecast = [*values[before], *found.values[:, column]]
        panel.plot(ahead, forecast, color="C0", label="forecast")
        panel.set_ylabel(" ".join(filter(None, (found.series.key, found.series.names[column]))))
    panels[0].legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4, frameon=False)
    if ends[0].dtype.kind == "M":
        axis, formatter = panels[-1].xaxis, cast(Any, dates.ConciseDateFormatter)  # it has no types
        axis.set_major_formatter(formatter(axis.get_major_locator(), show_offset=False))
    panels[-1].set_xlabel(f"{shown_time(min(ends))} to {shown_time(max(ends))}")
    return figure


@evaluate.kind(
    "series", examples=("crosshead evaluate runs/ett --series ETTh1.csv --start 2018-02-01",)
)
def evaluate_forecasts(
    bundles: BundlesArgument,
    series: Annotated[
        Path | None,
        typer.Option(metavar="F", help="File of a series to forecast and score, CSV or Parquet."),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Time of the first value of --series to score (default: the first after a "
            "context). Give a time after the training period.",
        ),
    ] = None,
    original: Annotated[
        bool,
        typer.Option(
            "--original",
            help="Show errors of --series in the units of its columns (default: in deviations of "
            "the training period).",
        ),
    ] = False,
    jsonl: JsonlOption = False,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
) -> None:
    """Give --series for a forecaster.

    The command forecasts from every row that has a context before it and a horizon after it, and
    prints the errors beside those of two untrained forecasts.
    """
    from crosshead.addons.series.forecaster import SeriesForecaster
    from crosshead.addons.series.forecasting import forecast_scores, why_without_season
    from crosshead.cli import arguments
    from crosshead.cli.evaluation import scores_jsonl
    from crosshead.cli.terminal import answering
    from crosshead.tasks.loading import load_as

    assert series is not None
    bundle = arguments.only(bundles, "--series")
    forecaster = load_as(SeriesForecaster, bundle, device, threads)
    every = forecaster.checked(series)
    for line in every[0].notes:
        note(f"{series}: {line}")
    given, season = forecaster.windows(every, start), forecaster.bundle.config.season
    total = len(given)
    if start is None:
        note(
            f"{series}: all {total:,} windows are scored; if the model was trained on this file, "
            "give --start after its training period"
        )
    if why := why_without_season(given, season):
        note(f"{series}: {why}")
    with answering(total, "windows") as advance:
        progress = partial(advance, 0, total)
        found = forecast_scores(forecaster, given, original=original, progress=progress)
        progress(1.0)
    put(scores_jsonl(found) if jsonl else forecast_table(found))


def forecast_table(scores: "Sequence[ForecastScore]") -> str:
    """Return a table of the scores of forecasts, with their signature below."""
    metrics = list(dict.fromkeys(each.metric for each in scores))
    found = {(each.method, each.metric): f"{each.value:.4g}" for each in scores}
    rows = [["forecast", *metrics]] + [
        [method, *(found.get((method, metric), "") for metric in metrics)]
        for method in dict.fromkeys(each.method for each in scores)
    ]
    return table(rows, numbers=len(metrics)) + f"\n{scores[0].signature}\n"
