"""Default sizes: the warm-up and the validation interval, if a recipe leaves them open.

The chosen numbers are written into the recipe of the run, so that a resumed or repeated run uses
the same numbers.
"""

from crosshead.recipe.presets import PAPER_WARMUP
from crosshead.recipe.recipe import Recipe
from crosshead.recipe.train import TrainConfig
from crosshead.tasks.corpus import Epoch


def with_sizes(recipe: Recipe, epoch: Epoch, budget: float | None = None) -> Recipe:
    """Return the recipe with a warm-up and a validation interval that suit epochs like `epoch`."""
    train = recipe.train
    if train.warmup is None or not train.valid_every:
        updates = len(epoch.plan(train.batch_tokens, train.seed, epoch=0))
        chosen = {
            "warmup": train.warmup or warmup_updates(train, updates, budget),
            "valid_every": train.valid_every or min(max(updates, 200), 2000),
        }
        train = train.model_copy(update=chosen)
    return recipe.model_copy(update={"train": train})


def warmup_updates(config: TrainConfig, updates: int, budget: float | None = None) -> int:
    """Return the number of warm-up updates.

    It is the usual warm-up, and at most a tenth of each budget. The paper's schedule always has the
    paper's warm-up, because a shorter one would raise its peak.
    """
    if config.schedule == "paper":
        return PAPER_WARMUP
    epochs = config.max_epochs and config.max_epochs * updates
    tenths = [int(most / 10) for most in (config.max_updates, epochs, budget) if most is not None]
    return max(1, min([default_warmup(updates), *tenths]))


def seconds_for_updates(minutes: float, before: float) -> float:
    """Return the seconds that a run has for its updates.

    An eighth of the time is left for validation and scoring.
    """
    return max(0.0, 60 * minutes - before) * 7 / 8


def default_warmup(updates: int) -> int:
    """Return the warm-up for `updates` per epoch: ten epochs, at least 200, at most the paper's."""
    return min(max(10 * updates, 200), PAPER_WARMUP)
