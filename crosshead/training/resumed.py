"""Preparation of a resumed run: checks of its files and data, and its best weights."""

import contextlib
import os
from pathlib import Path

from crosshead.bundle.places import CHECKPOINTS
from crosshead.bundle.unfinished import BEST
from crosshead.bundle.weights import check_weights
from crosshead.caller import option, setting
from crosshead.errors import BundleError, DataError, UserError
from crosshead.recipe.recipe import Recipe
from crosshead.recipe.train import TrainConfig
from crosshead.system.lines import file_sha256
from crosshead.tasks.corpus import Corpus
from crosshead.tasks.registry import task_of
from crosshead.training.budget import Overhead, budget_spent, fraction_done
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
from crosshead.training.progress import Progress
from crosshead.training.schedule import learning_rate
from crosshead.training.settings import absolute, check_resumed, saved_recipe, with_data_files
from crosshead.training.setup import (
    Setup,
    continue_from,
    machine_of,
    on_machine,
    set_origin,
    set_up,
)


def prepare_resumed(recipe: Recipe, out: Path, context: Context) -> Setup:
    """Prepare the run in `out` to continue from its newest checkpoint."""
    (began, edits), given = saved_recipe(out), recipe
    recipe = check_resumed(began, absolute(given), out)
    for line in edits:
        context.say(line)
    moved = _moved_files(began, recipe, out)
    began, recipe = (
        with_data_files(each, [moved.get(name, name) for name in each.data.files()])
        for each in (began, recipe)
    )
    _check_own_files(out)
    machine = machine_of(recipe, context)
    corpus = task_of(recipe).read(recipe, None, out, context.say, context.should_stop)
    context.check_size(corpus.size)
    setup = set_up(on_machine(recipe, machine), machine, corpus, context)
    progress, passed_over = load_newest(out / CHECKPOINTS, setup.optimizer)
    _check_data(progress, corpus, out)
    set_origin(setup, progress.origin)
    for line in [*passed_over, *_restore_best(setup, progress, out / CHECKPOINTS)]:
        context.say(line)
    context.say(f"resuming from update {progress.update} in {out}")
    progress.names = _names(progress.names, began, recipe, given)
    changes = _rate_changes(began.train, recipe, progress) + continue_from(setup, progress)
    if budget_spent(recipe.train, progress, Overhead(), 0.0) is None:  # else no update is made
        for change in changes:
            context.say(f"{change}: the weights will not be bit-identical to an uninterrupted run")
    return setup


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
    progress.since_best = progress.patience_spent = progress.validated = 0
    return [
        f"{best}: missing or damaged; the best weights so far, of update {update}, are lost; the "
        "search for the best checkpoint restarts"
    ]


def _moved_files(began: Recipe, recipe: Recipe, out: Path) -> dict[str, str]:
    """Return files that exist under the names typed earlier, but not under the names in `out`.

    This lets a user move a run directory without its data files. A name that is given now has to
    exist.
    """
    newest, files = newest_state(out / CHECKPOINTS), recipe.data.files()
    keys = [key for key in recipe.data.file_keys for _ in getattr(recipe.data, key)]
    typed = newest[1].names if newest and len(newest[1].names) == len(files) else files
    found = {}
    stored = began.data.files()
    for key, name, other, first in zip(keys, files, typed, stored, strict=True):
        if Path(name).exists():
            continue
        if name != first:
            raise DataError(f"{name}: no such file; check the path of data.{key}")
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
    advice = (
        f"put the earlier files back, or begin another run with a new {option('out')}; if the "
        "files are the same, resume with the version of crosshead that began the run"
    )
    if corpus.size != progress.size:
        raise UserError(
            f"the run in {out} began with {progress.size:,} {corpus.unit}s to train on, and the "
            f"files now give {corpus.size:,}; {advice}"
        )
    if corpus.sha256() != progress.data_sha256:
        raise UserError(
            f"the data that the run in {out} is trained or validated on has changed; {advice}"
        )
