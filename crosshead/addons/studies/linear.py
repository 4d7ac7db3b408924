"""Forecasting: Transformers against one linear layer, and what a longer past is worth to both."""

import math
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from crosshead.addons.studies.effort import Effort, Times, seeds_of
from crosshead.addons.studies.forecasters import (
    LONG,
    MISSING,
    SHORT,
    Job,
    errors_table,
    etth1,
    mean_error,
    scored,
)
from crosshead.addons.studies.study import Band, Result, Say, Study, Value, after_training, reported

PLAIN = "MSE of the encoder-decoder Transformer over that of DLinear"
DIRECT = "MSE of the Transformer that forecasts all steps at once over that of DLinear"
PATCHED = "MSE of PatchTST over that of DLinear"
LINEAR_PAST = "DLinear: MSE from 336 steps over MSE from 96"
PLAIN_PAST = "encoder-decoder Transformer: MSE from 336 steps over MSE from 96"
UNTRAINED = "MSE of the seasonal naive forecast over that of DLinear"

BANDS = (
    Band(
        PLAIN, 1.2, math.inf,
        "\"Often by a large margin\": in Zeng et al. 2023, Table 2, at 96 steps of ETTh1, DLinear "
        "has 0.375 and Autoformer 0.449, 1.2 times as much; Informer has 2.3 times. Only "
        "FEDformer, 0.376, comes near, and its blocks are made for series.",
    ),
    Band(
        PATCHED, 0.96, 1.01,
        "Nie et al. 2023, Table 3, answer with 0.375 at 96 steps from 336, as DLinear, and 0.370 "
        "from 512, 0.987 as much. Two seeds of a small model differ by one or two per cent.",
    ),
    Band(
        LINEAR_PAST, 0.9, 0.99,
        "\"Significantly boosted with the increase of look-back window size\" (section 5.3). On "
        "ETTh1 the gain is small: 0.375 from 336 steps, and 0.386 from 96 (Wu et al. 2023, "
        "TimesNet): 0.97.",
    ),
    Band(
        PLAIN_PAST, 0.97, math.inf,
        "Transformers' \"performance deteriorates or stays stable\" with a longer past (section "
        "5.3). A gain below DLinear's 3 % counts as stable.",
    ),
    reported(
        DIRECT,
        "The Transformers of Zeng et al. forecast all steps at once, too. Their attention is made "
        "for series, so their figures are no bands for this one.",
    ),
    reported(UNTRAINED, "Known before: about 1.36 in an earlier run of the same data."),
)  # fmt: skip

QUOTE = (
    "LTSF-Linear surprisingly outperforms existing sophisticated Transformer-based LTSF models in "
    "all cases, and often by a large margin."
)


def run(effort: Effort, seed: int, say: Say) -> Result:
    """Train each forecaster on ETTh1 from a short and a long past, and score the test period."""
    seeds = seeds_of(effort, seed)
    with tempfile.TemporaryDirectory() as scratch:
        series = etth1(effort, Path(scratch), say)
        if series is None:
            missing = dict.fromkeys((band.name for band in BANDS), MISSING)
            return Result(missing, [], lambda figure: None)
        jobs: list[Job] = [
            (kind, context, each)
            for kind, contexts in (
                ("dlinear", (SHORT, LONG)), ("transformer", (SHORT, LONG)), ("direct", (LONG,)),
                ("patchtst", (LONG,)),
            )
            for context in contexts
            for each in seeds
        ]  # fmt: skip
        found = scored(series, jobs, say)
        kept = [series.finished(*job) for job in jobs]
    table = errors_table(found, "Errors in the test period, 96 steps ahead, in deviations")
    return Result(measured(found, effort), [table], partial(draw, found), kept=kept)


def measured(found: Mapping[Job, Mapping[str, float]], effort: Effort) -> dict[str, Value]:
    """Return the quantities of the bands."""
    error = partial(mean_error, found)
    seasonal = next(iter(found.values()))
    [naive] = [value for name, value in seasonal.items() if name.startswith("MSE of seasonal")]
    return after_training(effort, {
        PLAIN: error("transformer", LONG) / error("dlinear", LONG),
        DIRECT: error("direct", LONG) / error("dlinear", LONG),
        PATCHED: error("patchtst", LONG) / error("dlinear", LONG),
        LINEAR_PAST: error("dlinear", LONG) / error("dlinear", SHORT),
        PLAIN_PAST: error("transformer", LONG) / error("transformer", SHORT),
        UNTRAINED: naive / error("dlinear", LONG),
    })  # fmt: skip


def draw(found: Mapping[Job, Mapping[str, float]], figure: Any) -> None:
    """Draw the error of each forecaster by the steps of its past, one point a seed."""
    axes = figure.subplots()
    kinds = list(dict.fromkeys(kind for kind, _, _ in found))
    for place, kind in enumerate(kinds):
        for context, mark, color in ((SHORT, "o", "tab:gray"), (LONG, "s", "tab:blue")):
            errors = [
                scores["MSE"] for (k, c, _), scores in found.items() if (k, c) == (kind, context)
            ]
            label = f"from {context} steps" if place == 0 else None
            axes.plot(errors, [place] * len(errors), mark, color=color, label=label, alpha=0.7)
    first = next(iter(found.values()))
    for name, value in first.items():
        if name.startswith("MSE of seasonal"):
            axes.axvline(value, color="gray", ls=":", label="seasonal naive")
    axes.set_yticks(range(len(kinds)), kinds)
    axes.set(xlabel="MSE, 96 steps ahead", ylim=(-0.5, len(kinds) - 0.5))
    axes.grid(alpha=0.3)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))


LINEAR = Study(
    "linear",
    "One linear layer forecasts as well as a Transformer without patches",
    QUOTE,
    "Zeng et al. 2023, abstract; Nie et al. 2023 answer with patches",
    BANDS,
    run,
    Times(quick=8, full=3600),  # from the times of its runs: two hours of one core
)
