"""A run that is resumed after its end: nothing to train, and a bundle to leave alone or mend."""

from pathlib import Path

from crosshead.bundle.io import verify_bundle
from crosshead.errors import BundleError
from crosshead.training.budget import Around, budget_spent
from crosshead.training.settings import stored_recipe
from crosshead.training.setup import Setup


def has_ended(setup: Setup, out: Path, around: Around) -> str:
    """Return in a clause why a resumed run has nothing to train, or nothing where it has.

    A run that its own recipe has ended keeps that recipe: a smaller budget changes nothing.

    Args:
        setup: The run; its recipe may become the one that `out` holds.
        out: The run directory.
        around: What the command takes time for beside updates.
    """
    stored = stored_recipe(out)
    by_itself = budget_spent(stored.train, setup.progress, around, 0.0)
    reason = budget_spent(setup.recipe.train, setup.progress, around, 0.0)
    if by_itself and reason:
        setup.recipe = stored.model_copy(update={"data": setup.recipe.data})
        return by_itself
    return reason


def has_whole_bundle(setup: Setup, out: Path) -> bool:
    """Return whether the bundle of the run's last update stands in `out`, undamaged."""
    if not setup.progress.bundled:
        return False
    try:
        return not any(wrong for _, wrong in verify_bundle(out))
    except BundleError:
        return False


def nothing_to_train(update: int, out: Path, reason: str, *, is_whole: bool) -> str:
    """Return the line for a run that has ended, whose bundle is whole or to be written again."""
    bundle = "stays as it is"
    if not is_whole:
        bundle = "is missing, damaged or of an earlier update, and is written now"
    return (
        f"nothing to train: the run in {out} stands at update {update}, and {reason}; its bundle "
        f"{bundle}; to train on, give more (--max-updates, --max-epochs, --max-minutes, or --set "
        "train.patience=N)"
    )
