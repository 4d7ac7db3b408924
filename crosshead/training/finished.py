"""Resuming a run that has already ended: its bundle is kept, or written again if damaged."""

from pathlib import Path

from crosshead.bundle.io import verify_bundle
from crosshead.errors import BundleError
from crosshead.training.budget import Around, budget_spent
from crosshead.training.settings import stored_recipe
from crosshead.training.setup import Setup


def has_ended(setup: Setup, out: Path, around: Around) -> str:
    """Return a clause that says why a resumed run has nothing to train, or an empty string.

    A run that has ended by its stored recipe keeps that recipe; a smaller budget changes nothing.

    Args:
        setup: The run; its recipe may become the one that `out` holds.
        out: The run directory.
        around: The time that the command needs besides updates.
    """
    stored = stored_recipe(out)
    by_itself = budget_spent(stored.train, setup.progress, around, 0.0)
    reason = budget_spent(setup.recipe.train, setup.progress, around, 0.0)
    if by_itself and reason:
        setup.recipe = stored.model_copy(update={"data": setup.recipe.data})
        return by_itself
    return reason


def has_whole_bundle(setup: Setup, out: Path) -> bool:
    """Return whether `out` holds an undamaged bundle of the run's last update."""
    if not setup.progress.bundled:
        return False
    try:
        return not any(wrong for _, wrong in verify_bundle(out))
    except BundleError:
        return False


def nothing_to_train(update: int, out: Path, reason: str, *, is_whole: bool) -> str:
    """Return the message for a run that has ended.

    Args:
        update: The last update of the run.
        out: The run directory.
        reason: Why the run has ended, in a clause.
        is_whole: True if the bundle is undamaged; False if it is written again.
    """
    bundle = "stays as it is"
    if not is_whole:
        bundle = "is missing, damaged or of an earlier update, and is written now"
    return (
        f"nothing to train: the run in {out} stands at update {update}, and {reason}; its bundle "
        f"{bundle}; to train on, give more (--max-updates, --max-epochs, --max-minutes, or --set "
        "train.patience=N)"
    )
