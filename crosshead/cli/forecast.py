"""The verb `forecast`, and the picture of a forecast."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crosshead.cli.app import app
from crosshead.cli.options import BundleArgument, DeviceOption, JsonlOption, ThreadsOption
from crosshead.cli.terminal import json_line, note, open_output

if TYPE_CHECKING:
    from crosshead.pipelines.forecaster import Forecast

MOST_DRAWN = 12
"""The largest number of columns in a picture."""


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
            help="File of the series, CSV or Parquet, with the columns of the training data.",
        ),
    ],
    start: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Time of the first step to forecast; the model does not read this row or later "
            "ones (default: the step after the last row).",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File to write (default: standard output)."),
    ] = None,
    jsonl: JsonlOption = False,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="PNG", help="Draw the history, the forecast and its interval into this file."
        ),
    ] = None,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
) -> None:
    """Forecast the next steps of a time series.

    The output is CSV: the time and the forecast of each column. A model with quantiles also has a
    column for each quantile, such as `OT 0.1`. Messages say what was changed in the series, such as
    missing values that were filled.
    """
    import csv
    import io

    from crosshead.pipelines.forecaster import SeriesForecaster
    from crosshead.system.files import atomic_write
    from crosshead.system.plotting import rendered
    from crosshead.tasks.loading import load_as

    forecaster = load_as(SeriesForecaster, bundle, device, threads)
    found = forecaster(series, start)
    for line in found.series.notes:
        note(f"{series}: {line}")
    rows = [
        {key: f"{value:.6g}" if isinstance(value, float) else value for key, value in row.items()}
        for row in found.rows()
    ]
    if jsonl:
        text = "".join(map(json_line, found.rows()))
    else:
        table = io.StringIO()
        writer = csv.DictWriter(table, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        text = table.getvalue()
    if plot is not None:
        atomic_write(plot, rendered(_picture(found)))
    with open_output(output) as write:
        write(text.encode())


def _picture(found: "Forecast") -> object:
    """Return a figure with a panel for each column: history, forecast, interval, later values."""
    from crosshead.system.plotting import new_figure

    names = found.series.names[:MOST_DRAWN]
    if len(names) < len(found.series.names):
        note(f"the picture has the first {MOST_DRAWN} of {len(found.series.names)} columns")
    figure = new_figure(figsize=(9, 1 + 2.2 * len(names)))
    panels = figure.subplots(len(names), 1, sharex=True, squeeze=False)[:, 0]
    steps, times = len(found.times), found.series.times
    past = slice(max(0, found.first - 3 * steps), found.first)
    later = slice(found.first, found.first + steps)
    levels = sorted(found.quantiles)
    for column, (name, panel) in enumerate(zip(names, panels, strict=True)):
        values = found.series.values[:, column]
        panel.plot(times[past], values[past], color="0.3", linewidth=1, label="history")
        if len(times[later]):
            panel.plot(times[later], values[later], color="0.6", linewidth=1, label="later values")
        if len(levels) > 1:
            low, high = (found.quantiles[level][:, column] for level in (levels[0], levels[-1]))
            label = f"{100 * (levels[-1] - levels[0]):.0f} % interval"
            panel.fill_between(found.times, low, high, color="C0", alpha=0.25, lw=0, label=label)
        panel.plot(found.times, found.values[:, column], color="C0", label="forecast")
        panel.set_ylabel(name)
    panels[0].legend(loc="upper left", ncols=4, frameon=False, fontsize="small")
    for label in panels[-1].get_xticklabels():
        label.set_rotation(20)
    return figure
