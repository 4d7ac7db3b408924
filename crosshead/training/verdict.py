"""The verdict at the end of a run: is the model usable, and what to do if it is not."""

import math
from collections.abc import Sequence
from pathlib import Path

from crosshead.caller import how_to_resume, option, setting
from crosshead.recipe.train import TrainConfig
from crosshead.system.progress import counted
from crosshead.tasks.base import Task
from crosshead.tasks.usability import Findings
from crosshead.training.budget import End, EndKind
from crosshead.training.progress import Progress

_MANY_UPDATES, _MANY_EPOCHS = 5000, 50
"""After so many updates or epochs, more of them do not help a model that is not usable."""

_MADE = 0.5
"""A run that made a smaller share of its planned updates says nothing about its data."""

_LONGER = 4
"""The advised run has at least this many times the updates of the run that was too short."""

_WARMUPS = 5
"""A resumed run has at least this many times the updates of its warm-up."""

_LEAST_MINUTES, _LEAST_UPDATES = 5, 1000
"""A longer run has at least this many minutes, or this many updates."""


def warmup_fault(config: TrainConfig, progress: Progress, findings: Findings) -> list[str]:
    """Return a clause if the run ended before the last update of its warm-up, in a list.

    There is none if no other faults were found, and the model was fine-tuned or its scores are
    above chance.
    """
    warmup = config.warmup or 0
    is_fine = not findings.faults and (progress.tuned or findings.above_chance)
    if progress.update >= warmup or config.warmup_share or is_fine:
        return []
    return [
        f"training ended at update {progress.update:,}, within the warm-up of "
        f"{counted(warmup, 'update')}"
    ]


def verdict(
    faults: Sequence[str],
    task: Task,
    config: TrainConfig,
    progress: Progress,
    end: End,
    out: Path,
) -> str:
    """Return a line that says why a model is not usable yet and what to do, or an empty string."""
    if not faults:
        return ""
    *first, last = faults
    why = f"this model is not usable yet: {', '.join(first)}{' and ' if first else ''}{last}; "
    return why + improvement(task, config, progress, end, out)


def improvement(task: Task, config: TrainConfig, progress: Progress, end: End, out: Path) -> str:
    """Return clauses that say what would make a better model: other data, more data, more time.

    They also stand as a sentence of their own.
    """
    if progress.data_fault:
        return f"the likely cause is the data: {progress.data_fault}"
    budget = {
        EndKind.MAX_UPDATES: config.max_updates,
        EndKind.MAX_EPOCHS: config.max_epochs,
        EndKind.MAX_MINUTES: config.max_minutes,
    }.get(end.kind)
    epochs = config.max_epochs and config.max_epochs * progress.batches
    planned = min(filter(None, (config.max_updates, epochs, progress.planned)), default=0)
    updates = progress.update
    made = f"the run made {updates:,} of about {planned:,} planned updates; "
    few = made if updates < _MADE * planned else ""
    is_long = updates >= _MANY_UPDATES or (
        progress.epochs >= _MANY_EPOCHS and updates >= (config.warmup or 0)
    )
    if budget is None or (is_long and not few):
        stopped = "the model has stopped improving: " if budget is None else ""
        return f"{stopped}{task.check_data}, or train on more data"
    longer = _longer(end.kind, budget, config, progress)
    larger = setting(f"train.{end.kind}", longer, has_flag=True)
    if config.cooldown:
        # The learning rate has fallen to 0, so a resumed run would learn nothing.
        return f"{few}train longer: begin this run again with {option('force')} and {larger}"
    return f"{few}train longer: {how_to_resume(out, larger)}"


def _longer(kind: EndKind, budget: float, config: TrainConfig, progress: Progress) -> int:
    """Return a budget for a run that is long enough, of the kind that has ended a shorter run."""
    updates = max(1, progress.update)
    # A run that begins again may choose another warm-up.
    warmup = 0 if config.cooldown else config.warmup or 0
    factor = max(_LONGER, _WARMUPS * warmup / updates)
    if kind is EndKind.MAX_MINUTES:
        return _rounded_up(max(_LEAST_MINUTES, budget * factor))
    return _rounded_up(budget * max(factor, _LEAST_UPDATES / updates))


def _rounded_up(value: float) -> int:
    """Return the least whole number of at most two significant digits that is not below `value`."""
    step: int = 10 ** max(0, math.floor(math.log10(value)) - 1)
    return step * math.ceil(value / step - 1e-9)
