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
"""

import contextlib
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from crosshead.bundle import (
    CARD,
    CHECKPOINTS,
    CONFIG,
    RECIPE,
    WEIGHTS,
    kept_beside,
    where_bundle_is_kept,
)
from crosshead.data.tokenizers import TOKENIZER_FILES
from crosshead.errors import UserError
from crosshead.files import make_directory
from crosshead.training.checkpoint import list_checkpoints
from crosshead.training.log import LOG
from crosshead.unfinished import BEST

LEFT_OUT, HELD_OUT = "left-out.tsv", "held-out.tsv"
PICTURE = "training.png"

_FILES = {RECIPE, LOG, LEFT_OUT, HELD_OUT, PICTURE, CONFIG, WEIGHTS, CARD, *TOKENIZER_FILES}
_FOLDERS = {CHECKPOINTS, "tensorboard"}
_CHECKPOINT = re.compile(rf"\.?update-\d+(\.tmp)?|{re.escape(BEST)}")
_UNFINISHED = re.compile(r"\.(.+)\.\d+\.tmp")


def check_directory(out: Path, *, resume: bool, force: bool, inputs: Sequence[Path]) -> None:
    """Refuse a directory that is in use, or is not what `resume` and `force` say it is.

    With `force` nothing may stand in it but a run: none of the `inputs`, which the new run reads,
    and nothing that no run writes.
    """
    if resume:
        if not (out / RECIPE).is_file() or not list_checkpoints(out / CHECKPOINTS):
            kept = where_bundle_is_kept(out)
            raise UserError(f"{out}: there is no run with a checkpoint to resume{kept}")
        return
    if not any(out.iterdir()):
        return
    begun = (out / LOG).is_file() or (out / CHECKPOINTS).is_dir()
    if not begun or not (out / RECIPE).is_file():
        raise UserError(f"{out}: is not empty and holds no run; choose another directory")
    if not force:
        ways = "--force replaces it"
        if list_checkpoints(out / CHECKPOINTS):
            ways = f"--resume goes on with it, {ways}"
        raise UserError(f"{out}: holds a run already; {ways}")
    for path in inputs:
        for removed in (out, kept_beside(out)):
            if path.resolve() == removed.resolve():
                raise UserError(
                    f"{path}: --force would replace the run that --from starts from; give another "
                    "--out"
                )
            if path.resolve().is_relative_to(removed.resolve()):
                raise UserError(
                    f"{path}: --force would remove it with the run in {removed}; move it first"
                )
    others = _others(out)
    if others:
        raise UserError(
            f"{others[0]}: stands beside a run and is none of its files, so --force removes "
            "nothing; move it, or choose another directory"
        )


def check_utf8(what: str, name: str) -> None:
    """Raise `UserError` where `name` cannot be written into the model card."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise UserError(
            f"{what} {name!a}: not UTF-8, which the model card is written in; rename the file or "
            "directory"
        ) from None


@contextlib.contextmanager
def held_directory(out: Path) -> Iterator[None]:
    """A block in which no other run may write into `out`, which is made and, if in vain, removed.

    Raises `UserError` where another run holds it or it cannot be a directory. What holds it is the
    system's lock on the directory: it ends with the process, however that ends.
    """
    if out.exists() and not out.is_dir():
        raise UserError(f"{out}: is a file; --out names a directory")
    made = [place for place in (out, *out.parents) if not place.exists()]
    descriptor = None
    try:
        make_directory(out)
        descriptor = os.open(out, os.O_RDONLY)
        _lock(descriptor, out)
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)
        with contextlib.suppress(OSError):  # where something was left in it
            for place in made:
                place.rmdir()


def _lock(descriptor: int, out: Path) -> None:
    try:
        import fcntl
    except ImportError:  # a system without such locks
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UserError(
            f"{out}: another run is writing there; wait for its end, or give another --out"
        ) from None
    except OSError:
        return  # a file system without locks


@contextlib.contextmanager
def run_directory(out: Path, *, resume: bool) -> Iterator[None]:
    """A block in which a run writes into `out`; an earlier one that it replaces is set aside.

    A run that ends without a checkpoint leaves nothing, and what was set aside comes back.
    """
    if not resume:
        _set_aside(out)
    try:
        yield
    finally:
        if not list_checkpoints(out / CHECKPOINTS):
            with contextlib.suppress(OSError):
                clear(out)
                _put_back(out)


def failed_batch(out: Path) -> Path:
    """Where the batch is kept that ended the run in `out`, which may leave nothing else."""
    real = out.resolve()
    return real.with_name(f"{real.name}.failed-batch.jsonl")


def drop_replaced(out: Path) -> None:
    """Remove the run that stood in `out` before, if it is still kept."""
    kept = kept_beside(out)
    if kept.is_dir():
        clear(kept)
        with contextlib.suppress(OSError):  # something else was put there
            kept.rmdir()


def _set_aside(out: Path) -> None:
    kept, entries = kept_beside(out), list(out.iterdir())
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
    """How far a run has come, to compare: whether it has a bundle, and whether a checkpoint."""
    return (place / CONFIG).is_file(), bool(list_checkpoints(place / CHECKPOINTS))


def _put_back(out: Path) -> None:
    kept = kept_beside(out)
    if kept.is_dir():
        for entry in kept.iterdir():
            entry.rename(out / entry.name)
        kept.rmdir()


def clear(out: Path) -> None:
    """Remove what runs write, and nothing else."""
    others = set(_others(out))
    for entry in [entry for entry in out.iterdir() if entry not in others]:
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def _others(out: Path) -> list[Path]:
    """What stands in the directory and is nothing that runs write."""
    found = [entry for entry in sorted(out.iterdir()) if not _is_of_a_run(entry)]
    if (out / CHECKPOINTS).is_dir():
        inside = sorted((out / CHECKPOINTS).iterdir())
        found += [entry for entry in inside if not _CHECKPOINT.fullmatch(_finished_name(entry))]
    return found


def _is_of_a_run(entry: Path) -> bool:
    return _finished_name(entry) in (_FOLDERS if entry.is_dir() else _FILES)


def _finished_name(entry: Path) -> str:
    """The name, or the one that a file was to have whose writing was cut off."""
    unfinished = _UNFINISHED.fullmatch(entry.name)
    return unfinished[1] if unfinished else entry.name
