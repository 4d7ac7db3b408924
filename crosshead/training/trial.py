"""Trials before a run: whether its longest batch fits into memory, and how long an update takes.

The updates of a trial change no weight and no random draw of the run.
"""

import math
import time
from functools import partial

import numpy as np
import torch
from torch.utils.checkpoint import checkpoint

from crosshead.attention.dropout import drawing_twice
from crosshead.bundle.weights import build_without_memory
from crosshead.errors import ConfigError, DataError, is_out_of_memory
from crosshead.models.base import Model
from crosshead.recipe.recipe import Recipe
from crosshead.tasks.corpus import Corpus, Epoch
from crosshead.tasks.registry import task_of
from crosshead.training.distributed import World
from crosshead.training.hardware import (
    Machine,
    allocating_at_most,
    free_memory,
    naming_added_modules,
)
from crosshead.training.optimizer import Optimizer
from crosshead.training.progress import Progress
from crosshead.training.updater import RowTooLarge, Updater

_LEAST_BYTES = 16
"""The bytes of a weight, its gradient and its moments, at least, in every precision."""

_LATER_BYTES = 12
"""The bytes that a weight needs after its first gradient: two moments, and a copy to validate."""

_SECONDS, _UPDATES = 1.5, 10
"""The seconds and the number of updates after which a measurement ends. The first whole batch does
not count."""

_SLOW = 10.0
"""If a whole batch would take more seconds, only a share of it is computed."""

_ONE_ROW_IN = 8
"""The first measured updates have one row out of this number of rows of a batch."""


def build_model(recipe: Recipe, corpus: Corpus, machine: Machine, world: World) -> Model:
    """Build the model of a run; raise `ConfigError` if it can never fit into memory."""
    config = corpus.bundle_config(recipe, corpus.longest_input)
    free = free_memory(machine.device, world.local_size)
    if free is not None:
        built = build_without_memory(partial(corpus.kind.build, config))
        parameters = sum(parameter.numel() for parameter in built.parameters())
        shares = world.size if recipe.train.sharded else 1
        if _LEAST_BYTES * parameters // shares > free.left:
            raise ConfigError(
                f"a model of {parameters / 1e6:,.1f} M parameters needs more than {free} to train; "
                "choose a smaller model" + (", or set train.sharded" if world.size > shares else "")
            )
    torch.manual_seed(recipe.train.seed)
    model: Model = corpus.kind.build(config).to(machine.device, machine.dtype)
    if recipe.train.recompute:
        recompute_activations(model)
    return model


def recompute_activations(model: Model) -> None:
    """Keep only the inputs of each layer, and compute the rest again in the backward pass.

    This applies PyTorch's activation checkpointing to all layers of the stacks. Gradients stay the
    same, because dropout draws the same numbers again. An update takes about a third longer.

    Reference:
        Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost".
    """
    for layer in model.layers():
        layer.forward = partial(
            checkpoint, layer.forward, use_reentrant=False, context_fn=drawing_twice
        )


def try_longest_batch(
    recipe: Recipe,
    corpus: Corpus,
    machine: Machine,
    world: World,
    model: Model,
    optimizer: Optimizer,
) -> Progress:
    """Compute the gradients of a microbatch of the longest rows; return how batches are split.

    A single process splits batches until they fit, so a single row has to fit. Several processes
    do not split batches. Weights that they share (`train.sharded`) are not tried.
    """
    train, epoch = recipe.train, corpus.epochs(recipe)(0)
    progress = Progress(microbatches=train.accumulate)
    if train.sharded and world.size > 1:
        return progress
    most = max(1, train.batch_tokens // int(epoch.lengths.max()))
    longest = epoch.lengths.sum(axis=1).argsort(kind="stable")[-most:]
    rows = longest[-math.ceil(len(longest) / (train.accumulate * world.size)) :]
    free, tried = free_memory(machine.device, world.local_size), Progress()
    parallel = machine.parallel_microbatches(train, world.size)
    updater = Updater(task_of(recipe), model, optimizer, train, tried, parallel=parallel)
    buffers = [(each, each.clone()) for each in model.buffers()]
    with allocating_at_most(free, machine.device), naming_added_modules(model, machine):
        is_enough = _computes(updater, epoch, rows)
    optimizer.drop_gradients()
    for buffer, before in buffers:
        buffer.copy_(before)
    if not is_enough or (tried.microbatches > 1 and world.size > 1):
        row = int(rows[-1])
        place = int(abs(corpus.lengths - epoch.lengths[row]).sum(axis=1).argmin())
        several = "raise train.accumulate, " if world.size > 1 else ""
        raise DataError(
            f"{corpus.origin(place)}: training on {epoch.extent(row)} needs more memory than "
            f"{free or 'there is'}; {several}lower {epoch.bound}, or choose a smaller model"
        )
    progress.microbatches *= tried.microbatches
    progress.in_parallel = tried.in_parallel
    return progress


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


def measured_seconds(
    recipe: Recipe, corpus: Corpus, machine: Machine, world: World
) -> float | None:
    """Return the seconds of an update by all processes, or None if memory does not suffice.

    The updates train a model that is thrown away, with a learning rate of 0. They take a few
    seconds.
    """
    train = recipe.train
    try:
        model = build_model(recipe, corpus, machine, world)
    except ConfigError:
        return None
    progress = Progress(microbatches=train.accumulate)
    parallel = machine.parallel_microbatches(train)
    optimizer = Optimizer(model, train)
    updater = Updater(task_of(recipe), model, optimizer, train, progress, parallel=parallel)
    epoch = corpus.epochs(recipe)(0)
    free = free_memory(machine.device, world.local_size)
    try:
        with allocating_at_most(free, machine.device), naming_added_modules(model, machine):
            plan = epoch.plan(train.batch_tokens, train.seed, 0)
            return _measured(updater, epoch, plan) / world.size
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
