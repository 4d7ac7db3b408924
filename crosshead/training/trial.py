"""Trials before a run: whether its longest batch fits into memory, and how long an update takes.

The updates of a trial change no weight and no random draw of the run.
"""

import contextlib
import math
import time
from collections.abc import Iterator

import numpy as np
import torch

from crosshead.errors import DataError, is_out_of_memory
from crosshead.tasks.corpus import Epoch
from crosshead.training.hardware import FreeMemory, allocating_at_most, naming_added_modules
from crosshead.training.progress import Progress
from crosshead.training.setup import Setup
from crosshead.training.updater import RowTooLarge, Updater

_LATER_BYTES = 12
"""The bytes that a weight needs after its first gradient: two moments, and a copy to validate."""

_SECONDS, _UPDATES = 1.5, 10
"""The seconds and the number of updates after which a measurement ends. The first whole batch does
not count."""

_SLOW = 10.0
"""If a whole batch would take more seconds, only a share of it is computed."""

_ONE_ROW_IN = 8
"""The first measured updates have one row out of this number of rows of a batch."""


def try_longest_batch(setup: Setup) -> None:
    """Compute the gradients of a microbatch of the longest rows, and decide how to split batches.

    A single process splits batches until they fit, so a single row has to fit. Several processes
    do not split batches. Weights that they share (`train.sharded`) are not tried.
    """
    train, corpus, progress = setup.recipe.train, setup.corpus, setup.progress
    context, size = setup.context, setup.context.world.size
    if train.sharded and size > 1:
        return
    epoch = corpus.epochs(setup.recipe)(0)
    most = max(1, train.batch_tokens // int(epoch.lengths.max()))
    longest = epoch.lengths.sum(axis=1).argsort(kind="stable")[-most:]
    rows = longest[-math.ceil(len(longest) / (train.accumulate * size)) :]
    tried, optimizer = Progress(), setup.optimizer
    buffers = [(each, each.clone()) for each in setup.model.buffers()]
    with _limited(setup) as free:
        is_enough = _computes(setup.updater(tried), epoch, rows)
    optimizer.drop_gradients()
    for buffer, before in buffers:
        buffer.copy_(before)
    if not is_enough or (tried.microbatches > 1 and size > 1):
        row = int(rows[-1])
        place = int(abs(corpus.lengths - epoch.lengths[row]).sum(axis=1).argmin())
        several = "raise train.accumulate, " if size > 1 else ""
        raise DataError(
            f"{corpus.origin(place)}: training on {epoch.extent(row)} needs more memory than "
            f"{free or 'there is'}; {several}lower {epoch.bound}, or choose a smaller model"
        )
    progress.microbatches *= tried.microbatches
    progress.in_parallel = tried.in_parallel
    if tried.microbatches > 1:
        context.say(
            "not enough memory for a whole batch of the longest rows: batches are computed in "
            f"{progress.microbatches} microbatches"
        )


def _computes(updater: Updater, epoch: Epoch, rows: np.ndarray) -> bool:
    """Compute gradients beside the memory of later steps; return whether memory suffices."""
    optimizer = updater.optimizer
    try:
        later = torch.empty(
            _LATER_BYTES * optimizer.size(), dtype=torch.uint8, device=optimizer.device
        )
        updater.gradients(epoch, rows)
        del later
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        return False
    return True


@contextlib.contextmanager
def _limited(setup: Setup) -> Iterator[FreeMemory | None]:
    """Compute within the free memory of this process in the block, which gets this memory."""
    machine = setup.machine
    free = machine.free_memory()
    with allocating_at_most(free, machine.device), naming_added_modules(setup.model, machine):
        yield free


def measured_seconds(setup: Setup) -> float | None:
    """Return the seconds of an update by this process, or None if memory does not suffice.

    The updates train the model of the setup with a learning rate of 0. They take a few seconds.
    """
    train, epoch = setup.recipe.train, setup.corpus.epochs(setup.recipe)(0)
    try:
        with _limited(setup):
            plan = epoch.plan(train.batch_tokens, train.seed, 0)
            return _measured(setup.updater(setup.progress), epoch, plan)
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
    taken: list[float] = []
    while len(taken) < _UPDATES and sum(taken) < _SECONDS:
        rows = plan[len(taken) % len(plan)]
        for _ in range(updater.slow_updates):
            _seconds(updater, epoch, rows)
        taken.append(_seconds(updater, epoch, rows))
    return sum(taken) / len(taken)


def _seconds(updater: Updater, epoch: Epoch, rows: np.ndarray) -> float:
    """Return the seconds of an update on some rows."""
    began = time.perf_counter()
    updater.gradients(epoch, rows)
    updater.optimizer.step(0.0, updater.replicas)
    return time.perf_counter() - began
