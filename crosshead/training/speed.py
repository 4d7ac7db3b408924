"""The speed of training on this machine, measured before a run."""

import time

import numpy as np

from crosshead.recipe.recipe import Recipe
from crosshead.tasks.corpus import Corpus, Epoch
from crosshead.tasks.registry import task_of
from crosshead.training.distributed import ALONE
from crosshead.training.hardware import Machine, naming_added_modules
from crosshead.training.memory import recompute_activations
from crosshead.training.optimizer import Optimizer
from crosshead.training.progress import Progress
from crosshead.training.updater import RowTooLarge, Updater

_SECONDS, _UPDATES = 1.5, 10
"""The seconds and the number of updates after which a measurement ends. The first whole batch does
not count."""

_SLOW = 10.0
"""If a whole batch would take more seconds, only a share of it is computed."""

_ONE_ROW_IN = 8
"""The first measured updates have one row out of this number of rows of a batch."""


def measured_seconds(recipe: Recipe, corpus: Corpus, machine: Machine) -> float | None:
    """Return the seconds of an update on this machine, or None if memory does not suffice.

    The updates train a model that is thrown away, with a learning rate of 0. They take a few
    seconds, and they change no random draw of the run.
    """
    train = recipe.train
    config = corpus.bundle_config(recipe, corpus.longest_input)
    model = corpus.kind.build(config).to(machine.device, machine.dtype)
    if train.recompute:
        recompute_activations(model)
    progress = Progress(microbatches=train.accumulate, accumulate=train.accumulate)
    updater = Updater(
        task_of(recipe), model, Optimizer(model, train), train, progress, lambda line: None, ALONE,
        machine.parallel_microbatches(train),
    )  # fmt: skip
    epoch = corpus.epochs(recipe)(0)
    try:
        with naming_added_modules(model, machine):
            return _measured(updater, epoch, epoch.plan(train.batch_tokens, train.seed, 0))
    except RowTooLarge:
        return None


def _measured(updater: Updater, epoch: Epoch, plan: list[np.ndarray]) -> float:
    """Return the mean seconds of a few updates, in the order of the plan.

    The first update of a size takes longer, because memory is allocated.
    """
    few = plan[0][:: min(_ONE_ROW_IN, len(plan[0]))]
    for _ in range(2):
        took = _seconds(updater, epoch, few)
    whole = took * len(plan[0]) / len(few)
    if whole > _SLOW:
        return whole
    _seconds(updater, epoch, plan[0])
    began, updates = time.perf_counter(), 0
    while updates < _UPDATES and time.perf_counter() - began < _SECONDS:
        updater.update(epoch, plan[updates % len(plan)], 0.0)
        updates += 1
    return (time.perf_counter() - began) / updates


def _seconds(updater: Updater, epoch: Epoch, rows: np.ndarray) -> float:
    """Return the seconds of an update on some rows."""
    began = time.perf_counter()
    updater.update(epoch, rows, 0.0)
    return time.perf_counter() - began
