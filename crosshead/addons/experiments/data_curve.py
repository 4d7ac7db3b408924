"""The data curve, scores over the amount of data: runs on halves of the pairs, and a power law."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from crosshead.addons.experiments.power_law import Gain, PowerLaw, ScoreOfPairs, fit_power_law, gain
from crosshead.addons.experiments.subsets import (
    Outcome,
    Runs,
    Subset,
    outcome_of,
    subset_folder,
    train_subsets,
    write_table,
)
from crosshead.caller import option
from crosshead.errors import UserError
from crosshead.system.files import atomic_write
from crosshead.system.plotting import drawing, new_figure, rendered
from crosshead.tasks.translation.task import BLEU
from crosshead.tasks.usability import LOW_BLEU
from crosshead.training.training_curve import LEAST_SCORE

SHARES = {"half": 1 / 2, "quarter": 1 / 4}
"""The shares of the training pairs, besides all of them. Smaller ones would mislead the law: scores
of very few pairs often rise more slowly than by a power law."""

LEAST_PAIRS = 400
"""A curve needs at least this many training pairs."""

TABLE, PICTURE = "curve.tsv", "curve.png"
"""Files in the folder of the curve."""


@dataclass(frozen=True)
class MetricCurve:
    """The scores of one metric by the number of training pairs."""

    metric: str
    measured: Sequence[ScoreOfPairs]
    """The scores, by rising number of pairs."""
    law: PowerLaw
    gain: Gain
    """The effect of twice the data."""
    is_too_low: bool = False
    """True if the models are not usable, so that their scores say nothing about more data."""

    def sentence(self) -> str:
        """Return what twice the data would likely bring."""
        found = self.gain
        data = f"twice the data ({2 * self.measured[-1].pairs:,} pairs)"
        if self.is_too_low:
            why = f"all of these runs have a BLEU below {LOW_BLEU:g}"
        elif not found.fits:
            why = "no power law fits these scores"
        elif found.high < 0:
            why = "the model of all pairs is worse than one of fewer pairs"
        else:
            change = f"{found.value:+.1f} (95 %: {found.low:+.1f} to {found.high:+.1f})"
            unclear = "" if found.is_certain else ", so these runs do not show that it would help"
            return f"T{data[1:]} would likely change {self.metric} by {change}{unclear}."
        return f"What {data} would bring in {self.metric} cannot be told: {why}; train for longer."


@dataclass(frozen=True)
class DataCurve:
    """The data curves of all metrics, and the runs behind them."""

    folder: Path
    outcomes: dict[str, Outcome]
    """The runs by name, the smallest first."""
    metrics: list[MetricCurve]


def check_enough_pairs(pairs: int) -> None:
    """Check that there are enough training pairs for a curve."""
    if pairs < LEAST_PAIRS:
        raise UserError(
            f"{option('curve')}: {pairs:,} training pairs are too few; a curve needs at least "
            f"{LEAST_PAIRS:,}: leave it out"
        )


def curve_folder(out: Path) -> Path:
    """Return the folder of the curve beside a run."""
    return subset_folder(out, "curve")


def data_curve(out: Path, runs: Runs) -> DataCurve | None:
    """Train on halves of the pairs of a finished run, and fit a law through the scores.

    The folder gets a table. `draw_data_curve` draws the picture.
    """
    whole, folder = outcome_of(out), curve_folder(out)
    check_enough_pairs(whole.pairs)
    given = getattr(runs.recipe.data, "share", 1.0)
    subsets = [
        Subset(name, f"curve, a {name} of the pairs", {"share": given * share})
        for name, share in SHARES.items()
    ]
    found = train_subsets(runs, folder, subsets)
    if found is None:
        return None
    outcomes = dict(reversed(found.items())) | {"all": whole}
    write_table(folder / TABLE, outcomes)
    return DataCurve(folder, outcomes, metric_curves(*_scores(outcomes)))


def metric_curves(
    metrics: Sequence[str], rows: Sequence[Sequence[ScoreOfPairs]]
) -> list[MetricCurve]:
    """Return the curve of each metric, with the law through its scores.

    If BLEU is low in all runs, no curve says anything. A BLEU of 0 in all runs may come from texts
    that are too short for it, so the other metrics keep their curves.
    """
    scores = dict(zip(metrics, rows, strict=True))
    best = max((each.value for each in scores.get(BLEU.label, ())), default=LOW_BLEU)
    curves = []
    for metric, measured in scores.items():
        is_too_low = best < LOW_BLEU and (best > 0 or metric == BLEU.label)
        law = fit_power_law(measured)
        curves.append(MetricCurve(metric, measured, law, gain(law, measured[-1]), is_too_low))
    return curves


def draw_data_curve(curve: DataCurve) -> None:
    """Draw scores, law and interval as a PNG picture, with an axis for each metric."""
    with drawing():
        count = len(curve.metrics)
        figure = new_figure(figsize=(4.2 * count, 3.6))
        for axes, metric in zip(figure.subplots(1, count, squeeze=False)[0], curve.metrics,
                                strict=True):  # fmt: skip
            _draw(axes, metric)
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=len(labels))
        drawn = rendered(figure)
    atomic_write(curve.folder / PICTURE, drawn)


def _scores(outcomes: dict[str, Outcome]) -> tuple[list[str], list[list[ScoreOfPairs]]]:
    """Return the metrics, and their scores by number of pairs."""
    names = [score.metric for score in next(iter(outcomes.values())).scores]
    rows = [
        [
            ScoreOfPairs(each.pairs, score.value, score.low or 0.0, score.high or 0.0)
            for each in outcomes.values()
            for score in each.scores
            if score.metric == name
        ]
        for name in names
    ]
    return names, rows


def _draw(axes: Any, curve: MetricCurve) -> None:
    """Draw one metric: points with intervals, and the law up to twice the data."""
    pairs = np.array([each.pairs for each in curve.measured])
    values = np.array([each.value for each in curve.measured])
    low, high = (
        np.abs(values - [getattr(each, end) for each in curve.measured]) for end in ("low", "high")
    )
    wide = np.geomspace(pairs[0], 2 * pairs[-1], 100)
    laws = np.stack([curve.law.values(each) for each in wide])
    ends = np.quantile(laws[:, 1:], [0.025, 0.975], axis=1)
    axes.fill_between(wide, *ends, color="tab:blue", alpha=0.15, label="95 % of laws", linewidth=0)
    axes.plot(wide, laws[:, 0], color="tab:blue", label="power law")
    axes.errorbar(pairs, values, [low, high], fmt="o", color="tab:orange", capsize=3,
                  label="measured, with interval")  # fmt: skip
    axes.plot(wide[-1], laws[-1, 0], "o", mfc="none", color="tab:blue", label="twice the data")
    axes.set_xscale("log", base=2)
    ticks = [*pairs.tolist(), 2 * int(pairs[-1])]
    axes.set_xticks(ticks, [f"{each:,}" for each in ticks])
    axes.minorticks_off()
    axes.set_xlabel("training pairs")
    axes.set_ylabel(curve.metric)
    axes.set_ylim(bottom=0, top=max(axes.get_ylim()[1], LEAST_SCORE))
    axes.grid(alpha=0.3)
