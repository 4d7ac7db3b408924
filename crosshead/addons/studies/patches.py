"""Patches of a series: what they save, and what they are worth, against one token a step."""

import math
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch

from crosshead.addons.series.models.forecaster import ForecasterShape, build_forecaster
from crosshead.addons.series.steps import CALENDAR
from crosshead.addons.studies.effort import Effort, Times, seeds_of
from crosshead.addons.studies.forecasters import (
    COLUMNS,
    HORIZON,
    LONG,
    MISSING,
    SHORT,
    Job,
    SeriesRuns,
    errors_table,
    etth1,
    mean_error,
    scored,
)
from crosshead.addons.studies.study import Band, Result, Say, Study, Table, Value, after_training
from crosshead.addons.studies.turns import TRAINING, Timed, compute, timed
from crosshead.recipe.recipe import Recipe

TIME = "time of an update from 336 steps: one token a step over patches of 16 every 8"
QUALITY = "MSE from 96 steps: one token a step over patches"
PAST = "patches: MSE from 336 steps over MSE from 96"

BANDS = (
    Band(
        TIME, 8, 64,
        "337 tokens against 42. Projections and feed-forward layers grow by 8, the scores of "
        "attention by 64, \"quadratically\". Both costs matter at this width.",
    ),
    Band(
        QUALITY, 1.02, math.inf,
        "Nie et al. 2023, Table 1: 0.397 with one token a step, 0.367 with patches, from 336 steps "
        "of Traffic, a factor of 1.08. A quarter of it is required here, from a shorter past and "
        "another series.",
    ),
    Band(
        PAST, 0.9, 0.99,
        "\"The model can attend longer history\": the error falls with the past (Nie et al. 2023, "
        "Figure 2). For DLinear the factor is 0.97 on this series.",
    ),
)  # fmt: skip


def run(effort: Effort, seed: int, say: Say) -> Result:
    """Train with patches and with one token a step, and time an update of both."""
    seeds = seeds_of(effort, seed)
    with tempfile.TemporaryDirectory() as scratch:
        series = etth1(effort, Path(scratch), say)
        if series is None:
            missing = dict.fromkeys((band.name for band in BANDS), MISSING)
            return Result(missing, [], lambda figure: None)
        times = update_times(series, effort, seed)
        say(f"an update from {LONG} steps: points over patches {times['points'].ratio}")
        kinds = (("patches", SHORT), ("points", SHORT), ("patches", LONG))
        jobs: list[Job] = [(*kind, each) for kind in kinds for each in seeds]
        found = scored(series, jobs, say)
        kept = [series.finished(*job) for job in jobs]
    error = partial(mean_error, found)
    values: dict[str, Value] = after_training(effort, {
        QUALITY: error("points", SHORT) / error("patches", SHORT),
        PAST: error("patches", LONG) / error("patches", SHORT),
        TIME: times["points"].ratio.median,
    })  # fmt: skip
    rows = [["tokens", "an update", "over patches"]]
    rows += [[kind, each.shown, str(each.ratio)] for kind, each in times.items()]
    threads = f"{torch.get_num_threads()} threads"
    tables = [
        Table(f"Time of an update, {LONG} steps, forwards and backwards, {threads}", rows),
        errors_table(found, "Errors in the test period, 96 steps ahead, in deviations"),
    ]
    return Result(values, tables, partial(draw, found, times), kept=kept)


def update_times(series: SeriesRuns, effort: Effort, seed: int) -> dict[str, Timed]:
    """Measure the forward and backward pass of eight windows in turns, by the kind of tokens."""
    steps, horizon = series.steps(LONG), series.steps(HORIZON)
    generator = torch.Generator().manual_seed(seed)
    context = torch.randn(8, steps, COLUMNS, generator=generator)
    known = torch.zeros(8, steps + horizon, CALENDAR)
    shape = ForecasterShape(steps, horizon, COLUMNS, known.shape[-1])

    def call(recipe: Recipe) -> Callable[[], None]:
        model = build_forecaster(recipe.model, shape)
        return partial(compute, model, lambda: model(context, known), TRAINING)

    calls = {kind: call(series.recipe(kind, LONG, seed)) for kind in ("patches", "points")}
    return timed(calls, lambda kind: "patches", effort.amount(2, 7), effort.share)


def draw(found: Mapping[Job, Mapping[str, float]], times: Mapping[str, Timed], figure: Any) -> None:
    """Draw the error of each run, and the time of an update."""
    left, right = figure.subplots(1, 2)
    kinds = list(dict.fromkeys((kind, context) for kind, context, _ in found))
    for place, of in enumerate(kinds):
        errors = [scores["MSE"] for (k, c, _), scores in found.items() if (k, c) == of]
        left.plot(errors, [place] * len(errors), "o", color="tab:blue", alpha=0.7)
    left.set_yticks(range(len(kinds)), [f"{kind}, {context} steps" for kind, context in kinds])
    left.set(xlabel="MSE, 96 steps ahead", ylim=(-0.5, len(kinds) - 0.5))
    names = list(times)
    right.barh(range(len(names)), [1000 * times[name].seconds for name in names])
    right.set_yticks(range(len(names)), names)
    right.set(xlabel="milliseconds of an update")
    for axes in (left, right):
        axes.grid(alpha=0.3)


PATCHES = Study(
    "patches",
    "Patches make attention over a series cheaper and its forecasts better",
    "Patching design naturally has three-fold benefit: local semantic information is retained in "
    "the embedding; computation and memory usage of the attention maps are quadratically reduced "
    "given the same look-back window; and the model can attend longer history.",
    "Nie et al. 2023, abstract",
    BANDS,
    run,
    Times(quick=8, full=1633),
)
