"""Preparation of a new run, and of a worker process beside the main process."""

import hashlib
import time
from pathlib import Path

from crosshead.bundle.base import Bundle
from crosshead.bundle.origin import BUNDLE, ImportOrigin
from crosshead.bundle.places import CHECKPOINTS, WEIGHTS, hub_place
from crosshead.bundle.weights import weights_of
from crosshead.errors import ConfigError, UserError
from crosshead.recipe.recipe import Recipe
from crosshead.recipe.stored import check_fine_tuned
from crosshead.system.progress import Silent
from crosshead.system.stored import open_stored
from crosshead.tasks.automatic import updates_per_epoch
from crosshead.tasks.base import Speed
from crosshead.tasks.corpus import Corpus, Stopped
from crosshead.tasks.registry import load_bundle, task_of
from crosshead.training.checkpoint import list_checkpoints, load_checkpoint
from crosshead.training.context import Context
from crosshead.training.directory import stored_recipe
from crosshead.training.hardware import Machine
from crosshead.training.schedule import STOPPED, End, seconds_for_updates, with_sizes
from crosshead.training.setup import Setup, build, machine_of
from crosshead.training.trial import measured_seconds, try_longest_batch


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
    context.check_data(corpus)
    stated = _stated(recipe)
    recipe = corpus.completed(recipe)
    recipe, planned = _settled(recipe, corpus, machine, context)
    setup = build(recipe, machine, corpus, context)
    try_longest_batch(setup)
    progress = setup.progress
    if base is not None and start is not None:
        setup.optimizer.set_weights(weights_of(base.model))
        progress.validated, progress.tuned = -1, True
        progress.origin = _origin(base, start)
        setup.corpus = corpus.with_origin(progress.origin)
    progress.stated, progress.data_fault = stated, corpus.data_fault
    progress.planned = planned
    progress.longest_input = max(
        corpus.longest_input, base.longest_input if base is not None else 0
    )
    progress.size, progress.data_sha256 = corpus.size, corpus.sha256()
    progress.names = recipe.data.files()
    return setup


def prepare_worker(out: Path, start: Path | None, resume: bool, context: Context) -> Setup | End:
    """Prepare a worker process for the run that the main process has written to `out`.

    The worker waits until the main process is ready. An earlier end is returned if the main
    process finds that the run has nothing to train.
    """
    world = context.world
    announced = world.broadcast()
    if "end" in announced:
        end = End.received(announced["end"])
        if end == STOPPED:
            raise Stopped
        return end
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
    setup = build(recipe, machine, corpus, context)
    try_longest_batch(setup)
    if resume:
        newest = list_checkpoints(out / CHECKPOINTS)[-1]
        setup.continue_from(load_checkpoint(newest, setup.optimizer))
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
        try:
            tried = build(recipe, machine, corpus, Context())
        except ConfigError:  # the model can never fit into memory
            return None
        seconds = measured_seconds(tried)
        if seconds is not None:
            seconds /= context.world.size
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
