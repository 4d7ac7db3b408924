"""The verdict at the end of a run: whether its model is usable yet, and what to do if not."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from crosshead.bundle.places import how_to_resume
from crosshead.recipe.train import TrainConfig
from crosshead.system.progress import counted
from crosshead.tasks.usability import Findings
from crosshead.training.checkpoint import Progress

_MANY_UPDATES = 5000
"""After so many updates a model that is of no use needs something else than more of them."""


def warmup_signs(
    config: TrainConfig, progress: Progress, findings: Findings
) -> tuple[list[str], str]:
    """Return what the end of training within the warm-up tells of a model.

    Args:
        config: The settings of training.
        progress: Where the run stands.
        findings: What was found out about the model.

    Returns:
        A clause that says that the model is of no use yet, or none; and a note, or nothing, where
        the end within the warm-up is the only sign of it, and the model is fine-tuned or scores
        enough.
    """
    warmup = config.warmup or 0
    if progress.update > warmup:
        return [], ""
    if not findings.faults and (progress.tuned or findings.scores_enough):
        return [], (
            f"training ended within the warm-up (update {progress.update:,} of {warmup:,}); longer "
            "training may improve the model"
        )
    return [
        f"training ended at update {progress.update:,}, within the warm-up of "
        f"{counted(warmup, 'update')}"
    ], ""


def verdict(
    faults: Sequence[str], config: TrainConfig, progress: Progress, reason: str, out: Path
) -> str:
    """Return a line that says that a model is not usable yet, and what to do, or nothing.

    Args:
        faults: Clauses that say why.
        config: How it was trained.
        progress: How far training went.
        reason: Why it ended.
        out: The run directory.
    """
    if not faults:
        return ""
    *first, last = faults
    why = f"this model is not usable yet: {', '.join(first)}{' and ' if first else ''}{last}; "
    budget = reason.partition(" ")[0]
    if budget not in ("max_updates", "max_epochs", "max_minutes"):
        return why + "it has stopped getting better: train on more text, or another preset"
    if progress.update >= _MANY_UPDATES:
        return why + (
            "check that the training text is what it should be (of pairs, that each line is the "
            "translation of its line), or train on more of it"
        )
    # As much as it takes to train for five warm-ups at least.
    factor = max(10, math.ceil(5 * (config.warmup or 0) / max(1, progress.update)))
    longer = np.format_float_positional(factor * getattr(config, budget), trim="-")
    flag = f"--{budget.replace('_', '-')} {longer}"
    return f"{why}train longer: {how_to_resume(out)} {flag}"
