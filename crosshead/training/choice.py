"""Choice of the weights of a bundle: the best single weights, or an average of checkpoints."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from crosshead.recipe.train import TrainConfig
from crosshead.tasks.base import Task
from crosshead.tasks.validation import Validator
from crosshead.training.checkpoint import (
    average_weights,
    list_checkpoints,
    load_best,
    load_weights,
    save_best,
    save_state,
)
from crosshead.training.progress import Progress
from crosshead.training.setup import Setup


class ChosenWeights(NamedTuple):
    """The weights that validated best."""

    weights: dict[str, Tensor]
    clause: str
    """A description of the weights, for the log and the model card."""
    validated: dict[str, float]
    """The validation metrics of the weights, by name."""


def choose_weights(setup: Setup, validator: Validator[Any, Any, Any]) -> ChosenWeights:
    """Return the best weights so far or the average of the last checkpoints, whichever is better.

    The average is one of the weights of single updates, also with a moving average (`train.ema`).
    If it validates better, it is saved as the best weights so far. A run that is resumed
    with a larger budget therefore never ends with worse validated weights.
    """
    task, config, progress = setup.task, setup.recipe.train, setup.progress
    context, main = setup.context, setup.context.main
    assert main is not None
    best, chosen = load_best(main.directory), config.metric or task.chooses
    last = list_checkpoints(main.directory)[-config.average :] if config.average > 1 else []
    if len(last) < 2 or progress.best_score is None:
        return _best(task, best, config, progress)
    averaged = average_weights([load_weights(place) for place in last])
    found, updates = validator.validate(averaged), [update_of(place) for place in last]
    score = found.score(task.metrics, chosen)
    is_new = found.is_better(score, progress.best_score, task.metrics, chosen)
    is_best = is_new or updates == progress.best_average
    context.write(
        "average",
        progress.update,
        epoch=progress.epoch,
        seconds=round(progress.seconds, 2),
        weights=_name(updates),
        **found.values,
        best=is_best,
    )
    context.say(
        f"{_name(updates)}: {found.clause(task.metrics)}{'  (best so far)' if is_best else ''}"
    )
    if not is_new:
        return _best(task, best, config, progress)
    if progress.best_alone is None:
        progress.best_alone = progress.best_score
    progress.best_score, progress.best_update = score, progress.update
    progress.best_average = updates
    save_best(main.directory, averaged, main.settings, progress.update)
    save_state(main.directory, progress)
    return _best(task, averaged, config, progress)


def update_of(checkpoint: Path) -> int:
    """Return the update of a checkpoint, from its name."""
    return int(checkpoint.name.removeprefix("update-"))


def _best(
    task: Task, weights: dict[str, Tensor], config: TrainConfig, progress: Progress
) -> ChosenWeights:
    """Return the best weights so far, with their description and metrics from `progress`."""
    chosen = config.metric or task.chooses
    ordered = sorted(task.metrics, key=lambda metric: metric.name != chosen)
    validated = {
        metric.name: value if metric.higher_is_better else -value
        for metric, value in zip(ordered, progress.best_score or [], strict=False)
    }
    if progress.best_average:
        return ChosenWeights(weights, _name(progress.best_average), validated)
    label, search = ordered[0].label, ordered[0].search
    if validated[chosen] <= ordered[0].chance and len(ordered) > 1:
        label, search = ordered[1].label, ordered[1].search
    name = f"{label} ({search})" if search else label
    clause = f"the best validation {name}, at update {progress.best_update}"
    if config.ema:
        clause += f", as a moving average of decay {config.ema:g}"
    if not progress.best_update:
        clause += " (the initial weights)"
    return ChosenWeights(weights, clause, validated)


def _name(updates: Sequence[int]) -> str:
    return f"the average of {len(updates)} checkpoints, updates {updates[0]} to {updates[-1]}"
