"""The learning rate as a function of the update, which counts from 1."""

import math

from crosshead.recipe.train import TrainConfig


def learning_rate(config: TrainConfig, d_model: int, update: int) -> float:
    """The rate that the schedule of `config` gives for an update; its warm-up has been chosen."""
    assert config.warmup is not None  # `with_sizes` chooses it where it is left open
    if config.schedule == "paper":
        return paper_rate(update, d_model, config.warmup)
    assert config.learning_rate is not None  # checked by TrainConfig
    if config.schedule == "cosine":
        assert config.max_updates is not None
        return cosine_rate(update, config.learning_rate, config.warmup, config.max_updates)
    return inverse_sqrt_rate(update, config.learning_rate, config.warmup)


def paper_rate(update: int, d_model: int, warmup: int) -> float:
    """d_model^-0.5 min(update^-0.5, update warmup^-1.5): Vaswani et al. 2017, Eq. 3."""
    return float(d_model**-0.5 * min(update**-0.5, update * warmup**-1.5))


def inverse_sqrt_rate(update: int, peak: float, warmup: int) -> float:
    """Return the rate with a stated peak: linear to `peak` at `warmup`, then by 1/sqrt(update)."""
    return float(peak * min((warmup / update) ** 0.5, update / warmup))


def cosine_rate(update: int, peak: float, warmup: int, last: int) -> float:
    """Linear to `peak` at `warmup`, then half a cosine down to a tenth of it at `last`.

    Loshchilov and Hutter 2017, "SGDR", Eq. 5, without restarts.
    """
    if update <= warmup:
        return peak * update / warmup
    share = min(1.0, (update - warmup) / max(1, last - warmup))
    return peak * (0.55 + 0.45 * math.cos(math.pi * share))
