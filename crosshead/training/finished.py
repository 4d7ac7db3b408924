"""Resuming a run that has already ended: its bundle is kept, or written again if damaged."""

from pathlib import Path

from crosshead.bundle.files import verify_bundle
from crosshead.caller import option, setting
from crosshead.errors import BundleError
from crosshead.recipe.recipe import Recipe
from crosshead.training.budget import End, Overhead, budget_spent
from crosshead.training.settings import stored_recipe
from crosshead.training.setup import Setup


def earlier_end(setup: Setup, out: Path, overhead: Overhead) -> tuple[End | None, Recipe]:
    """Return the end of a resumed run that has nothing to train, or None, and the run's recipe.

    A run that has ended by its stored recipe keeps that recipe; a smaller budget changes nothing.
    """
    stored, given = stored_recipe(out), setup.recipe
    by_itself = budget_spent(stored.train, setup.progress, overhead, 0.0)
    end = budget_spent(given.train, setup.progress, overhead, 0.0)
    if by_itself and end:
        return by_itself, stored.model_copy(update={"data": given.data})
    return end, given


def has_whole_bundle(setup: Setup, out: Path) -> bool:
    """Return whether `out` holds an undamaged bundle of the run's last update."""
    if not setup.progress.bundled:
        return False
    try:
        return not any(wrong for _, wrong in verify_bundle(out))
    except BundleError:
        return False


def nothing_to_train(setup: Setup, out: Path, reason: str, *, is_whole: bool) -> str:
    """Return the message for a run that has ended."""
    bundle = "stays as it is"
    if not is_whole:
        bundle = "is missing, damaged or of an earlier update, and is written now"
    budgets = ", ".join(
        setting(f"train.{key}", has_flag=True)
        for key in ("max_updates", "max_epochs", "max_minutes")
    )
    budgets += f", or {setting('train.patience', 'N')}"
    advice = f"to continue, raise a budget ({budgets})"
    if setup.recipe.train.cooldown:
        advice = (
            "its learning rate has fallen to 0, so to train for longer, begin it again with "
            f"{option('force')} and a larger budget ({budgets})"
        )
    return (
        f"nothing to train: the run in {out} ended at update {setup.progress.update} ({reason}); "
        f"its bundle {bundle}; {advice}"
    )
