"""The verdict at the end of a run: is the model usable, and what to do if it is not."""

import math
from collections.abc import Sequence
from pathlib import Path

from crosshead.caller import how_to_resume, option, setting
from crosshead.recipe.train import TrainConfig
from crosshead.tasks.base import Task
from crosshead.training.budget import End, EndKind
from crosshead.training.progress import Progress

_MANY_UPDATES, _MANY_EPOCHS = 5000, 50
"""After so many updates or epochs, more of them do not help a model that is not usable. A run of 98
epochs on 135 pairs was once told to train longer."""

_MADE = 0.5
"""A run that made a smaller share of its planned updates says nothing about its data. A run on a
busy machine was once told to check its data."""

_LONGER = 4
"""The advised run has at least this many times the budget of the run that was too short."""

_LEAST = {EndKind.MAX_UPDATES: 1000, EndKind.MAX_EPOCHS: 10, EndKind.MAX_MINUTES: 5}
"""The smallest budget that is advised, so that a run of seconds gets one advice and not three."""


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
    better = improvement(task, config, progress, end, out)
    return f"this model is not usable yet: {' and '.join(faults)}; {better}"


def improvement(task: Task, config: TrainConfig, progress: Progress, end: End, out: Path) -> str:
    """Return a clause that says what would make a better model: other data, more data, more time.

    It also stands as a sentence of its own.
    """
    if progress.data_fault:
        return f"the likely cause is the data: {progress.data_fault}"
    epochs = config.max_epochs and config.max_epochs * progress.batches
    planned = min(filter(None, (config.max_updates, epochs, progress.planned)), default=0)
    is_long = progress.update >= _MANY_UPDATES or progress.epochs >= _MANY_EPOCHS
    if end.kind is EndKind.PATIENCE or (is_long and progress.update >= _MADE * planned):
        return f"{task.check_data}, or train on more data"
    budget = math.ceil(_LONGER * getattr(config, end.kind))
    larger = setting(f"train.{end.kind}", max(budget, _LEAST[end.kind]), has_flag=True)
    if config.cooldown:
        # The learning rate has fallen to 0, so a resumed run would learn nothing.
        return f"train longer: begin this run again with {option('force')} and {larger}"
    return f"train longer: {how_to_resume(out, larger)}"
