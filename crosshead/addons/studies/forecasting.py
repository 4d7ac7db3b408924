"""Forecasts of ETTh1: Transformers against one linear layer, patches, and a longer past.

The periods are those of the papers: 12, 4 and 4 months. All windows of the test period are scored
by the errors of all seven columns, in deviations of the training period.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from crosshead.addons.series.models.forecaster import ForecasterShape, build_forecaster
from crosshead.addons.series.steps import CALENDAR
from crosshead.addons.studies.charts import Sheet, cells, single
from crosshead.addons.studies.measuring import TRAINING, compute, in_turns, milliseconds, ratios
from crosshead.addons.studies.runs import Run, data_at, results, run_of
from crosshead.addons.studies.study import Band, Result, Study, Trial, reported
from crosshead.recipe.recipe import Recipe

HORIZON, SHORT, LONG = 96, 96, 336
"""Steps to forecast, and steps of the two contexts that are compared."""

COLUMNS = 7


class Kind(NamedTuple):
    """A forecaster, and how it is trained. Validation, every twentieth of a run, picks weights."""

    model: Mapping[str, Any]
    windows: int
    """Windows of a batch."""
    learning_rate: float
    updates: int


_PLAIN = {"architecture": "series-transformer", "normalize": "none"}
_POINTS = {"architecture": "patchtst", "patch_length": 1, "patch_stride": 1}

KINDS = {
    "dlinear": Kind({"architecture": "dlinear"}, 32, 0.005, 2500),
    "patchtst": Kind({"architecture": "patchtst"}, 128, 0.0003, 1700),
    # One token a step takes many times as long, so both kinds of tokens get smaller batches.
    "patches": Kind({"architecture": "patchtst"}, 32, 0.0003, 1700),
    "points": Kind(_POINTS, 32, 0.0003, 1700),
    # Zeng et al. 2023 compare with Transformers that do not normalise single windows. Their code
    # halves the rate after each of at most ten epochs: two epochs at the full rate in sum. Five
    # epochs with a falling rate are two and a half.
    "transformer": Kind(_PLAIN, 32, 0.0005, 1250),
    "direct": Kind({**_PLAIN, "forecast": "direct"}, 32, 0.0005, 1250),
}
"""DLinear, PatchTST, PatchTST with patches and with a token for each step in smaller batches, and
an encoder-decoder Transformer that forecasts step by step or all steps at once."""

Past = tuple[str, int]
"""A kind and a context."""

Errors = Mapping[Past, Sequence[Mapping[str, float]]]
"""For each seed, the scores on the test period, and those of forecasts without training."""


def run_on(trial: Trial, kind: str, context: int, seed: int) -> Run:
    """Return a run; the quick form has a quarter of the steps and a series of its own."""
    model, windows, rate, most = KINDS[kind]
    updates, steps = trial.amount(2, most), steps_of(trial, context)
    series = made_up(trial.folder) if trial.quick else data_at("ett/ETTh1.csv")
    data = {
        "series": [str(series)], "context": steps, "horizon": steps_of(trial, HORIZON),
        "split": "70/10/20" if trial.quick else "12/4/4 months",
    }  # fmt: skip
    train = {
        "seed": seed, "learning_rate": rate, "max_updates": updates, "patience": 0,
        "warmup": max(1, updates // 25), "valid_every": max(1, updates // 20),
        "batch_tokens": windows * steps * COLUMNS,
    }  # fmt: skip
    return run_of(trial, "etth1", train, data=data, model=model)


def steps_of(trial: Trial, long: int) -> int:
    """Return a number of steps, which is a quarter in the quick form."""
    return long // 4 if trial.quick else long


def made_up(directory: Path) -> Path:
    """Write a small hourly series of two columns with a daily season, to try the code."""
    path, lines = directory / "series.csv", ["date,A,B"]
    for hour in range(600):
        angle, wave = 2 * math.pi * hour / 24, 0.1 * math.sin(17.3 * hour)
        when = datetime(2024, 1, 1) + timedelta(hours=hour)
        lines.append(f"{when},{math.sin(angle) + wave},{math.cos(angle) - wave}")
    path.write_text("\n".join(lines) + "\n")
    return path


def scored(trial: Trial, pasts: Sequence[Past]) -> Errors:
    """Train each kind at its context from all seeds; return the errors."""
    return results(trial, pasts, lambda past, seed: run_on(trial, *past, seed), Run.scores)


def mean_error(found: Errors, kind: str, context: int) -> float:
    """Return the mean squared error of a kind at a context, averaged over seeds."""
    return statistics.mean(each["MSE"] for each in found[kind, context])


def errors_sheets(found: Errors) -> list[Sheet]:
    """Show the errors of each kind by context and seed, and of untrained forecasts."""
    sheets = []
    [(_, [first, *_]), *_] = found.items()
    for error in ("MSE", "MAE"):
        rows = cells({past: [each[error] for each in of] for past, of in found.items()}, list)
        for name, value in first.items():
            if name.startswith(f"{error} of "):
                rows[name.removeprefix(f"{error} of ")] = {SHORT: [value]}
        title = f"{error} in the test period, 96 steps ahead, in deviations"
        sheets.append(Sheet(title, rows, "context", ".3f", drawn=error == "MSE"))
    return sheets


PLAIN = "MSE of the encoder-decoder Transformer over that of DLinear"
DIRECT = "MSE of the Transformer that forecasts all steps at once over that of DLinear"
PATCHED = "MSE of PatchTST over that of DLinear"
LINEAR_PAST = "DLinear: MSE from 336 steps over MSE from 96"
PLAIN_PAST = "encoder-decoder Transformer: MSE from 336 steps over MSE from 96"

LINEAR_BANDS = (
    Band(
        PLAIN, 1.2, math.inf,
        "“Often by a large margin”: in Zeng et al. 2023, Table 2, at 96 steps of ETTh1, DLinear "
        "has 0.375, Autoformer 1.2 times as much, and Informer 2.3 times.",
    ),
    Band(
        PATCHED, 0.96, 1.01,
        "Nie et al. 2023, Table 3, answer with 0.375 at 96 steps from 336, as DLinear, and 0.370 "
        "from 512, 0.987 as much. Two seeds of a small model differ by one or two per cent.",
    ),
    Band(
        LINEAR_PAST, 0.9, 0.99,
        "“Significantly boosted” (section 5.3). On ETTh1 the gain is small: 0.375 from 336 steps, "
        "and 0.386 from 96 (Wu et al. 2023, TimesNet): 0.97.",
    ),
    Band(
        PLAIN_PAST, 0.97, math.inf,
        "Transformers' “performance deteriorates or stays stable” with a longer past (section "
        "5.3). A gain below DLinear's 3 % counts as stable.",
    ),
    reported(DIRECT, "As in Zeng et al., but their attention is made for series."),
)  # fmt: skip


def run_linear(trial: Trial) -> Result:
    """Train each forecaster on ETTh1 from a short and a long past, and score the test period."""
    kinds = [(kind, context) for kind in ("dlinear", "transformer") for context in (SHORT, LONG)]
    kinds += [("direct", LONG), ("patchtst", LONG)]
    found = scored(trial, kinds)
    return Result(linear(found), errors_sheets(found))


def linear(found: Errors) -> dict[str, float]:
    """Return the quantities of the study `linear`."""
    error = partial(mean_error, found)
    return {
        PLAIN: error("transformer", LONG) / error("dlinear", LONG),
        DIRECT: error("direct", LONG) / error("dlinear", LONG),
        PATCHED: error("patchtst", LONG) / error("dlinear", LONG),
        LINEAR_PAST: error("dlinear", LONG) / error("dlinear", SHORT),
        PLAIN_PAST: error("transformer", LONG) / error("transformer", SHORT),
    }


LINEAR = Study(
    "linear",
    "One linear layer forecasts as well as a Transformer without patches",
    "LTSF-Linear surprisingly outperforms existing sophisticated Transformer-based LTSF models in "
    "all cases, and often by a large margin.",
    "Zeng et al. 2023, abstract; Nie et al. 2023 answer with patches",
    LINEAR_BANDS,
    run_linear,
    seconds=3600,  # from the times of its runs: two hours of one core
)

TIME = "time of an update from 336 steps: one token a step over patches of 16 every 8"
QUALITY = "MSE from 96 steps: one token a step over patches"
PAST = "patches: MSE from 336 steps over MSE from 96"

PATCH_BANDS = (
    Band(
        TIME, 8, 64,
        "337 tokens against 42. Projections and feed-forward layers grow by 8, the scores of "
        "attention by 64, “quadratically”. Both costs matter at this width.",
    ),
    Band(
        QUALITY, 1.02, math.inf,
        "A factor of 1.08 from 336 steps of Traffic (Nie et al. 2023, Table 1). A quarter of it is "
        "required here, from a shorter past and another series.",
    ),
    Band(
        PAST, 0.9, 0.99,
        "“The model can attend longer history”: the error falls with the past (Nie et al. 2023, "
        "Figure 2). For DLinear the factor is 0.97 on this series.",
    ),
)  # fmt: skip


def run_patches(trial: Trial) -> Result:
    """Train with patches and with one token a step, and time an update of both."""
    untrained = replace(trial, kept={})  # of these runs only the recipes are used
    recipes = {
        kind: run_on(untrained, kind, LONG, trial.seed).recipe for kind in ("patches", "points")
    }
    times = update_times(recipes, trial)
    over = ratios(times["points"], times["patches"])
    found = scored(trial, [("patches", SHORT), ("points", SHORT), ("patches", LONG)])
    error = partial(mean_error, found)
    values = {
        QUALITY: error("points", SHORT) / error("patches", SHORT),
        PAST: error("patches", LONG) / error("patches", SHORT),
        TIME: statistics.median(over),
    }
    threads = f"{torch.get_num_threads()} threads"
    title = f"Time of an update, {LONG} steps, forwards and backwards, {threads}"
    least = single({kind: {"ms": milliseconds(each)} for kind, each in times.items()})
    sheets = [
        Sheet(title, least, "tokens"),
        Sheet("That time over patches", {"points": {"rounds": over}}, ranges=True, drawn=False),
    ]
    return Result(values, [*errors_sheets(found), *sheets])


def update_times(recipes: Mapping[str, Recipe], trial: Trial) -> dict[str, list[float]]:
    """Measure the forward and backward pass of eight windows in turns, by the kind of tokens."""
    steps, horizon = steps_of(trial, LONG), steps_of(trial, HORIZON)
    generator = torch.Generator().manual_seed(trial.seed)
    context = torch.randn(8, steps, COLUMNS, generator=generator)
    known = torch.zeros(8, steps + horizon, CALENDAR)
    shape = ForecasterShape(steps, horizon, COLUMNS, known.shape[-1])

    def call(recipe: Recipe) -> Callable[[], None]:
        model = build_forecaster(recipe.model, shape)
        return partial(compute, model, lambda: model(context, known), TRAINING)

    calls = {kind: call(recipe) for kind, recipe in recipes.items()}
    return in_turns(trial, calls, rounds=7, seconds=1.0)


PATCHES = Study(
    "patches",
    "Patches make attention over a series cheaper and its forecasts better",
    "Patching design naturally has three-fold benefit: [...] computation and memory usage of the "
    "attention maps are quadratically reduced [...]; and the model can attend longer history.",
    "Nie et al. 2023, abstract",
    PATCH_BANDS,
    run_patches,
    seconds=1633,
)
