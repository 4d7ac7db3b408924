"""The warm-up and the cadence of validation, where a recipe leaves them open.

What is chosen is written into the recipe of the run as a number, so that resuming and repeating it
do the same.
"""

from crosshead.data.batching import Epoch
from crosshead.recipe.recipe import Recipe
from crosshead.recipe.train import TrainConfig


def with_sizes(recipe: Recipe, epoch: Epoch) -> Recipe:
    """The recipe with a warm-up and a cadence of validation for such epochs."""
    train = recipe.train
    if train.warmup is None or not train.valid_every:
        updates = len(epoch.plan(train.batch_tokens, train.seed, epoch=0))
        chosen = {
            "warmup": train.warmup or warmup_updates(train, updates),
            "valid_every": train.valid_every or min(max(updates, 200), 2000),
        }
        train = train.model_copy(update=chosen)
    return recipe.model_copy(update={"train": train})


def warmup_updates(config: TrainConfig, updates: int) -> int:
    """Ten epochs of so many updates, within bounds and within a tenth of the budget."""
    budgets = [config.max_updates, config.max_epochs and config.max_epochs * updates]
    tenths = [budget // 10 for budget in budgets if budget is not None]
    return max(1, min(max(10 * updates, 200), 4000, *tenths))
