"""Rescue of a run whose directory is renamed or removed during training."""

import itertools
from pathlib import Path

from crosshead.bundle.places import CHECKPOINTS, RECIPE
from crosshead.caller import how_to_resume
from crosshead.errors import UserError
from crosshead.recipe.stored import stored_form
from crosshead.system.files import atomic_write, make_directory
from crosshead.system.lines import file_sha256
from crosshead.training.checkpoint import save_checkpoint
from crosshead.training.directory import LockedDirectory
from crosshead.training.log import LOG, RunLog
from crosshead.training.setup import Setup


def write_beginning(out: Path, setup: Setup) -> None:
    """Write the files that a run needs to be resumed, besides its checkpoints.

    These are the recipe and the files that the data writes, such as tokenizers.
    """
    recipe, corpus, progress = setup.recipe, setup.corpus, setup.progress
    progress.recipe = stored_form(recipe, out)
    atomic_write(out / RECIPE, progress.recipe.encode())
    corpus.write_files(out, dict(zip(recipe.data.files(), progress.names, strict=True)))
    progress.own_files = [
        f"{file_sha256(out / name)}  {name}"
        for name in sorted(corpus.kind.own_files)
        if (out / name).is_file()
    ]


def save_displaced(setup: Setup, lock: LockedDirectory, log: RunLog) -> UserError:
    """Save a run whose directory was renamed or removed, and return the error that ends the run.

    A renamed directory gets a checkpoint in its new place. A removed directory is made again, or
    under a name beside it if the name is taken. A sharded run with several processes is not saved.
    """
    progress, train, moved = setup.progress, setup.recipe.train, lock.found()
    what = f"was {f'renamed to {moved}' if moved else 'removed'} while the run was under way"
    if train.sharded and setup.context.world.size > 1:
        return UserError(
            f"{lock.path}: {what}, and the run ends at update {progress.update}; resume from its "
            "last checkpoint, if it is there"
        )
    place = moved or _free_place(lock.path)
    make_directory(place / CHECKPOINTS)
    logged = log.contents()
    progress.log_bytes = len(logged)
    if not moved:
        atomic_write(place / LOG, logged)
    write_beginning(place, setup)
    every = train.checkpoint_every or train.valid_every
    is_due = not progress.skipped_in_a_row and bool(every) and progress.update % every == 0
    replaced, progress.interim = progress.interim, 0 if is_due else progress.update
    save_checkpoint(place / CHECKPOINTS, setup.optimizer, progress, train.keep_last, replaced)
    return UserError(
        f"{lock.path}: {what}; it is saved at update {progress.update} in {place}: resume with "
        f"{how_to_resume(place)}"
    )


def _free_place(out: Path) -> Path:
    """Return `out`, or the first free name beside it."""
    others = (out.with_name(f"{out.name}.rescued-{number}") for number in itertools.count(1))
    return next(place for place in itertools.chain([out], others) if not place.exists())
