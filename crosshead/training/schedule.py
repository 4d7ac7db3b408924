"""Learning-rate schedules: functions of the update, which counts from 1, and of what is done.

If a recipe leaves the warm-up or the validation interval open, they follow from the length of an
epoch. The chosen numbers are written into the recipe of the run, so that a resumed or repeated run
uses the same numbers.
"""

import math

from crosshead.recipe.presets import PAPER_WARMUP
from crosshead.recipe.recipe import Recipe
from crosshead.recipe.train import TrainConfig
from crosshead.tasks.corpus import Epoch


def learning_rate(config: TrainConfig, d_model: int, update: int, done: float) -> float:
    """Return the learning rate of an update."""
    return scheduled_rate(config, d_model, update, done) * cooldown_factor(done, config.cooldown)


def scheduled_rate(config: TrainConfig, d_model: int, update: int, done: float) -> float:
    """Return the learning rate of an update without the cooldown."""
    assert config.warmup is not None  # `with_sizes` chooses it if the recipe leaves it open
    if config.schedule == "paper":
        return paper_rate(update, d_model, config.warmup)
    assert config.learning_rate is not None  # checked by TrainConfig
    rise = warmup_factor(update, done, config.warmup, config.warmup_share)
    fall = 1.0
    if config.schedule == "inverse-sqrt":
        fall = inverse_sqrt_factor(update, config.warmup)
    elif config.schedule == "cosine":
        fall = cosine_factor(done)
    return config.learning_rate * rise * fall


def warmup_factor(update: int, done: float, warmup: int, share: float) -> float:
    """Return the factor of the learning rate that rises linearly to 1 in the warm-up.

    It counts updates, or the part of the run if that is further on.
    """
    return min(1.0, max(update / warmup, done / share if share else 0.0))


def is_past_warmup(config: TrainConfig, update: int, done: float) -> bool:
    """Return whether the warm-up ended before an update."""
    return update > (config.warmup or 0) or 0 < config.warmup_share < done


def cooldown_factor(done: float, cooldown: float) -> float:
    """Return the factor of the learning rate that falls linearly to 0 at the end of a run.

    Reference:
        Zhai et al. 2022, "Scaling Vision Transformers", section 3.5; Hagele et al. 2024, "Scaling
        Laws and Compute-Optimal Training Beyond Fixed Training Durations", section 3.
    """
    return min(1.0, (1.0 - done) / cooldown) if cooldown else 1.0


def paper_rate(update: int, d_model: int, warmup: int) -> float:
    """Return d_model^-0.5 min(update^-0.5, update warmup^-1.5).

    Args:
        update: Number of the update, from 1.
        d_model: Width of the model.
        warmup: Number of updates in which the rate rises.

    Reference:
        Vaswani et al. 2017, Eq. 3.
    """
    return float(d_model**-0.5 * min(update**-0.5, update * warmup**-1.5))


def inverse_sqrt_factor(update: int, warmup: int) -> float:
    """Return the factor of the learning rate that falls as 1/sqrt(update) from `warmup` on."""
    return float(min(1.0, (warmup / update) ** 0.5))


def cosine_factor(done: float) -> float:
    """Return the factor of the learning rate that falls along half a cosine, from 1 to a tenth.

    Reference:
        Loshchilov and Hutter 2017, "SGDR", Eq. 5, without restarts.
    """
    return 0.55 + 0.45 * math.cos(math.pi * done)


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
