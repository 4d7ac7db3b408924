"""Preparation of a new run, and of a worker process beside the main process."""

import hashlib
import time
from dataclasses import dataclass, field
from pathlib import Path

from crosshead.bundle.base import BUNDLE, Bundle, ImportOrigin
from crosshead.bundle.places import CHECKPOINTS, WEIGHTS, hub_place
from crosshead.bundle.weights import check_storable, weights_of
from crosshead.errors import UserError
from crosshead.models.base import Model
from crosshead.recipe.recipe import Recipe
from crosshead.recipe.stored import check_fine_tuned
from crosshead.system.progress import Silent, counted
from crosshead.system.stored import open_stored
from crosshead.tasks.automatic import updates_per_epoch
from crosshead.tasks.base import Speed, Task
from crosshead.tasks.corpus import Corpus, Stopped
from crosshead.tasks.registry import load_bundle, task_of
from crosshead.training.checkpoint import list_checkpoints, load_checkpoint
from crosshead.training.context import Context
from crosshead.training.directory import stored_recipe
from crosshead.training.distributed import shard
from crosshead.training.hardware import Machine, choose_machine
from crosshead.training.optimizer import Optimizer
from crosshead.training.progress import Progress
from crosshead.training.schedule import STOPPED, End, Overhead, seconds_for_updates, with_sizes
from crosshead.training.trial import build_model, measured_seconds, try_longest_batch
from crosshead.training.updater import Updater


class NothingToTrain(Exception):
    """Raised in a worker if the main process finds that the run has nothing to train."""

    def __init__(self, end: End) -> None:
        super().__init__(end.text)
        self.end = end


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
    began: Recipe | None = None
    """The recipe that a resumed run was saved with. None for a new run."""
    overhead: Overhead = field(default_factory=Overhead)
    """The time that the command needs besides updates."""
    done: float = 0.0
    """The completed fraction of the run at the last decision, the same in all processes."""

    def updater(self) -> Updater:
        """Return the updater of the run."""
        train, world = self.recipe.train, self.context.world
        return Updater(
            self.task, self.model, self.optimizer, train, self.progress, self.context.say, world,
            self.machine.parallel_microbatches(train, world.size),
        )  # fmt: skip


def prepare_new(recipe: Recipe, start: Path | None, context: Context) -> Setup:
    """Prepare a new run, with a new model or with the model of a bundle."""
    base = load_bundle(start) if start else None
    if base is not None and start is not None:
        check_fine_tuned(task_of(base.config).sections(base), recipe, start)
    machine = machine_of(recipe, context)
    task = task_of(recipe)
    recipe, lines = task.prepare(recipe)
    for line in lines:
        context.say(line)
    corpus = task.read(recipe, base, None, context.say, context.should_stop)
    context.check_size(corpus.size)
    stated = _stated(recipe)
    recipe = corpus.completed(recipe)
    recipe, planned = _settled(recipe, corpus, machine, context)
    setup = set_up(recipe, machine, corpus, context)
    if base is not None and start is not None:
        setup.optimizer.set_weights(weights_of(base.model))
        setup.progress.validated, setup.progress.tuned = -1, True
        set_origin(setup, _origin(base, start))
    progress = setup.progress
    progress.stated, progress.data_fault = stated, corpus.data_fault
    progress.planned = planned
    progress.longest_input = max(
        corpus.longest_input, base.longest_input if base is not None else 0
    )
    progress.size, progress.data_sha256 = corpus.size, corpus.sha256()
    progress.names = recipe.data.files()
    return setup


def prepare_worker(out: Path, start: Path | None, resume: bool, context: Context) -> Setup:
    """Prepare a worker process for the run that the main process has written to `out`.

    The worker waits until the main process is ready.
    """
    world = context.world
    announced = world.broadcast()
    if "end" in announced:
        end = End.received(announced["end"])
        raise Stopped if end == STOPPED else NothingToTrain(end)
    recipe = stored_recipe(out)
    machine = machine_of(recipe, context)
    # One process of each machine prints the progress of reading the data.
    say = (context.display if world.local_rank == 0 else Silent()).say
    corpus = task_of(recipe).read(recipe, None, out, say, context.should_stop)
    if corpus.sha256() != announced["sha256"]:
        names = ", ".join([*recipe.data.files(), str(out)])
        raise UserError(
            f"process {world.rank} of the run reads other data than process 0; these files must be "
            f"the same on all machines: {names}"
        )
    setup = set_up(recipe, machine, corpus, context)
    if resume:
        newest = list_checkpoints(out / CHECKPOINTS)[-1]
        continue_from(setup, load_checkpoint(newest, setup.optimizer))
    elif start is not None:
        setup.optimizer.set_weights(weights_of(load_bundle(start).model))
        setup.progress.validated = -1
    return setup


def _stated(recipe: Recipe) -> list[str]:
    """Return the keys that a recipe states although the run could choose them."""
    return [
        f"{section}.{key}"
        for section, keys in recipe.left_open.items()
        for key, is_open in keys.items()
        if getattr(getattr(recipe, section), key) != is_open
    ]


def _settled(
    recipe: Recipe, corpus: Corpus, machine: Machine, context: Context
) -> tuple[Recipe, int]:
    """Fill in the settings that depend on the data, the budget and the speed of this machine."""
    minutes, epoch_seconds = recipe.train.max_minutes, 0.0

    def seconds_per_update(recipe: Recipe) -> float | None:
        nonlocal epoch_seconds
        seconds = measured_seconds(recipe, corpus, machine, context.world)
        if seconds is not None:
            epoch_seconds = seconds * updates_per_epoch(recipe, corpus)
        return seconds

    def seconds_left() -> float | None:
        # Measuring the speed and learning alignments take some of the minutes.
        taken = time.perf_counter() - context.began
        return None if minutes is None else seconds_for_updates(minutes, taken)

    if recipe.open:
        speed = Speed(seconds_per_update, seconds_left)
        recipe, lines = task_of(recipe).settle(recipe, corpus, speed)
        for line in lines:
            context.say(line)
    if minutes is not None and recipe.train.warmup is None:
        seconds_per_update(recipe)
    left, budget = seconds_left(), None
    if left is not None and epoch_seconds:
        budget = left * updates_per_epoch(recipe, corpus) / epoch_seconds
    return with_sizes(recipe.opened(()), corpus.epochs(recipe)(0), budget), int(budget or 0)


def set_origin(setup: Setup, origin: ImportOrigin | None) -> None:
    """Set where the model came from that training started from, for the bundle and its card."""
    setup.progress.origin = origin
    setup.corpus = setup.corpus.with_origin(origin)


def _origin(base: Bundle, start: Path) -> ImportOrigin | None:
    """Return the origin of a bundle, with its place on a hub if it was downloaded from one."""
    place = hub_place(start)
    if place is None:
        return base.origin
    origin = base.origin
    if origin is None:
        with open_stored(start / WEIGHTS) as (file, _):
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        origin = ImportOrigin(kind=BUNDLE, name=place.name, sha256=sha256)
    return origin.model_copy(update={"hub": place})


def machine_of(recipe: Recipe, context: Context) -> Machine:
    """Return the device, the threads and the precision of a run."""
    world = context.world
    return choose_machine(recipe.train, world.device(recipe.train.device), world.local_size)


def set_up(recipe: Recipe, machine: Machine, corpus: Corpus, context: Context) -> Setup:
    """Build the model and the optimizer of a run, and try its longest batch."""
    recipe = on_machine(recipe, machine)
    train, world = recipe.train, context.world
    model = build_model(recipe, corpus, machine, world)
    check_storable(model, recipe.model.architecture)
    if train.sharded and world.size > 1:
        shard(model)
    optimizer = Optimizer(model, train)
    progress = try_longest_batch(recipe, corpus, machine, world, model, optimizer)
    if progress.microbatches > train.accumulate:
        context.say(
            "not enough memory for a whole batch of the longest rows: batches are computed in "
            f"{progress.microbatches} microbatches"
        )
    progress.accumulate, progress.threads = train.accumulate, machine.threads
    progress.processes = world.size
    return Setup(task_of(recipe), recipe, machine, corpus, model, optimizer, progress, context)


def continue_from(setup: Setup, progress: Progress) -> list[str]:
    """Continue from `progress`; return a clause for each change in how the run computes."""
    new, changes = setup.progress, []
    if (progress.threads, progress.processes) != (new.threads, new.processes):
        now, before = _threads_and_processes(new), _threads_and_processes(progress)
        changes.append(f"with {now}, where the run had {before}")
    if progress.accumulate != new.accumulate:
        changes.append(
            f"with batches in {counted(new.microbatches, 'microbatch')}, where the run had them in "
            f"{progress.microbatches:,}"
        )
        progress.microbatches, progress.in_parallel = new.microbatches, True
    progress.threads, progress.processes = new.threads, new.processes
    progress.accumulate = new.accumulate
    setup.progress = progress
    return changes


def _threads_and_processes(progress: Progress) -> str:
    several = f"{progress.processes} processes of " if progress.processes > 1 else ""
    return several + counted(progress.threads, "thread")


def on_machine(recipe: Recipe, machine: Machine) -> Recipe:
    """Return the recipe with the chosen precision, so that a repeated or resumed run keeps it.

    The number of threads is not stored: each machine and number of processes chooses it again.
    """
    train = recipe.train.model_copy(update={"precision": machine.precision})
    return recipe.model_copy(update={"train": train})
