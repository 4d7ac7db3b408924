"""Forecasters trained on the hourly measurements of ETTh1, once each.

The periods are those of the papers: 12, 4 and 4 months. All windows of the test period are scored
by the errors of all seven columns, in deviations of the training period.
"""

import math
import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from crosshead.addons.studies import runs
from crosshead.addons.studies.effort import Effort
from crosshead.addons.studies.formats import joined
from crosshead.addons.studies.study import Say, Table
from crosshead.bundle.places import CONFIG
from crosshead.recipe.recipe import Recipe
from crosshead.system.files import make_directory
from crosshead.system.stored import read_metadata
from crosshead.tasks.recipes import compose

MISSING = "the measurements of ETTh1 are not there"
"""The reason why a quantity that needs them is not measured."""

HORIZON, SHORT, LONG = 96, 96, 336
"""Steps to forecast, and steps of the two contexts that are compared."""

COLUMNS = 7
_DOWNLOADED = Path("data") / "ett"
_TRAIN = {"precision": "float32", "device": "cpu", "threads": 1, "patience": 0, "keep_last": 1}


class Kind(NamedTuple):
    """A forecaster, and how it is trained. Validation, every twentieth of a run, picks weights."""

    model: Mapping[str, Any]
    windows: int
    """Windows of a batch."""
    learning_rate: float
    updates: int


KINDS = {
    "dlinear": Kind({"architecture": "dlinear"}, 32, 0.005, 2500),
    "patchtst": Kind({"architecture": "patchtst"}, 128, 0.0003, 1700),
    # One token a step takes many times as long, so both kinds of tokens get smaller batches.
    "patches": Kind({"architecture": "patchtst"}, 32, 0.0003, 1700),
    "points": Kind(
        {"architecture": "patchtst", "patch_length": 1, "patch_stride": 1}, 32, 0.0003, 1700
    ),
    # Zeng et al. 2023 compare with Transformers that do not normalise single windows. Their code
    # halves the rate after each of at most ten epochs: two epochs at the full rate in sum. Five
    # epochs with a falling rate are two and a half.
    "transformer": Kind(
        {"architecture": "series-transformer", "normalize": "none"}, 32, 0.0005, 1250
    ),
    "direct": Kind(
        {"architecture": "series-transformer", "normalize": "none", "forecast": "direct"},
        32, 0.0005, 1250,
    ),
}  # fmt: skip
"""DLinear, PatchTST, PatchTST with patches and with a token for each step in smaller batches, and
an encoder-decoder Transformer that forecasts step by step or all steps at once."""


@dataclass(frozen=True)
class SeriesRuns:
    """A series to train on, and the runs on it."""

    series: Path
    folder: Path
    split: str
    share: float
    """The share of the updates of the full form; 0 for the quick form."""

    @property
    def quick(self) -> bool:
        """True for the quick form."""
        return self.share == 0

    def steps(self, long: int) -> int:
        """Return a number of steps, which is a quarter in the quick form."""
        return long // 4 if self.quick else long

    def recipe(self, kind: str, context: int, seed: int) -> Recipe:
        """Return the recipe of a run."""
        model, windows, rate, most = KINDS[kind]
        updates = max(2, round(self.share * most))
        data = {
            "series": [str(self.series)], "context": self.steps(context),
            "horizon": self.steps(HORIZON), "split": self.split,
        }  # fmt: skip
        train = {
            **_TRAIN, "seed": seed, "learning_rate": rate, "max_updates": updates,
            "warmup": max(1, updates // 25), "valid_every": max(1, updates // 20),
            "batch_tokens": windows * self.steps(context) * COLUMNS,
        }  # fmt: skip
        found: Recipe = compose(recipe={"data": data, "model": model, "train": train})
        return found

    def place(self, recipe: Recipe) -> Path:
        """Return the directory of a run."""
        settings = recipe.data.model_dump_json(), recipe.train.batch_tokens, self.share
        return runs.place_of(self.folder, recipe, *settings)

    def scores(self, kind: str, context: int, seed: int) -> dict[str, float]:
        """Return the scores of a run on the test period, and of forecasts without training."""
        recipe = self.recipe(kind, context, seed)
        place = self.place(recipe)
        runs.ensure_trained(place, recipe)
        return {each["metric"]: each["value"] for each in read_metadata(place / CONFIG)["scores"]}

    def finished(self, kind: str, context: int, seed: int) -> Path:
        """Return the file that a run has once it has ended."""
        return runs.finished(self.place(self.recipe(kind, context, seed)))


def etth1(effort: Effort, scratch: Path, say: Say) -> SeriesRuns | None:
    """Return the runs on ETTh1, or on a series made in `scratch` in the quick form; or None."""
    if effort.quick:
        return SeriesRuns(made_up(scratch), scratch / "runs", "70/10/20", 0)
    named = os.environ.get("CROSSHEAD_DATA")
    folder = Path(named) / "ett" if named else _DOWNLOADED
    series = folder / "ETTh1.csv"
    if not series.is_file():
        say(
            f"ETTh1 not found in {folder}; quantities that need it are skipped: `crosshead data "
            f"get ett` downloads it into {_DOWNLOADED}; to use a copy, set CROSSHEAD_DATA to a "
            "folder that holds ett"
        )
        return None
    return SeriesRuns(series, runs.RUNS / "etth1", "12/4/4 months", effort.share)


def made_up(directory: Path) -> Path:
    """Write a small hourly series of two columns with a daily season, to try the code."""
    make_directory(directory)
    path, first = directory / "series.csv", datetime(2024, 1, 1)
    lines = ["date,A,B"]
    for hour in range(600):
        angle = 2 * math.pi * hour / 24
        wave = 0.1 * math.sin(17.3 * hour)
        lines.append(
            f"{first + timedelta(hours=hour)},{math.sin(angle) + wave},{math.cos(angle) - wave}"
        )
    path.write_text("\n".join(lines) + "\n")
    return path


Job = tuple[str, int, int]
"""A kind, a context and a seed."""


def scored(series: SeriesRuns, jobs: Sequence[Job], say: Say) -> dict[Job, dict[str, float]]:
    """Train all jobs, several at a time, and return their scores on the test period."""
    calls = {job: partial(series.scores, *job) for job in jobs}
    found = {}
    for job, scores in runs.side_by_side(calls, quick=series.quick):
        found[job] = scores
        kind, context, seed = job
        say(f"{kind}, {context} steps, seed {seed}: MSE {scores['MSE']:.3f}")
    return {job: found[job] for job in jobs}


def mean_error(found: Mapping[Job, Mapping[str, float]], kind: str, context: int) -> float:
    """Return the mean squared error of a kind at a context, averaged over seeds."""
    errors = [scores["MSE"] for (k, c, _), scores in found.items() if (k, c) == (kind, context)]
    return statistics.mean(errors)


def errors_table(found: Mapping[Job, Mapping[str, float]], title: str) -> Table:
    """Return the errors of each kind at each context, by seed, and of untrained forecasts."""
    rows = [["forecaster", "context", "MSE by seed", "MAE by seed"]]
    for kind, context in dict.fromkeys((kind, context) for kind, context, _ in found):
        each = [scores for (k, c, _), scores in found.items() if (k, c) == (kind, context)]
        columns = (joined((scores[name] for scores in each), ".3f") for name in ("MSE", "MAE"))
        rows.append([kind, str(context), *columns])
    first = next(iter(found.values()))
    for name, value in first.items():
        if name.startswith("MSE of "):
            mae = first[name.replace("MSE", "MAE", 1)]
            rows.append([name.removeprefix("MSE of "), "", f"{value:.3f}", f"{mae:.3f}"])
    return Table(title, rows)
