"""A run that is ready to train: its machine, its model and its optimizer, built in one place."""

from dataclasses import dataclass, field
from functools import partial

import torch
from torch.utils.checkpoint import checkpoint

from crosshead.attention.dropout import drawing_twice
from crosshead.bundle.weights import build_without_memory, check_storable
from crosshead.errors import ConfigError
from crosshead.models.base import Model
from crosshead.recipe.recipe import Recipe
from crosshead.system.progress import counted
from crosshead.tasks.base import Task
from crosshead.tasks.corpus import Corpus
from crosshead.tasks.registry import task_of
from crosshead.training.context import Context
from crosshead.training.distributed import World, shard
from crosshead.training.hardware import Machine, choose_machine
from crosshead.training.optimizer import Optimizer
from crosshead.training.progress import Progress
from crosshead.training.schedule import Overhead
from crosshead.training.updater import Updater

_LEAST_BYTES = 16
"""The bytes of a weight, its gradient and its moments, at least, in every precision."""


@dataclass
class Setup:
    """A run that is ready to start or to continue."""

    task: Task
    recipe: Recipe
    machine: Machine
    corpus: Corpus
    model: Model
    optimizer: Optimizer
    progress: Progress
    context: Context
    overhead: Overhead = field(default_factory=Overhead)
    """The time that the command needs besides updates."""
    done: float = 0.0
    """The completed fraction of the run at the last decision, the same in all processes."""

    def updater(self, trial: Progress | None = None) -> Updater:
        """Return the updater of the run, or one of a trial, which this process makes alone."""
        train, world = self.recipe.train, self.context.world
        parts = self.task, self.model, self.optimizer, train
        parallel = self.machine.parallel_microbatches(train, world.size)
        if trial is not None:
            return Updater(*parts, trial, parallel=parallel)
        return Updater(*parts, self.progress, self.context.say, world, parallel)

    def continue_from(self, progress: Progress) -> list[str]:
        """Continue from `progress`; return a clause for each change in how the run computes."""
        new, changes = self.progress, []
        if (progress.threads, progress.processes) != (new.threads, new.processes):
            now, before = _threads_and_processes(new), _threads_and_processes(progress)
            changes.append(f"with {now}, where the run had {before}")
        if progress.accumulate != new.accumulate:
            changes.append(
                f"with batches in {counted(new.microbatches, 'microbatch')}, where the run had "
                f"them in {progress.microbatches:,}"
            )
            progress.microbatches, progress.in_parallel = new.microbatches, True
        progress.threads, progress.processes = new.threads, new.processes
        progress.accumulate = new.accumulate
        self.progress, self.corpus = progress, self.corpus.with_origin(progress.origin)
        return changes


def machine_of(recipe: Recipe, context: Context) -> Machine:
    """Return the device, the threads and the precision of a run."""
    world = context.world
    return choose_machine(recipe.train, world.device(recipe.train.device), world.local_size)


def build(recipe: Recipe, machine: Machine, corpus: Corpus, context: Context) -> Setup:
    """Build the model and the optimizer of a run; the recipe gets the precision of the machine."""
    recipe = on_machine(recipe, machine)
    train, world = recipe.train, context.world
    model = _model(recipe, machine, corpus, world)
    check_storable(model, recipe.model.architecture)
    if train.sharded and world.size > 1:
        shard(model)
    progress = Progress(
        microbatches=train.accumulate,
        accumulate=train.accumulate,
        threads=machine.threads,
        processes=world.size,
    )
    optimizer = Optimizer(model, train)
    return Setup(task_of(recipe), recipe, machine, corpus, model, optimizer, progress, context)


def _model(recipe: Recipe, machine: Machine, corpus: Corpus, world: World) -> Model:
    """Build the model of a run; raise `ConfigError` if it can never fit into memory."""
    config = corpus.bundle_config(recipe, corpus.longest_input)
    if (free := machine.free_memory()) is not None:
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


def _threads_and_processes(progress: Progress) -> str:
    several = f"{progress.processes} processes of " if progress.processes > 1 else ""
    return several + counted(progress.threads, "thread")


def on_machine(recipe: Recipe, machine: Machine) -> Recipe:
    """Return the recipe with the chosen precision, so that a repeated or resumed run keeps it.

    The number of threads is not stored: each machine and number of processes chooses it again.
    """
    train = recipe.train.model_copy(update={"precision": machine.precision})
    return recipe.model_copy(update={"train": train})
