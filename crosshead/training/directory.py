"""The run directory: its lock, its files, and the rules for writing and removing them.

    recipe.toml      the resolved recipe, which can be run again
    log.jsonl        the log of the run
    checkpoints/     the state from which the run can be resumed
    tensorboard/     the log for TensorBoard, if it is installed
    training.png     the training curve, if matplotlib is installed

The directory also holds the bundle and the files that a task writes about its data, such as
left-out.tsv. Files that resuming needs, such as the tokenizer, are written at the start of the run.
The rest of the bundle is written at its end.
If a run replaces an earlier run, the earlier run is kept beside the directory until the new run has
a bundle (see `earlier_run_path`).

The process may be killed between any two steps. The directory `checkpoints/` marks a run: it is
made first, and removed or moved last. `recipe.toml`, which every resumed run needs, is removed
first. A kill therefore leaves either an empty directory or a run that --force replaces.
"""

import contextlib
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from crosshead.bundle.io import BEST
from crosshead.bundle.places import (
    CARD,
    CHECKPOINTS,
    CONFIG,
    ENGINES,
    RECIPE,
    WEIGHTS,
    earlier_run_path,
    where_bundle_is_kept,
)
from crosshead.caller import option
from crosshead.errors import UserError
from crosshead.recipe.compose import Below
from crosshead.recipe.recipe import Recipe
from crosshead.recipe.stored import recipe_in
from crosshead.recipe.toml import read_toml
from crosshead.system.files import (
    StrPath,
    finished_name,
    is_held,
    is_same,
    is_unused,
    lock,
    made_directory,
    make_directory,
    real_path,
    remove,
    remove_leftovers,
)
from crosshead.system.lines import is_utf8
from crosshead.tasks.registry import kinds, run_files
from crosshead.training.checkpoint import list_checkpoints, newest_state
from crosshead.training.log import LOG

PICTURE = "training.png"

_FILES = {RECIPE, LOG, PICTURE, CONFIG, WEIGHTS, CARD}
"""The files of every run. Tasks have further ones: see `_files`."""
_FOLDERS = {CHECKPOINTS, "tensorboard", ENGINES}
_CHECKPOINT = re.compile(rf"update-\d+|{re.escape(BEST)}")


class LockedDirectory:
    """A directory that this process has opened and, if the file system allows, locked."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path, self._descriptor = path, descriptor
        if lock(descriptor) is False:
            raise UserError(
                f"{path}: another run is writing there; wait for its end, or give another "
                f"{option('out')}"
            )

    def is_in_place(self) -> bool:
        """Return whether the directory still has its name."""
        return is_same(self.path, self._descriptor)

    def check(self) -> None:
        """Raise `UserError` if the directory was renamed or removed."""
        if not self.is_in_place():
            raise UserError(
                f"{self.path}: was renamed or removed while the run was under way; if it was "
                "renamed, resume it from its last checkpoint"
            )


@contextlib.contextmanager
def locked_directory(out: Path) -> Iterator[LockedDirectory]:
    """Lock `out` for the block, so that no other run can write there.

    The directory is made if it does not exist, and then removed again if the block leaves it empty.
    The operating system holds the lock and releases it when the process ends, even after a kill.
    """
    if out.exists() and not out.is_dir():
        raise UserError(f"{out}: is a file; {option('out')} names a directory")
    with made_directory(out):
        descriptor = os.open(out, os.O_RDONLY)
        try:
            yield LockedDirectory(out, descriptor)
        finally:
            os.close(descriptor)


def is_locked(out: Path) -> bool:
    """Return whether a run is writing in a directory.

    False if that cannot be found out: without locks, or without permission to read the directory.
    """
    try:
        return is_held(out)
    except OSError:
        return False


def stored_recipe(out: StrPath) -> Recipe:
    """Return the recipe of the run in `out`; raise `UserError` if there is none.

    If the file of the recipe is lost, the recipe of the newest checkpoint replaces it.
    """
    out = Path(out)
    path = out / RECIPE
    if path.is_file():
        return recipe_in(read_toml(path), out, str(path))
    recipe = saved_recipe(out) if is_resumable(out) else None
    if recipe is None:
        raise UserError(nothing_to_resume(out))
    return recipe


def saved_recipe(out: Path) -> Recipe | None:
    """Return the recipe in the newest whole checkpoint of the run in `out`, if there is one."""
    newest = newest_state(out / CHECKPOINTS)
    return newest and recipe_in(tomllib.loads(newest[1].recipe), out, str(newest[0]))


def run_settings(out: StrPath) -> Below:
    """Return the settings of the run in `out`, with which a resumed run begins."""
    return Below(stored_recipe(out).model_dump(), f"the run in {out}")


def check_directory(out: Path, *, resume: bool, force: bool, inputs: Sequence[Path]) -> None:
    """Check that a run may use the directory `out`."""
    if resume:
        if not is_resumable(out):
            raise UserError(nothing_to_resume(out))
        return
    if is_unused(out):
        return
    if not holds_run(out):
        raise UserError(f"{out}: is not empty and holds no run; choose another directory")
    if not force:
        ways = f"{option('force')} replaces it"
        if is_resumable(out):
            ways = f"{option('resume')} continues it, {ways}"
        raise UserError(f"{out}: holds a run already; {ways}")
    for path in inputs:
        for removed in map(real_path, (out, earlier_run_path(out))):
            if real_path(path).is_relative_to(removed):
                raise UserError(
                    f"{path}: {option('force')} would remove it with the run in {removed}; move it "
                    f"first, or give another {option('out')}"
                )
    if others := _others(out):
        raise UserError(
            f"{others[0]}: is no file of the run, so {option('force')} removes nothing; move it"
        )


def holds_run(out: Path) -> bool:
    """Return whether `out` holds a run, however short, which --force may replace."""
    # Somebody may have removed the checkpoints of a finished run: only resuming needs them.
    return (out / CHECKPOINTS).is_dir() or all((out / name).is_file() for name in (RECIPE, LOG))


def nothing_to_resume(out: Path) -> str:
    """Return the error message for resuming `out`, which holds no run that can be resumed."""
    advice = f"begin one without {option('resume')}"
    if holds_run(out):
        advice = f"begin again with {option('force')}"
    elif out.exists() and not is_unused(out):
        advice = "choose another directory"
    return (
        f"{out}: there is no run with a checkpoint to resume; {advice}{where_bundle_is_kept(out)}"
    )


def is_resumable(out: Path) -> bool:
    """Return whether `out` holds a run with a checkpoint.

    The checkpoints hold the recipe, too. But if an earlier run is kept beside `out`, a lost recipe
    shows that this run was being moved.
    """
    whole = (out / RECIPE).is_file() or not earlier_run_path(out).is_dir()
    return whole and bool(list_checkpoints(out / CHECKPOINTS))


def check_utf8(what: str, name: str) -> None:
    """Raise `UserError` if `name` is not UTF-8, so that the model card cannot contain it."""
    if not is_utf8(name):
        raise UserError(f"{what} {name!a}: not UTF-8; rename the file or directory")


def remove_unfinished(out: Path) -> None:
    """Remove what killed runs have left unfinished in a run directory."""
    checkpoints = out / CHECKPOINTS
    for directory in (out, checkpoints, *list_checkpoints(checkpoints)):
        remove_leftovers(directory)


@contextlib.contextmanager
def run_directory(lock: LockedDirectory, *, resume: bool) -> Iterator[None]:
    """Prepare a locked directory for a run that writes there during the block.

    A new run first moves an earlier run aside. If the new run ends without a checkpoint, its files
    are removed and the earlier run is moved back.
    """
    out = lock.path
    lock.check()  # reading the data may have taken long
    if not resume:
        _set_aside(out)
    make_directory(out / CHECKPOINTS)
    try:
        yield
    finally:
        # A moved directory, or a resumed run that has lost its checkpoints, must not be cleared.
        if not resume and lock.is_in_place() and not list_checkpoints(out / CHECKPOINTS):
            with contextlib.suppress(OSError):
                clear(out)
                _put_back(out)


def drop_replaced(out: Path) -> None:
    """Remove the earlier run of `out`, if it is still kept beside it."""
    kept = earlier_run_path(out)
    if kept.is_dir():
        clear(kept)
        with contextlib.suppress(OSError):  # something else was put there
            kept.rmdir()


def _set_aside(out: Path) -> None:
    kept, entries = earlier_run_path(out), _in_order(out.iterdir())
    if not entries:
        return
    # After an interrupted move no name exists in both places, and the move continues.
    if any((kept / entry.name).exists() for entry in entries):
        if _worth(out) < _worth(kept):
            clear(out)  # the run in `out` was cut off; the kept run is further, and stays
            return
        drop_replaced(out)
    try:
        kept.mkdir(exist_ok=True)
        for entry in entries:
            entry.rename(kept / entry.name)
    except OSError as error:
        _put_back(out)
        raise UserError(
            f"{kept}: the earlier run cannot be kept there ({error.strerror}); move it yourself, "
            f"or give another {option('out')}"
        ) from None


def _worth(place: Path) -> tuple[bool, bool]:
    """Return a rank for comparing runs: first by having a bundle, then by having a checkpoint."""
    return (place / CONFIG).is_file(), bool(list_checkpoints(place / CHECKPOINTS))


def _put_back(out: Path) -> None:
    kept = earlier_run_path(out)
    if kept.is_dir():
        for entry in reversed(_in_order(kept.iterdir())):
            entry.rename(out / entry.name)
        kept.rmdir()


def clear(out: Path) -> None:
    """Remove the files that runs write, and no other files."""
    others = set(_others(out))
    for entry in _in_order(entry for entry in out.iterdir() if entry not in others):
        remove(entry)


def _in_order(entries: Iterable[Path]) -> list[Path]:
    """Return the entries of a run directory in the order in which they may be removed or moved.

    The recipe is first, because without it nobody can resume an incomplete run. The directory of
    the checkpoints is last, because it marks the remaining files as part of a run.
    """
    return sorted(
        entries, key=lambda entry: (entry.name == CHECKPOINTS, entry.name != RECIPE, entry.name)
    )


def _others(out: Path) -> list[Path]:
    """Return the files in the directory that no run writes."""
    files = _files()
    found = [
        entry
        for entry in sorted(out.iterdir())
        if finished_name(entry) not in (_FOLDERS if entry.is_dir() else files)
    ]
    if (out / CHECKPOINTS).is_dir():
        inside = sorted((out / CHECKPOINTS).iterdir())
        found += [entry for entry in inside if not _CHECKPOINT.fullmatch(finished_name(entry))]
    return found


def _files() -> set[str]:
    """Return the names of all files that runs of registered tasks write."""
    own = {name for kind in kinds().values() for name in kind.own_files}
    return _FILES | own | run_files()
