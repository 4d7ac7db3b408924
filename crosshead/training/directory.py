"""The run directory: what stands in it, and what may be written and removed there.

    recipe.toml      the resolved recipe, which can be run again
    log.jsonl        what happened
    left-out.tsv     the pairs that are not trained on, and why
    held-out.tsv     the pairs that were taken out for validation, without files for it
    checkpoints/     all that it takes to go on
    tensorboard/     the log for TensorBoard, where that is installed
    training.png     the picture of the log, where matplotlib is installed

and the bundle: the tokenizer from the beginning, the rest at the end. While a run that replaces
another has no bundle yet, the earlier one is kept beside the directory (see `kept_beside`).

A kill may come between any two steps. A directory is known as a run's by `checkpoints/`, which is
made first, and removed or moved last; `recipe.toml`, without which nothing resumes, goes first. So
whatever a kill leaves is either empty or a run that --force replaces.
"""

import contextlib
import glob
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from crosshead.bundle.places import (
    CARD,
    CHECKPOINTS,
    CONFIG,
    RECIPE,
    WEIGHTS,
    kept_beside,
    where_bundle_is_kept,
)
from crosshead.bundle.unfinished import BEST
from crosshead.data.parallel.filters import HELD_OUT, LEFT_OUT
from crosshead.data.text.tokenizers import TOKENIZER_FILES
from crosshead.errors import UserError
from crosshead.system.files import make_directory, real_path
from crosshead.training.checkpoint import list_checkpoints
from crosshead.training.directory_lock import LockedDirectory
from crosshead.training.log import LOG

PICTURE = "training.png"

_FILES = {RECIPE, LOG, LEFT_OUT, HELD_OUT, PICTURE, CONFIG, WEIGHTS, CARD, *TOKENIZER_FILES}
_FOLDERS = {CHECKPOINTS, "tensorboard"}
_CHECKPOINT = re.compile(rf"\.?update-\d+(\.tmp)?|{re.escape(BEST)}")
_UNFINISHED = re.compile(r"\.(.+)\.\d+\.tmp")
_UNFINISHED_CHECKPOINT = re.compile(r"\.update-\d+\.tmp")


def check_directory(out: Path, *, resume: bool, force: bool, inputs: Sequence[Path]) -> None:
    """Refuse a directory that is in use, or is not what `resume` and `force` say it is.

    With `force` nothing may stand in it but a run: none of the `inputs`, which the new run reads,
    and nothing that no run writes.
    """
    if resume:
        if not _is_resumable(out):
            raise UserError(nothing_to_resume(out))
        return
    if is_unused(out):
        return
    if not holds_run(out):
        raise UserError(_no_run(out))
    if not force:
        ways = "--force replaces it"
        if _is_resumable(out):
            ways = f"--resume goes on with it, {ways}"
        raise UserError(f"{out}: holds a run already; {ways}")
    for path in inputs:
        for removed in (out, kept_beside(out)):
            if real_path(path) == real_path(removed):
                raise UserError(
                    f"{path}: --force would replace the run that --from starts from; give another "
                    "--out"
                )
            if real_path(path).is_relative_to(real_path(removed)):
                raise UserError(
                    f"{path}: --force would remove it with the run in {removed}; move it first"
                )
    others = _others(out)
    if others:
        raise UserError(
            f"{others[0]}: stands beside a run and is none of its files, so --force removes "
            "nothing; move it, or choose another directory"
        )


def holds_run(out: Path) -> bool:
    """Return whether a run stands in `out`, however short, which --force may replace."""
    # Earlier versions began with a recipe and a log.
    return (out / CHECKPOINTS).is_dir() or all((out / name).is_file() for name in (RECIPE, LOG))


def nothing_to_resume(out: Path) -> str:
    """Return the message for somebody who resumes `out`, where no run can be resumed."""
    if holds_run(out):
        lacks = "checkpoint" if (out / RECIPE).is_file() else RECIPE
        found = f"the run there was cut off and holds no {lacks}"
        advice = "begin again with --force"
    elif out.exists() and not is_unused(out):
        return _no_run(out) + where_bundle_is_kept(out)
    else:
        found, advice = f"it holds no {RECIPE}", "begin one without --resume"
    return (
        f"{out}: there is no run with a checkpoint to resume: {found}; {advice}"
        f"{where_bundle_is_kept(out)}"
    )


def _is_resumable(out: Path) -> bool:
    return (out / RECIPE).is_file() and bool(list_checkpoints(out / CHECKPOINTS))


def is_unused(out: Path) -> bool:
    """Return whether nothing stands in `out` but unfinished files that a kill has left."""
    return all(_is_unfinished(entry) for entry in out.iterdir())


def _no_run(out: Path) -> str:
    """Return the message for a directory that is not empty and not a run's."""
    if {entry.name for entry in out.iterdir() if not _is_unfinished(entry)} == {RECIPE}:
        return (
            f"{out}: is not empty and holds no run, only a {RECIPE}; choose another directory for "
            f"--out, or remove the {RECIPE} if you do not need it"
        )
    return f"{out}: is not empty and holds no run; choose another directory"


def check_utf8(what: str, name: str) -> None:
    """Raise `UserError` where `name` cannot be written into the model card."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise UserError(
            f"{what} {name!a}: not UTF-8, which the model card is written in; rename the file or "
            "directory"
        ) from None


def remove_unfinished(lock: LockedDirectory) -> None:
    """Remove what runs that were killed left unfinished in a directory that this run holds.

    The lock says that nobody else is writing these files, whatever process their names tell.
    Without a lock nothing is removed.
    """
    if not lock.is_locked:
        return
    out = lock.path
    checkpoints = out / CHECKPOINTS
    inside = list(checkpoints.iterdir()) if checkpoints.is_dir() else []
    for entry in [*out.iterdir(), *inside]:
        if _is_unfinished(entry):
            _remove(entry)
    batch = failed_batch(out)
    for entry in batch.parent.glob(f".{glob.escape(batch.name)}.*.tmp"):
        if _finished_name(entry) == batch.name:
            entry.unlink()


@contextlib.contextmanager
def run_directory(lock: LockedDirectory, *, resume: bool) -> Iterator[None]:
    """A block in which a run writes into a held directory, whose earlier run is set aside.

    A new run that ends without a checkpoint leaves nothing, and what was set aside comes back.
    """
    out = lock.path
    lock.check()  # reading the text may have taken long
    if not resume:
        _set_aside(out)
    make_directory(out / CHECKPOINTS)
    try:
        yield
    finally:
        # A directory that was moved, or has lost what it was resumed from, is no longer this run's.
        if not resume and lock.is_in_place() and not list_checkpoints(out / CHECKPOINTS):
            with contextlib.suppress(OSError):
                clear(out)
                _put_back(out)


def failed_batch(out: Path) -> Path:
    """Return the file for the batch that ended the run in `out`, which may leave nothing else."""
    real = real_path(out)
    return real.with_name(f"{real.name}.failed-batch.jsonl")


def drop_replaced(out: Path) -> None:
    """Remove the run that stood in `out` before, if it is still kept."""
    kept = kept_beside(out)
    if kept.is_dir():
        clear(kept)
        with contextlib.suppress(OSError):  # something else was put there
            kept.rmdir()


def _set_aside(out: Path) -> None:
    kept, entries = kept_beside(out), _in_order(out.iterdir())
    if not entries:
        return
    # Nothing stands in both places where a kill has cut off a move: then it goes on.
    if any((kept / entry.name).exists() for entry in entries):
        if _worth(out) < _worth(kept):
            clear(out)  # a run that was cut off: the one kept, which has come further, stays
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
            "or give another --out"
        ) from None


def _worth(place: Path) -> tuple[bool, bool]:
    """Return the progress of a run for comparison: whether it has a bundle, and a checkpoint."""
    return (place / CONFIG).is_file(), bool(list_checkpoints(place / CHECKPOINTS))


def _put_back(out: Path) -> None:
    kept = kept_beside(out)
    if kept.is_dir():
        for entry in reversed(_in_order(kept.iterdir())):
            entry.rename(out / entry.name)
        kept.rmdir()


def clear(out: Path) -> None:
    """Remove what runs write, and nothing else."""
    others = set(_others(out))
    for entry in _in_order(entry for entry in out.iterdir() if entry not in others):
        _remove(entry)


def _in_order(entries: Iterable[Path]) -> list[Path]:
    """Return what stands in a run directory in the order in which it may go.

    The recipe first: what is left cannot be resumed. The checkpoints' directory last: until then
    what is left is known as a run's.
    """
    return sorted(
        entries, key=lambda entry: (entry.name == CHECKPOINTS, entry.name != RECIPE, entry.name)
    )


def _remove(entry: Path) -> None:
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry)
    else:
        entry.unlink()


def _others(out: Path) -> list[Path]:
    """Return the files in the directory that no run writes."""
    found = [entry for entry in sorted(out.iterdir()) if not _is_of_a_run(entry)]
    if (out / CHECKPOINTS).is_dir():
        inside = sorted((out / CHECKPOINTS).iterdir())
        found += [entry for entry in inside if not _CHECKPOINT.fullmatch(_finished_name(entry))]
    return found


def _is_of_a_run(entry: Path) -> bool:
    return _finished_name(entry) in (_FOLDERS if entry.is_dir() else _FILES)


def _is_unfinished(entry: Path) -> bool:
    """Return whether a kill has left this in the middle of writing or removing a run's file."""
    if entry.is_dir():
        return bool(_UNFINISHED_CHECKPOINT.fullmatch(entry.name))
    name = _finished_name(entry)
    return name != entry.name and name in _FILES | {BEST}


def _finished_name(entry: Path) -> str:
    """The name, or the one that a file was to have whose writing was cut off."""
    unfinished = _UNFINISHED.fullmatch(entry.name)
    return unfinished[1] if unfinished else entry.name
