"""Learning-rate schedules: functions of the update, which counts from 1, and of what is done."""

import math

from crosshead.recipe.train import TrainConfig


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
