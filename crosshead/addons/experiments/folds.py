"""Cross-validation: a run for each fold of the pairs, validated on this fold."""

from collections.abc import Mapping, Sequence

import numpy as np

from crosshead.addons.experiments.subsets import Experiment, Outcome, Report, Subset

LEAST_FOLDS = 3
"""The smallest number of folds with an interval. That of two would be 16 standard deviations to
each side."""

_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093,
)  # fmt: skip
"""The 97.5 % quantiles of Student's t distribution with 1, 2, ... degrees of freedom."""


def fold_experiment(count: int) -> Experiment:
    """Return the experiment that trains on all folds but one, and validates on this one."""
    without: dict[str, list[str]] = {"valid_source": [], "valid_target": [], "valid_pairs": []}
    subsets = [
        Subset(f"fold-{number}", f"fold {number} of {count}", {"fold": [number, count], **without})
        for number in range(1, count + 1)
    ]
    return Experiment("folds", f"{count}-folds", count, count, lambda recipe: subsets, fold_report)


def fold_report(whole: Outcome, outcomes: dict[str, Outcome]) -> Report:
    """Return the scores of all folds with their means."""
    return Report(outcomes, fold_sentences(outcomes))


def fold_sentences(outcomes: Mapping[str, Outcome]) -> list[str]:
    """Return a sentence for each metric: mean, spread, and an interval if it can have one."""
    count, found = len(outcomes), []
    for scores in zip(*(each.scores for each in outcomes.values()), strict=True):
        values, inside = [each.value for each in scores], ""
        if count >= LEAST_FOLDS:
            low, high = mean_interval(values)
            inside = f" (95 % interval {low:.2f} to {high:.2f})"
        found.append(
            f"{scores[0].metric} over {count} folds: {np.mean(values):.2f} on average{inside}, "
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
