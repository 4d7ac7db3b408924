"""Preparation of a run: new, resumed, or as a worker beside the main process."""

import contextlib
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from crosshead.bundle.places import CHECKPOINTS
from crosshead.bundle.unfinished import BEST
from crosshead.bundle.weights import check_storable, check_weights, weights_of
from crosshead.caller import option, setting
from crosshead.errors import BundleError, DataError, UserError
from crosshead.models.base import Model
from crosshead.recipe.recipe import Recipe
from crosshead.recipe.train import TrainConfig
from crosshead.system.lines import file_sha256
from crosshead.system.progress import Silent, counted
from crosshead.tasks.base import Speed, Task
from crosshead.tasks.corpus import Corpus, Stopped
from crosshead.tasks.registry import load_bundle, task_of
from crosshead.training.activations import Measurement
from crosshead.training.budget import STOPPED, End, EndKind, Overhead, fraction_done
from crosshead.training.checkpoint import (
    DamagedCheckpoint,
    average_weights,
    list_checkpoints,
    load_best,
    load_checkpoint,
    load_newest,
    load_validated,
    load_weights,
    newest_state,
    save_best,
)
from crosshead.training.context import Context
from crosshead.training.distributed import World, shard
from crosshead.training.hardware import Machine, choose_machine
from crosshead.training.memory import (
    free_memory,
    measured_memory,
    recompute_activations,
    refuse_large_model,
)
from crosshead.training.optimizer import Optimizer
from crosshead.training.progress import Progress
from crosshead.training.schedule import learning_rate
from crosshead.training.settings import (
    absolute,
    check_fine_tuned,
    check_resumed,
    saved_recipe,
    stored_recipe,
    with_data_files,
)
from crosshead.training.sizes import seconds_for_updates, with_sizes
from crosshead.training.speed import measured_seconds


class NothingToTrain(Exception):
    """Raised in a worker if the main process finds that the run has nothing to train.

    Args:
        end: The earlier end of the run.
    """

    def __init__(self, end: End) -> None:
        super().__init__(end.text)
        self.end = end


def announce_data(world: World, sha256: str) -> None:
    """Tell the workers that the run begins, with the checksum of the data of the main process."""
    world.broadcast(json.dumps({"sha256": sha256}))


def announce_end(world: World, end: End) -> None:
    """Tell the workers that the run ends before it trains."""
    world.broadcast(json.dumps({"end": [end.kind, end.text]}))


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
    memory: int
    """The bytes that the run takes, estimated: see `memory_estimate`."""


def prepare_new(recipe: Recipe, start: Path | None, context: Context) -> Setup:
    """Prepare a new run, with a new model or with the model of a bundle.

    Args:
        recipe: The recipe of the run.
        start: Directory of the bundle to fine-tune, or None.
        context: The context of the run.

    Raises:
        Stopped: Soon after `context.should_stop` returns True.
        UserError: For the reasons that `train` lists.
    """
    base = load_bundle(start) if start else None
    if base is not None and start is not None:
        check_fine_tuned(task_of(base.config).sections(base), recipe, start)
    machine = _machine(recipe, context)
    task = task_of(recipe)
    recipe, lines = task.prepare(recipe)
    for line in lines:
        context.say(line)
    corpus = task.read(recipe, base, None, context.say, context.should_stop)
    context.check_size(corpus.size)
    stated = _stated(recipe)
    recipe = _settled(corpus.completed(_on_machine(recipe, machine)), corpus, machine, context)
    setup = _set_up(recipe, machine, corpus, context)
    if base is not None:
        setup.optimizer.set_weights(weights_of(base.model))
        setup.progress.validated, setup.progress.tuned = -1, True
    progress = setup.progress
    progress.stated = stated
    progress.longest_input = max(
        corpus.longest_input, base.longest_input if base is not None else 0
    )
    progress.size, progress.data_sha256 = corpus.size, corpus.sha256()
    progress.names = recipe.data.files()
    return setup


def prepare_resumed(recipe: Recipe, out: Path, context: Context) -> Setup:
    """Prepare the run in `out` to continue from its newest checkpoint.

    Args:
        recipe: The recipe to resume with.
        out: The run directory.
        context: The context of the run.

    Raises:
        Stopped: Soon after `context.should_stop` returns True.
        UserError: For the reasons that `train` lists.
    """
    (began, edits), given = saved_recipe(out), recipe
    recipe = check_resumed(began, absolute(given), out)
    for line in edits:
        context.say(line)
    moved = _moved_files(recipe, out)
    began, recipe = (
        with_data_files(each, [moved.get(name, name) for name in each.data.files()])
        for each in (began, recipe)
    )
    _check_own_files(out)
    machine = _machine(recipe, context)
    corpus = task_of(recipe).read(recipe, None, out, context.say, context.should_stop)
    context.check_size(corpus.size)
    setup = _set_up(_on_machine(recipe, machine), machine, corpus, context)
    progress, passed_over = load_newest(out / CHECKPOINTS, setup.optimizer)
    _check_data(progress, corpus, out)
    for line in [*passed_over, *_restore_best(setup, progress, out / CHECKPOINTS)]:
        context.say(line)
    context.say(f"resuming from update {progress.update} in {out}")
    progress.names = _names(progress.names, began, recipe, given)
    changed_rate = _rate_changes(began.train, recipe, progress)
    for change in [*changed_rate, *_continue_from(setup, progress)]:
        context.say(f"{change}: the weights will not be bit-identical to an uninterrupted run")
    return setup


def prepare_worker(out: Path, start: Path | None, resume: bool, context: Context) -> Setup:
    """Prepare a worker process for the run that the main process has written to `out`.

    The worker waits until the main process is ready.

    Args:
        out: The run directory.
        start: Directory of the bundle to fine-tune, or None.
        resume: True if the run is resumed.
        context: The context of the run.

    Raises:
        Stopped: If this process or the main process was asked to stop.
        NothingToTrain: If there is nothing to train.
        UserError: If this process reads other data than the main process.
    """
    world = context.world
    announced = json.loads(world.broadcast(""))
    if "end" in announced:
        kind, text = announced["end"]
        end = End(EndKind(kind), text)
        raise Stopped if end == STOPPED else NothingToTrain(end)
    recipe = stored_recipe(out)
    machine = _machine(recipe, context)
    # One process of each machine prints the progress of reading the data.
    say = (context.display if world.local_rank == 0 else Silent()).say
    corpus = task_of(recipe).read(recipe, None, out, say, context.should_stop)
    if corpus.sha256() != announced["sha256"]:
        names = ", ".join([*recipe.data.files(), str(out)])
        raise UserError(
            f"process {world.rank} of the run reads other data than process 0; these files must be "
            f"the same on all machines: {names}"
        )
    setup = _set_up(recipe, machine, corpus, context)
    if resume:
        newest = list_checkpoints(out / CHECKPOINTS)[-1]
        _continue_from(setup, load_checkpoint(newest, setup.optimizer))
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


def _settled(recipe: Recipe, corpus: Corpus, machine: Machine, context: Context) -> Recipe:
    """Fill in the settings that depend on the data, the budget and the speed of this machine."""
    minutes, world = recipe.train.max_minutes, context.world
    free = free_memory(machine.device, world.local_size)

    def seconds_per_update(recipe: Recipe) -> float | None:
        refuse_large_model(recipe, corpus, machine, world, free)
        seconds = measured_seconds(recipe, corpus, machine)
        return seconds and seconds / world.size

    seconds, budget = None, None
    if minutes is not None:
        seconds = seconds_for_updates(minutes, time.perf_counter() - context.began)
    if recipe.open:
        speed = Speed(seconds_per_update, seconds)
        recipe, lines = task_of(recipe).settle(recipe, corpus, speed)
        for line in lines:
            context.say(line)
    if seconds is not None and recipe.train.warmup is None:
        each = seconds_per_update(recipe)
        budget = each and seconds / each
    return with_sizes(recipe.opened(()), corpus.epochs(recipe)(0), budget)


def _machine(recipe: Recipe, context: Context) -> Machine:
    world = context.world
    return choose_machine(recipe.train, world.device(recipe.train.device), world.local_size)


def _set_up(recipe: Recipe, machine: Machine, corpus: Corpus, context: Context) -> Setup:
    train, task, world = recipe.train, task_of(recipe), context.world
    free = free_memory(machine.device, world.local_size)
    refuse_large_model(recipe, corpus, machine, world, free)
    torch.manual_seed(train.seed)
    config = corpus.bundle_config(recipe, corpus.longest_input)
    model = corpus.kind.build(config).to(machine.device, machine.dtype)
    check_storable(model, recipe.model.architecture)
    measurement = Measurement(task, model, corpus.epochs(recipe)(0), train)
    memory = measured_memory(measurement, corpus, machine, world, free)
    if train.recompute:
        recompute_activations(model)
    if train.sharded and world.size > 1:
        shard(model)
    progress = Progress(
        microbatches=train.accumulate,
        accumulate=train.accumulate,
        threads=machine.threads,
        processes=world.size,
    )
    optimizer = Optimizer(model, train)
    return Setup(task, recipe, machine, corpus, model, optimizer, progress, context, memory)


def _continue_from(setup: Setup, progress: Progress) -> list[str]:
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


def _names(typed: list[str], began: Recipe, now: Recipe, given: Recipe) -> list[str]:
    """Return the names of the data files as `typed` at the start, or as given now if they moved."""
    files = (recipe.data.files() for recipe in (began, now, given))
    return [
        new if before != after else name
        for name, before, after, new in zip(typed, *files, strict=True)
    ]


def _rate_changes(began: TrainConfig, recipe: Recipe, progress: Progress) -> list[str]:
    """Return a clause for each change of the learning rate of the next update."""
    now, changes, update = recipe.train, [], progress.update + 1
    if began.learning_rate != now.learning_rate:
        changes.append(
            f"with a learning rate of {now.learning_rate:g}, where the run had "
            f"{began.learning_rate:g}"
        )
    before, after = (
        learning_rate(
            each, recipe.model.d_model, update, fraction_done(each, progress, Overhead(), 0.0)
        )
        for each in (began.model_copy(update={"learning_rate": now.learning_rate}), now)
    )
    if before != after:
        changes.append(
            f"with another end of the schedule (learning rate at update {update:,}: {after:.3g} "
            f"instead of {before:.3g})"
        )
    return changes


def _restore_best(setup: Setup, progress: Progress, directory: Path) -> list[str]:
    """Check the file of the best weights, which the end of the run needs; repair it if possible.

    If the file is missing or damaged, the function writes it again from the checkpoints that it
    came from. If they are gone, the search for the best weights starts anew. Returns lines that
    say so, or none if the file is whole.
    """
    if progress.best_score is None:
        return []
    best, update = directory / BEST, progress.best_update
    with contextlib.suppress(BundleError):
        check_weights(setup.model, load_best(directory), best)
        return []
    updates = progress.best_average or [update]
    wanted = [f"update-{each:08d}" for each in updates]
    places = [place for place in list_checkpoints(directory) if place.name in wanted]
    if len(places) == len(wanted):
        with contextlib.suppress(DamagedCheckpoint):
            if progress.best_average:
                weights = average_weights([load_weights(place) for place in places])
            else:
                weights = load_validated(places[0])
            config = setup.corpus.bundle_config(setup.recipe, progress.longest_input)
            save_best(directory, weights, config.model_dump_json(), update)
            return [f"{best}: missing or damaged; written again from {', '.join(map(str, places))}"]
    # Validate the weights of this update again: they may be the best now.
    progress.best_score, progress.best_update = None, 0
    progress.best_alone, progress.best_average = None, []
    progress.since_best = progress.validated = 0
    return [
        f"{best}: missing or damaged; the best weights so far, of update {update}, are lost; the "
        "search for the best checkpoint restarts"
    ]


def _threads_and_processes(progress: Progress) -> str:
    several = f"{progress.processes} processes of " if progress.processes > 1 else ""
    return several + counted(progress.threads, "thread")


def _moved_files(recipe: Recipe, out: Path) -> dict[str, str]:
    """Return files that exist under the names typed earlier, but not under the names in `out`.

    This lets a user move a run directory without its data files.

    Returns:
        The absolute path of each such file, by its name in the recipe.

    Raises:
        DataError: If a file exists in neither place.
    """
    newest, files = newest_state(out / CHECKPOINTS), recipe.data.files()
    keys = [key for key in recipe.data.file_keys for _ in getattr(recipe.data, key)]
    typed = newest[1].names if newest and len(newest[1].names) == len(files) else files
    found = {}
    for key, name, other in zip(keys, files, typed, strict=True):
        if Path(name).exists():
            continue
        if not Path(other).exists():
            moved_to = setting(f"data.{key}", has_flag=True)
            raise DataError(
                f"{name}: no such file, and the run in {out} began with it; put it back, or say "
                f"where it is now with {moved_to} (each file of data.{key}, in the same order)"
            )
        found[name] = os.path.abspath(other)
    return found


def _check_own_files(out: Path) -> None:
    """Raise `BundleError` if a file such as a tokenizer has changed since the newest checkpoint."""
    newest = newest_state(out / CHECKPOINTS)
    for line in newest[1].own_files if newest else ():
        sha256, _, name = line.partition("  ")
        path = out / name
        if not path.is_file() or file_sha256(path) != sha256:
            found = "its checksum differs" if path.exists() else "missing"
            raise BundleError(
                f"{path}: {found}; the run cannot be resumed without it: copy it back, or begin "
                f"again with {option('force')}"
            )


def _check_data(progress: Progress, corpus: Corpus, out: Path) -> None:
    """Raise `UserError` if the data differs from the data that the run began with."""
    new = option("out")
    advice = f"put the earlier files back, or begin another run with a new {new}"
    if corpus.size != progress.size:
        raise UserError(
            f"the run in {out} began with {progress.size:,} {corpus.unit}s to train on, and the "
            f"files now give {corpus.size:,}; {advice}"
        )
    if corpus.sha256() != progress.data_sha256:
        raise UserError(
            f"the data that the run in {out} is trained or validated on has changed; {advice}"
        )


def _on_machine(recipe: Recipe, machine: Machine) -> Recipe:
    """Return the recipe with the chosen precision, so that a repeated or resumed run keeps it.

    The number of threads is not stored: each machine and number of processes chooses it again.
    """
    train = recipe.train.model_copy(update={"precision": machine.precision})
    return recipe.model_copy(update={"train": train})
