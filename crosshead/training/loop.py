"""The training loop: batches in, updates out; validation, checkpoints and budgets on the way."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from torch import Tensor

from crosshead.data.batching import Epoch
from crosshead.errors import UserError, is_out_of_memory
from crosshead.models.base import Model
from crosshead.recipe.train import TrainConfig
from crosshead.tasks.base import Task
from crosshead.tasks.corpus import Stopped
from crosshead.tasks.validation import Validation
from crosshead.training.budget import Around, budget_spent, needs_measure, share_done
from crosshead.training.checkpoint import Progress, save_best, save_checkpoint
from crosshead.training.context import Context
from crosshead.training.memory import peak_memory
from crosshead.training.meter import MAX_SKIPPED, Meter
from crosshead.training.optimizer import Optimizer
from crosshead.training.schedule import learning_rate
from crosshead.training.updater import RowTooLarge, Updater

STOPPED = "it was asked to stop"


class Decision(NamedTuple):
    """A decision of the main process after an update, for all processes."""

    reason: str
    """Why the run ends now, in a clause; empty where it goes on."""
    measures: bool
    """True if a validation is made now to learn how long one takes."""


class Diverged(UserError):
    """The end of a run whose gradients stay infinite."""


@dataclass
class MainProcess:
    """The tools with which the main process validates and writes."""

    validate: Callable[[dict[str, Tensor]], Validation]
    """Judges float32 weights; raises `Stopped` where somebody asks for the end meanwhile."""
    directory: Path
    """Where checkpoints are written."""
    keep_batch: Callable[[Epoch, Sequence[int]], str] = lambda epoch, rows: ""
    """Writes rows of an epoch down for replay, and says where, in a clause."""
    settings: str = ""
    """The configuration of a bundle of the weights, as JSON."""


@dataclass
class Training:
    """All that a run works with."""

    task: Task
    model: Model
    optimizer: Optimizer
    config: TrainConfig
    epochs: Callable[[int], Epoch]
    """Returns the rows of an epoch; they differ between epochs where subwords are sampled."""
    progress: Progress
    main: MainProcess | None
    """None in every process but the main one, which decides for all."""
    context: Context = field(default_factory=Context)
    parallel: int = 1
    """Parts of a batch that are computed at a time."""
    around: Around = field(default_factory=Around)
    """The time that the command needs beside updates."""


def fit(training: Training) -> str:
    """Train until a budget is spent, validation stops improving, or somebody asks to stop.

    Returns why it ended, in a clause. A checkpoint of the last update is on disk afterwards. Raises
    `Diverged` where gradients stay infinite, and `UserError` where memory does not suffice for a
    single row or for validation.
    """
    config, progress, context = training.config, training.progress, training.context
    meter = Meter(progress, training.task.counter)
    updater = Updater(
        training.task,
        training.model,
        training.optimizer,
        config,
        progress,
        context.say,
        context.world,
        training.parallel,
    )
    reason = _decide(training, 0.0).reason
    if _owes_validation(training, reason):
        _validate(training, meter)
        if progress.update:
            _checkpoint(training, meter, due=not reason)
        reason = reason or _decide(training, 0.0).reason
    if reason:
        return reason
    context.display.advance(_done(training, meter), "the first update is under way")
    for epoch, rows in _batches(training):
        rate = learning_rate(config, training.model.config.d_model, progress.update + 1)
        try:
            outcome = updater.take(epoch, rows, rate)
        except RowTooLarge:
            raise _too_large(training, epoch, rows) from None
        if not meter.add(outcome, rate):
            raise _diverged(training, epoch, rows)
        progress.update += 1
        context.on_update({"update": progress.update, "epoch": progress.epoch, **outcome.row(rate)})
        reason, measures = _decide(training, meter.elapsed())
        if progress.update % config.log_every == 0 or reason:
            _report(training, meter)
        if context.display.due() or reason:
            _show(training, meter)
        validates = measures or _is_due(progress.update, config.valid_every)
        # Not while updates are skipped: what was saved before must not give way to the same again.
        checkpoints = not progress.skipped_in_a_row and _is_due(
            progress.update, config.checkpoint_every or config.valid_every
        )
        if (validates or reason) and reason != STOPPED:
            _validate(training, meter)
            reason = reason or _decide(training, 0.0).reason
        if checkpoints or reason:
            _checkpoint(training, meter, due=checkpoints)
        if reason:
            break
    context.display.close()
    context.world.any(False)  # none leaves while another still waits for its share of the weights
    return reason


def _batches(training: Training) -> Iterator[tuple[Epoch, np.ndarray]]:
    """An epoch and the rows of a batch of it, from where the run stands, on and on.

    Which batch comes when is a function of (seed, epoch) alone: a run that goes on does not read
    what it has used.
    """
    config, progress = training.config, training.progress
    while True:
        epoch = training.epochs(progress.epoch)
        plan = epoch.plan(config.batch_tokens, config.seed, progress.epoch)
        progress.batches = len(plan)
        while progress.batch < len(plan):
            rows = plan[progress.batch]
            progress.batch += 1
            last = progress.batch == len(plan)
            if last:
                progress.epoch, progress.batch = progress.epoch + 1, 0
            yield epoch, rows
            if last:
                break


def _is_due(update: int, every: int) -> bool:
    """Return whether an event with this period of updates (0: never) happens now."""
    return bool(every) and update % every == 0


def _decide(training: Training, since: float) -> Decision:
    """Return what the main process decides, the same in all processes.

    Args:
        training: The run.
        since: Seconds since the time of its progress was last taken.
    """
    decision = _own_decision(training, since) if training.main else Decision("", False)
    word = training.context.world.broadcast(f"{int(decision.measures)}{decision.reason}")
    if word[1:].startswith("max_minutes"):
        # The time that is kept for the end of the run must not look unused when it is resumed.
        minutes = training.config.max_minutes or 0.0
        training.progress.minutes_spent = max(minutes, training.progress.minutes_spent)
    return Decision(word[1:], word[0] == "1")


def _own_decision(training: Training, since: float) -> Decision:
    config, progress, around = training.config, training.progress, training.around
    if training.context.should_stop():
        return Decision(STOPPED, False)
    spent = budget_spent(config, progress, around, since)
    return Decision(spent, not spent and needs_measure(config, progress, around, since))


def _done(training: Training, meter: Meter) -> float:
    """The share of the run that is done."""
    return share_done(training.config, training.progress, training.around, meter.elapsed())


def _diverged(training: Training, epoch: Epoch, rows: np.ndarray) -> Diverged:
    """The error that ends a run whose gradients stay infinite, its last batch written down."""
    kept = training.main.keep_batch(epoch, rows.tolist()) if training.main else ""
    return Diverged(
        f"the gradients of {MAX_SKIPPED} updates in a row, up to update "
        f"{training.progress.update + 1}, were not finite; lower train.learning_rate{kept}"
    )


def _too_large(training: Training, epoch: Epoch, rows: np.ndarray) -> UserError:
    """The error that ends a run whose memory does not suffice for a row, which is written down."""
    longest = int(rows[epoch.lengths[rows].sum(axis=1).argmax()])
    kept = training.main.keep_batch(epoch, [longest]) if training.main else ""
    return UserError(
        f"not enough memory for update {training.progress.update + 1}, one {epoch.row} at a "
        f"time: its longest has {epoch.extent(longest)}{kept}; go on with more memory "
        f"(--resume), or begin again with a lower {epoch.bound}"
    )


def _report(training: Training, meter: Meter) -> None:
    progress = training.progress
    values = meter.logged.values()
    meter.logged.clear()
    device = next(training.model.parameters()).device
    training.context.write(
        "train",
        progress.update,
        epoch=progress.epoch,
        seconds=round(progress.seconds + meter.elapsed(), 2),
        **{training.task.counter: progress.target_tokens},
        **values,
        skipped=progress.skipped,
        peak_memory_bytes=peak_memory(device),
    )


def _show(training: Training, meter: Meter) -> None:
    """Show the figures since they were last shown."""
    progress, loss, speed = training.progress, meter.shown.loss, meter.shown.speed
    meter.shown.clear()
    training.context.display.advance(
        _done(training, meter),
        f"update {progress.update}  epoch {progress.epoch}  "
        + ("no finite update" if loss is None else f"loss {loss:.3f}")
        + f"  {speed:,.0f} {training.task.units}/s"
        + (f"  {progress.skipped} skipped" if progress.skipped else ""),
    )


def _owes_validation(training: Training, reason: str) -> bool:
    """Return whether a validation was due when the run stopped, or nothing else is left to do."""
    config, progress = training.config, training.progress
    if reason == STOPPED or progress.update == progress.validated:
        return False
    # What a fine-tuned run begins with is judged as well: it may stay the best.
    return progress.validated < 0 or _is_due(progress.update, config.valid_every) or bool(reason)


def _validate(training: Training, meter: Meter) -> None:
    """Judge the present weights, and keep them as the best if they are.

    Where somebody asks for the end meanwhile, the run owes this validation when it goes on.
    """
    weights = training.optimizer.weights()  # of several processes each may have a share
    progress, config, main = training.progress, training.config, training.main
    if main is None:
        return
    began = time.perf_counter()
    try:
        found: Validation | None = main.validate(weights)
    except Stopped:
        return
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error) or training.context.world.size > 1:
            raise
        found = None
    if found is None:  # here, where what the failed attempt held is free again
        _checkpoint(training, meter, due=False)
        raise UserError(
            f"not enough memory to validate; the run is kept at update {progress.update}: go on "
            "with more (--resume), or with a lower decode.batch_tokens"
        )
    metrics = training.task.metrics
    score = found.score(metrics, config.metric or training.task.chooses)
    is_best = progress.best_score is None or score > progress.best_score
    if is_best:
        progress.best_score, progress.best_update, progress.since_best = score, progress.update, 0
        progress.best_alone, progress.best_average = None, []
        save_best(main.directory, weights, main.settings, progress.update)
    elif progress.best_alone is not None and score > progress.best_alone:
        # Patience compares single weights: an average of an earlier end must not cut training off.
        progress.best_alone, progress.since_best = score, 0
    elif progress.update > (config.warmup or 0):  # before it, chance decides which is better
        progress.since_best += 1
    progress.validated = progress.update
    progress.seconds += meter.restart()
    took = time.perf_counter() - began
    progress.validation_seconds = max(progress.validation_seconds, took)
    meter.leave_out(took)
    row = {
        "epoch": progress.epoch,
        "seconds": round(progress.seconds, 2),
        **found.values,
        "best": is_best,
    }
    training.context.write("valid", progress.update, **row)
    training.context.on_validation({"update": progress.update, **row})
    training.context.say(
        f"update {progress.update}  epoch {progress.epoch}  validation: {found.clause(metrics)}"
        f"{'  (best so far)' if is_best else ''}"
    )


def _checkpoint(training: Training, meter: Meter, *, due: bool) -> None:
    """Write a checkpoint; one that only the end of the run called for gives way to the next.

    So a run that was stopped and resumed leaves, and averages, the checkpoints of one that was not.
    """
    progress, main = training.progress, training.main
    if main is None:
        training.optimizer.contents()  # what the first one writes it may have to be sent
        return
    began = time.perf_counter()
    progress.seconds += meter.restart()
    log = training.context.log
    progress.log_bytes = log.tell() if log else 0
    replaced, progress.interim = progress.interim, 0 if due else progress.update
    save_checkpoint(
        main.directory, training.optimizer, progress, training.config.keep_last, replaced
    )
    meter.leave_out(time.perf_counter() - began)
