"""The length of a run by its budgets, and the learning rate, a function of the part that is done.

Updates count from 1.

If a recipe leaves the warm-up or the validation interval open, they follow from the length of an
epoch. The chosen numbers are written into the recipe of the run, so that a resumed or repeated run
uses the same numbers.
"""

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Self

from crosshead.recipe.presets import PAPER_WARMUP
from crosshead.recipe.recipe import Recipe
from crosshead.recipe.train import TrainConfig
from crosshead.system.progress import counted
from crosshead.tasks.corpus import Epoch
from crosshead.training.progress import Progress


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
        fall = min(1.0, (config.warmup / update) ** 0.5)
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

    It is ten epochs, at least 200 updates and at most the paper's warm-up, and at most a tenth of
    each budget. The paper's schedule always has the paper's warm-up, because a shorter one would
    raise its peak.
    """
    if config.schedule == "paper":
        return PAPER_WARMUP
    epochs = config.max_epochs and config.max_epochs * updates
    tenths = [int(most / 10) for most in (config.max_updates, epochs, budget) if most is not None]
    return max(1, min([max(10 * updates, 200), PAPER_WARMUP, *tenths]))


def seconds_for_updates(minutes: float, before: float) -> float:
    """Return the seconds that a run has for its updates.

    An eighth of the time is left for validation and scoring.
    """
    return max(0.0, 60 * minutes - before) * 7 / 8


class EndKind(StrEnum):
    """The kinds of ends of a run: a setting of `[train]`, or a request to stop."""

    MAX_UPDATES = "max_updates"
    MAX_EPOCHS = "max_epochs"
    MAX_MINUTES = "max_minutes"
    PATIENCE = "patience"
    STOPPED = "stopped"


@dataclass(frozen=True)
class End:
    """The end of a run."""

    kind: EndKind
    text: str
    """The reason in a clause, for people."""

    def without_update(self) -> Self:
        """Return the end of a resumed run that has made no update."""
        return replace(self, text=f"{self.text}: no update was made")

    def sent(self) -> list[str]:
        """Return the end as a message to other processes."""
        return [self.kind, self.text]

    @classmethod
    def received(cls, message: list[str]) -> Self:
        """Return the end that `sent` gave in another process."""
        return cls(EndKind(message[0]), message[1])


_FALL = 0.25
"""Once patience is spent, the learning rate falls to 0 during this share of the updates so far."""

STOPPED = End(EndKind.STOPPED, "it was asked to stop")


@dataclass(frozen=True)
class Overhead:
    """The time that a command needs besides its updates; `max_minutes` includes it."""

    before: float = 0.0
    """Seconds from the start of the command to the first update, for example for reading data."""

    validations_after: float = 0.0
    """Estimated duration of the end of the run (last validation and scoring), as a multiple of the
    duration of one validation."""


def seconds_after(minutes: float, progress: Progress, overhead: Overhead) -> float:
    """Return the expected seconds for the end of the run, from its last validation.

    They are at most half of the budget. The first validations of a run take the longest, because a
    model that has learned little writes long translations.
    """
    return min(progress.validation_seconds * overhead.validations_after, 30 * minutes)


def budget_spent(
    config: TrainConfig, progress: Progress, overhead: Overhead, since: float
) -> End | None:
    """Return the end that names the limit that the run has reached, or None.

    `max_minutes` never ends a run before its first update.
    """
    if config.max_updates is not None and progress.update >= config.max_updates:
        return End(EndKind.MAX_UPDATES, f"max_updates {config.max_updates} is reached")
    if config.max_epochs is not None and progress.epoch >= config.max_epochs:
        return End(EndKind.MAX_EPOCHS, f"max_epochs {config.max_epochs} is reached")
    if config.max_minutes is not None and progress.update:
        left = 60 * config.max_minutes - overhead.before - progress.seconds - since
        after = seconds_after(config.max_minutes, progress, overhead)
        reached = f"max_minutes {config.max_minutes:g} is reached"
        if left <= 0 or config.max_minutes <= progress.minutes_spent:
            return End(EndKind.MAX_MINUTES, reached)
        if left <= after:
            need = f"validation and scoring at the end need about {after:.0f} seconds"
            return End(EndKind.MAX_MINUTES, f"{reached}: {need}")
    if has_stalled(config, progress) and not config.cooldown:
        found = f"{counted(config.patience, 'validation')} brought nothing better"
        return End(EndKind.PATIENCE, found)
    if (_part_of_fall(config, progress) or 0) >= 1:
        found = f"{counted(progress.patience_spent, 'validation')} brought nothing better"
        return End(EndKind.PATIENCE, f"{found}, and the learning rate has fallen to 0 since")
    return None


def has_stalled(config: TrainConfig, progress: Progress) -> bool:
    """Return whether `patience` validations since the end of the warm-up brought nothing better."""
    return bool(config.patience) and progress.since_best >= config.patience


def budget_line(config: TrainConfig) -> str:
    """Return a message about the budgets. The percentage of the progress is the part done."""
    limits = []
    if config.max_updates is not None:
        limits.append(counted(config.max_updates, "update"))
    if config.max_epochs is not None:
        limits.append(counted(config.max_epochs, "epoch"))
    if config.max_minutes is not None:
        limits.append(f"{config.max_minutes:g} minute{'s' * (config.max_minutes != 1)}")
    if config.patience:
        limits.append(f"{counted(config.patience, 'validation')} without improvement")
    is_late = config.patience and config.cooldown
    falls = ", after the learning rate has fallen to 0" if is_late else ""
    return f"training ends after {' or '.join(limits)}{falls}"


def needs_timed_validation(
    config: TrainConfig, progress: Progress, overhead: Overhead, since: float
) -> bool:
    """Return True if half of the minutes are gone and the run has not yet timed a validation.

    A validation now measures that time. Without it, the end of the run could exceed `max_minutes`
    by any amount. The validation of a fine-tuned run before its first update does not count: the
    weights at half of the minutes may be the best.
    """
    if config.max_minutes is None or not overhead.validations_after:
        return False
    if progress.validation_seconds and progress.validated > 0:
        return False
    return overhead.before + progress.seconds + since >= 30 * config.max_minutes


def fraction_done(
    config: TrainConfig, progress: Progress, overhead: Overhead, since: float
) -> float:
    """Return the completed fraction of a run, by the budget that will end it first.

    It is 0 before the first update, which is made even if the minutes are over.
    """
    if not progress.update:
        return 0.0
    shares = [0.0]
    if config.max_updates is not None:
        shares.append(progress.update / config.max_updates)
    if config.max_epochs is not None:
        shares.append(progress.epochs / config.max_epochs)
    if config.max_minutes is not None:
        shares.append(_fraction_of_minutes(config.max_minutes, progress, overhead, since))
    done, part = max(shares), _part_of_fall(config, progress)
    if part is not None:
        # The run begins its cooldown, however long its other budgets are. If the cooldown has begun
        # already, the fall goes on from where it was when patience was spent.
        before = max(1 - config.cooldown, done * progress.stalled / progress.update)
        done = max(done, before + (1 - before) * part)
    return min(1.0, done)


def _part_of_fall(config: TrainConfig, progress: Progress) -> float | None:
    """Return the completed part of the fall that begins once patience is spent; None before that.

    A larger `patience` in a resumed run waits for validations again.
    """
    if not config.cooldown or not 0 < config.patience <= progress.patience_spent:
        return None
    return (progress.update / progress.stalled - 1) / _FALL


def _fraction_of_minutes(
    minutes: float, progress: Progress, overhead: Overhead, since: float
) -> float:
    training = 60 * minutes - overhead.before - seconds_after(minutes, progress, overhead)
    return (progress.seconds + since) / training if training > 0 else 1.0
