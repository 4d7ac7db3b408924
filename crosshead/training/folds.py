"""Cross-validation: a run for each fold of the pairs, validated on this fold."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from crosshead.training.subsets import (
    Outcome,
    Runs,
    Subset,
    subset_folder,
    train_subsets,
    write_table,
)

TABLE = "folds.tsv"
"""The file in the folder of the folds."""


@dataclass(frozen=True)
class Folds:
    """The runs of a cross-validation."""

    folder: Path
    outcomes: dict[str, Outcome]

    def values(self, metric: str) -> Sequence[float]:
        """Return the scores of the folds.

        Args:
            metric: The name of a metric.
        """
        scores = (score for each in self.outcomes.values() for score in each.scores)
        return [score.value for score in scores if score.metric == metric]

    def sentences(self) -> list[str]:
        """Return a sentence for each metric: mean and spread over the folds."""
        first = next(iter(self.outcomes.values()))
        return [
            f"{score.metric} over {len(self.outcomes)} folds: {np.mean(values):.2f} on average, "
            f"from {min(values):.2f} to {max(values):.2f} (standard deviation "
            f"{np.std(values, ddof=1):.2f})."
            for score in first.scores
            for values in [self.values(score.metric)]
        ]


def cross_validate(out: Path, count: int, runs: Runs) -> Folds | None:
    """Train on all folds but one, and validate on this one, for each fold.

    Args:
        out: The run on all pairs, beside which the folder of the folds stands.
        count: The number of folds.
        runs: The settings of the runs. Their recipe loses its validation files.

    Returns:
        The runs, or None if they were asked to stop.

    Raises:
        UserError: If a run cannot be trained.
    """
    folder = subset_folder(out, f"{count}-folds")
    without: dict[str, list[str]] = {"valid_source": [], "valid_target": [], "valid_pairs": []}
    subsets = [
        Subset(f"fold-{number}", f"fold {number} of {count}", {"fold": [number, count], **without})
        for number in range(1, count + 1)
    ]
    found = train_subsets(runs, folder, subsets)
    if found is None:
        return None
    outcomes = {each.name: outcome for each, outcome in zip(subsets, found, strict=True)}
    write_table(folder / TABLE, outcomes)
    return Folds(folder, outcomes)
