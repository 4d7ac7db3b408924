"""Preparation of a resumed run: its files, its data, its best weights, and its earlier end."""

import contextlib
import os
from pathlib import Path

from crosshead.bundle.files import verify_bundle
from crosshead.bundle.io import BEST
from crosshead.bundle.places import CHECKPOINTS, RECIPE
from crosshead.bundle.weights import check_weights
from crosshead.caller import option, setting
from crosshead.errors import BundleError, ConfigError, DataError, UserError
from crosshead.recipe.recipe import Recipe
from crosshead.recipe.stored import absolute, changes, check_resumed, with_data_files
from crosshead.recipe.train import TrainConfig
from crosshead.system.lines import file_sha256
from crosshead.system.progress import counted
from crosshead.tasks.corpus import Corpus
from crosshead.tasks.registry import task_of
from crosshead.training.checkpoint import (
    DamagedCheckpoint,
    average_weights,
    list_checkpoints,
    load_best,
    load_newest,
    load_validated,
    load_weights,
    newest_state,
    save_best,
)
from crosshead.training.context import Context
from crosshead.training.directory import saved_recipe, stored_recipe
from crosshead.training.progress import Progress
from crosshead.training.schedule import End, Overhead, budget_spent, fraction_done, learning_rate
from crosshead.training.setup import Setup, build, machine_of, on_machine
from crosshead.training.trial import try_longest_batch


def prepare_resumed(recipe: Recipe, out: Path, context: Context) -> tuple[Setup, Recipe]:
    """Prepare the run in `out` to continue from its newest checkpoint.

    The recipe that it was saved with is returned too.
    """
    began = _began(out, context)
    given, recipe = recipe, check_resumed(began, absolute(recipe), out)
    newest = newest_state(out / CHECKPOINTS)
    if newest is not None:
        _check_own_files(newest[1], out)
    moved = _moved_files(began, recipe, newest[1].names if newest else [], out)
    began, recipe = (
        with_data_files(each, [moved.get(name, name) for name in each.data.files()])
        for each in (began, recipe)
    )
    machine = machine_of(recipe, context)
    corpus = task_of(recipe).read(recipe, None, out, context.say, context.should_stop)
    context.check_data(corpus)
    setup = build(recipe, machine, corpus, context)
    try_longest_batch(setup)
    progress, passed_over = load_newest(out / CHECKPOINTS, setup.optimizer)
    _check_data(progress, corpus, out)
    changes = _rate_change(began.train, recipe, progress) + setup.continue_from(progress)
    for line in [*passed_over, *_restore_best(setup, progress, out / CHECKPOINTS)]:
        context.say(line)
    context.say(f"resuming from update {progress.update} in {out}")
    files = (each.data.files() for each in (began, recipe, given))
    progress.names = [  # as typed at the start, or as given now if a file has moved
        new if before != after else name
        for name, before, after, new in zip(progress.names, *files, strict=True)
    ]
    if budget_spent(recipe.train, progress, Overhead(), 0.0) is None:  # else no update is made
        for change in changes:
            context.say(f"{change}: the weights will not be bit-identical to an uninterrupted run")
    return setup, on_machine(began, machine)


def _began(out: Path, context: Context) -> Recipe:
    """Return the recipe that a run was saved with, and show how its file was changed since."""
    stored, saved, path = stored_recipe(out), saved_recipe(out), out / RECIPE
    if saved is None:  # loading the checkpoints later reports the damage
        return stored
    if not path.is_file():
        context.say(f"{path}: is missing; it is written again from the newest checkpoint")
    try:
        for line in changes(saved, stored, out):
            context.say(f"{path}: {line}")
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    return saved


def _rate_change(began: TrainConfig, recipe: Recipe, progress: Progress) -> list[str]:
    """Return a clause, in a list, if the learning rate of the next update is another one."""
    width, update = recipe.model.d_model, progress.update + 1
    before, after = (
        learning_rate(each, width, update, fraction_done(each, progress, Overhead(), 0.0))
        for each in (began, recipe.train)
    )
    if before == after:
        return []
    return [
        f"with a learning rate of {after:.3g} at update {update:,}, where the run had {before:.3g}"
    ]


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
    progress.since_best = progress.patience_spent = progress.validated = 0
    return [
        f"{best}: missing or damaged; the best weights so far, of update {update}, are lost; the "
        "search for the best checkpoint restarts"
    ]


def _moved_files(began: Recipe, recipe: Recipe, typed: list[str], out: Path) -> dict[str, str]:
    """Return files that exist under the names typed earlier, but not under the names in `out`.

    This lets a user move a run directory without its data files. A name that is given now has to
    exist.
    """
    files, found = recipe.data.files(), {}
    keys = [key for key in recipe.data.file_keys for _ in getattr(recipe.data, key)]
    others = typed if len(typed) == len(files) else files
    for key, name, other, first in zip(keys, files, others, began.data.files(), strict=True):
        if Path(name).exists():
            continue
        if name != first:
            raise DataError(f"{name}: no such file; check the path of data.{key}")
        if not Path(other).exists():
            moved_to = setting(f"data.{key}", has_flag=True)
            raise DataError(
                f"{name}: no such file, and the run in {out} began with it; put it back, or say "
                f"where it is now with {moved_to}"
            )
        found[name] = os.path.abspath(other)
    return found


def _check_own_files(newest: Progress, out: Path) -> None:
    """Raise `BundleError` if a file such as a tokenizer has changed since the newest checkpoint."""
    for line in newest.own_files:
        sha256, _, name = line.partition("  ")
        path = out / name
        if not path.is_file() or file_sha256(path) != sha256:
            raise BundleError(
                f"{path}: missing or changed since the last checkpoint; copy it back, or begin "
                f"again with {option('force')}"
            )


def _check_data(progress: Progress, corpus: Corpus, out: Path) -> None:
    """Raise `UserError` if the data differs from the data that the run began with."""
    if corpus.size != progress.size or corpus.sha256() != progress.data_sha256:
        before = counted(progress.size, corpus.unit)
        raise UserError(
            f"the data has changed since the run in {out} began ({before} then, {corpus.size:,} "
            f"now); put the earlier files back, or begin another run with a new {option('out')}"
        )


def earlier_end(setup: Setup, began: Recipe, overhead: Overhead) -> tuple[End | None, Recipe]:
    """Return the end of a resumed run that has nothing to train, or None, and the run's recipe.

    A run that has ended by the recipe that it `began` with keeps it; a smaller budget changes
    nothing.
    """
    given = setup.recipe
    end = budget_spent(given.train, setup.progress, overhead, 0.0)
    by_itself = end and budget_spent(began.train, setup.progress, overhead, 0.0)
    if by_itself is None:
        return end, given
    return by_itself, began.model_copy(update={"data": given.data})


def has_whole_bundle(setup: Setup, out: Path) -> bool:
    """Return whether `out` holds an undamaged bundle of the run's last update."""
    try:
        return setup.progress.bundled and not any(wrong for _, wrong in verify_bundle(out))
    except BundleError:
        return False


def nothing_to_train(setup: Setup, out: Path, reason: str, *, is_whole: bool) -> str:
    """Return the message for a run that has ended."""
    bundle = "stays as it is" if is_whole else "is missing, damaged or older, and is written now"
    larger = f"a larger budget ({setting('train.max_updates', has_flag=True)})"
    advice = f"to continue, give {larger}"
    if setup.recipe.train.cooldown:
        advice = (
            f"its learning rate has fallen to 0: begin it again with {option('force')} and {larger}"
        )
    return (
        f"nothing to train: the run in {out} ended at update {setup.progress.update} ({reason}), "
        f"and its bundle {bundle}; {advice}"
    )
