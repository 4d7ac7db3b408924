"""Cross-validation: a run for each fold of the pairs, validated on this fold."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from crosshead.addons.experiments.subsets import (
    Outcome,
    Runs,
    Subset,
    subset_folder,
    train_subsets,
    write_table,
)
from crosshead.caller import option
from crosshead.errors import UserError
from crosshead.recipe.recipe import Recipe
from crosshead.system.progress import counted
from crosshead.text.parallel.corpora import training_parts
from crosshead.text.parallel.held_out import likeness
from crosshead.text.parallel.pairs import Pair, comparable
from crosshead.text.parallel.section import DataConfig

TABLE = "folds.tsv"
"""The file in the folder of the folds."""

LEAST_FOLDS = 3
"""The smallest number of folds with an interval. That of two would be 16 standard deviations to
each side."""

_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093,
)  # fmt: skip
"""The 97.5 % quantiles of Student's t distribution with 1, 2, ... degrees of freedom."""


@dataclass(frozen=True)
class Folds:
    """The runs of a cross-validation."""

    folder: Path
    outcomes: dict[str, Outcome]

    def values(self, metric: str) -> Sequence[float]:
        """Return the scores of the folds."""
        scores = (score for each in self.outcomes.values() for score in each.scores)
        return [score.value for score in scores if score.metric == metric]

    def sentences(self) -> list[str]:
        """Return a sentence for each metric: mean, spread, and an interval if it can have one."""
        count, found = len(self.outcomes), []
        for score in next(iter(self.outcomes.values())).scores:
            values = self.values(score.metric)
            inside = ""
            if count >= LEAST_FOLDS:
                low, high = mean_interval(values)
                inside = f" (95 % interval {low:.2f} to {high:.2f})"
            found.append(
                f"{score.metric} over {count} folds: {np.mean(values):.2f} on average{inside}, "
                f"from {min(values):.2f} to {max(values):.2f} (standard deviation "
                f"{np.std(values, ddof=1):.2f})."
            )
        return found


def mean_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of the mean score of all folds, cut to the scale of 0 to 100.

    The models of k folds share most of their training pairs, so their scores are not independent,
    and their deviation divided by the root of k is too small. The correction adds the ratio of test
    to training pairs, 1 / (k - 1), to 1 / k.

    Reference:
        Nadeau and Bengio 2003, "Inference for the Generalization Error".
    """
    count = len(values)
    deviation = float(np.std(values, ddof=1)) * np.sqrt(1 / count + 1 / (count - 1))
    half = _T[min(count - 1, len(_T)) - 1] * float(deviation)
    mean = float(np.mean(values))
    return max(0.0, mean - half), min(100.0, mean + half)


def check_enough_different(recipe: Recipe, count: int) -> None:
    """Check that each fold can hold out a pair.

    Pairs with the same source are in one fold and count once, unless the source has one or two
    words and the targets differ. Pairs that are never held out do not count: those with an empty or
    a very long side.
    """
    assert isinstance(recipe.data, DataConfig)
    found: set[Pair] = set()
    for part in training_parts(recipe.data):
        for source, target in () if part.exchanged else part.chunks():
            for pair in map(comparable, zip(source, target, strict=True)):
                if all(side and len(side) <= 4 * recipe.data.max_length for side in pair):
                    found.add(likeness(pair))
                if len(found) >= count:
                    return
    fewer = f"choose at most {len(found)} folds, or " if len(found) > 1 else ""
    raise UserError(
        f"{option('folds', str(count))}: the training data have only "
        f"{counted(len(found), 'different pair')}; {fewer}leave it out"
    )


def folds_folder(out: Path, count: int) -> Path:
    """Return the folder of a cross-validation beside the run on all pairs."""
    return subset_folder(out, f"{count}-folds")


def cross_validate(out: Path, count: int, runs: Runs) -> Folds | None:
    """Train on all folds but one, and validate on this one, for each fold."""
    check_enough_different(runs.recipe, count)
    folder = folds_folder(out, count)
    without: dict[str, list[str]] = {"valid_source": [], "valid_target": [], "valid_pairs": []}
    subsets = [
        Subset(f"fold-{number}", f"fold {number} of {count}", {"fold": [number, count], **without})
        for number in range(1, count + 1)
    ]
    outcomes = train_subsets(runs, folder, subsets)
    if outcomes is None:
        return None
    write_table(folder / TABLE, outcomes)
    return Folds(folder, outcomes)
