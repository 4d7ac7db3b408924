"""The training loop: updates, validations, checkpoints and budgets."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from torch import Tensor

from crosshead.caller import option
from crosshead.errors import UserError, is_out_of_memory
from crosshead.models.base import Model
from crosshead.recipe.train import TrainConfig
from crosshead.tasks.base import Task
from crosshead.tasks.corpus import Epoch, Stopped
from crosshead.tasks.validation import Validation
from crosshead.training.budget import (
    STOPPED,
    End,
    EndKind,
    Overhead,
    budget_spent,
    fraction_done,
    has_stalled,
    needs_timed_validation,
)
from crosshead.training.checkpoint import save_best, save_checkpoint
from crosshead.training.context import Context
from crosshead.training.memory import peak_memory
from crosshead.training.meter import MAX_SKIPPED, Meter
from crosshead.training.optimizer import Optimizer
from crosshead.training.progress import Progress
from crosshead.training.schedule import is_past_warmup, learning_rate
from crosshead.training.updater import RowTooLarge, Updater


class Decision(NamedTuple):
    """A decision of the main process after an update, for all processes."""

    end: End | None
    """The end if the run ends now, else None."""
    times_validation: bool = False
    """True if the run validates now to measure the duration of a validation."""
    done: float = 0.0
    """The completed fraction of the run."""


class Diverged(UserError):
    """Raised if the gradients of `MAX_SKIPPED` updates in a row or a validation are not finite."""


@dataclass
class MainProcess:
    """The functions and paths that the main process needs to validate and write."""

    validate: Callable[[dict[str, Tensor]], Validation]
    """Validates float32 weights; raises `Stopped` if the run is asked to stop meanwhile."""
    directory: Path
    """The directory of the checkpoints."""
    keep_batch: Callable[[Epoch, Sequence[int]], str] = lambda epoch, rows: ""
    """Writes rows of an epoch to a file for replay, and returns a clause that names the file."""
    settings: str = ""
    """The configuration of a bundle of the weights, as JSON."""


@dataclass
class Training:
    """The objects that a run trains with."""

    task: Task
    model: Model
    optimizer: Optimizer
    config: TrainConfig
    epochs: Callable[[int], Epoch]
    """Returns the rows of an epoch; they differ between epochs if subwords are sampled."""
    progress: Progress
    main: MainProcess | None
    """The tools of the main process; None in workers."""
    context: Context = field(default_factory=Context)
    parallel: int = 1
    """Number of microbatches that are computed in parallel."""
    overhead: Overhead = field(default_factory=Overhead)
    """The time that the command needs besides updates."""
    done: float = 0.0
    """The completed fraction of the run at the last decision, the same in all processes."""


def fit(training: Training) -> End:
    """Train until a budget is spent, validation stops improving, or the run is asked to stop.

    Afterwards a checkpoint of the last update is on disk.
    """
    config, progress, context = training.config, training.progress, training.context
    meter = Meter(progress, training.task.counter)
    updater = Updater(
        training.task, training.model, training.optimizer, config, progress, context.say,
        context.world, training.parallel,
    )  # fmt: skip
    if end := _validate_first(training, meter):
        return end
    context.display.advance(_done(training, meter), "the first update is under way")
    for epoch, rows in _batches(training):
        width = training.model.config.d_model
        rate = learning_rate(config, width, progress.update + 1, training.done)
        try:
            result = updater.update(epoch, rows, rate)
        except RowTooLarge:
            raise _too_large(training, epoch, rows) from None
        if not meter.add(result, rate):
            raise _diverged(training, epoch, rows)
        progress.update += 1
        context.on_update({"update": progress.update, "epoch": progress.epoch, **result.row(rate)})
        if end := _after_update(training, meter):
            break
    assert end is not None, "the batches have no end"
    context.display.close()
    context.world.any(False)  # no process leaves while another still waits for its shard
    return end


def _validate_first(training: Training, meter: Meter) -> End | None:
    """Validate before the first update of this command if necessary; return the end, if any."""
    end = _decide(training, 0.0).end
    if _needs_validation(training, end):
        _validate(training, meter)
        if training.progress.update:
            _checkpoint(training, meter, due=not end)
        end = end or _decide(training, 0.0).end
    return end


def _after_update(training: Training, meter: Meter) -> End | None:
    """Log, display, validate and save if they are due; return the end, if any."""
    config, progress = training.config, training.progress
    end, times_validation, _ = _decide(training, meter.elapsed())
    if progress.update % config.log_every == 0 or end:
        _report(training, meter)
    if training.context.display.due() or end:
        _show(training, meter)
    validates = times_validation or _is_due(progress.update, config.valid_every)
    # Skipped updates change nothing: a checkpoint now would only displace an older one.
    checkpoints = not progress.skipped_in_a_row and _is_due(
        progress.update, config.checkpoint_every or config.valid_every
    )
    if (validates or end) and end != STOPPED:
        if end:
            training.context.say(f"update {progress.update}: the last validation has begun")
        _validate(training, meter)
        end = end or _decide(training, 0.0).end
    if checkpoints or end:
        _checkpoint(training, meter, due=checkpoints)
    return end


def _batches(training: Training) -> Iterator[tuple[Epoch, np.ndarray]]:
    """Yield epochs with the rows of their batches, from the current position, without end.

    The order of the batches depends on (seed, epoch) alone, so a resumed run skips used batches
    without reading them.
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
    """Return the decision of the main process, in all processes."""
    decision, world = Decision(None), training.context.world
    if training.main:
        decision = _own_decision(training, since)
    sent, *rest = world.broadcast([decision.end and decision.end.sent(), *decision[1:]])
    decision = Decision(sent and End.received(sent), *rest)
    training.done = decision.done
    if decision.end and decision.end.kind is EndKind.MAX_MINUTES:
        # The time reserved for the end of the run must not look unused when the run is resumed.
        minutes = training.config.max_minutes or 0.0
        training.progress.minutes_spent = max(minutes, training.progress.minutes_spent)
    return decision


def _own_decision(training: Training, since: float) -> Decision:
    state = training.config, training.progress, training.overhead, since
    if training.context.should_stop():
        return Decision(STOPPED, done=training.done)
    spent = budget_spent(*state)
    # A validation that takes less time than the last one would raise the learning rate again.
    done = max(training.done, fraction_done(*state))
    return Decision(spent, not spent and needs_timed_validation(*state), done)


def _done(training: Training, meter: Meter) -> float:
    """Return the completed fraction of the run."""
    return fraction_done(training.config, training.progress, training.overhead, meter.elapsed())


def _diverged(training: Training, epoch: Epoch, rows: np.ndarray) -> Diverged:
    """Write the last batch to a file, and return the error for gradients that stay infinite."""
    kept = training.main.keep_batch(epoch, rows.tolist()) if training.main else ""
    return Diverged(
        f"the gradients of {MAX_SKIPPED} updates in a row, up to update "
        f"{training.progress.update + 1}, were not finite; lower train.learning_rate{kept}"
    )


def _too_large(training: Training, epoch: Epoch, rows: np.ndarray) -> UserError:
    """Write the longest row to a file, and return the error for too little memory for one row."""
    longest = int(rows[epoch.lengths[rows].sum(axis=1).argmax()])
    kept = training.main.keep_batch(epoch, [longest]) if training.main else ""
    return UserError(
        f"not enough memory for update {training.progress.update + 1} on one {epoch.row} of "
        f"{epoch.extent(longest)}{kept}; resume with more memory ({option('resume')}), or begin "
        f"again with a lower {epoch.bound}"
    )


def _report(training: Training, meter: Meter) -> None:
    """Log the updates since the last line."""
    progress = training.progress
    training.context.write(
        "train",
        progress.update,
        epoch=progress.epoch,
        seconds=round(progress.seconds + meter.elapsed(), 2),
        **{training.task.counter: progress.predictions},
        **meter.logged.values(),
        skipped=progress.skipped,
        peak_memory_bytes=peak_memory(training.optimizer.device),
    )
    meter.logged.clear()


def _show(training: Training, meter: Meter) -> None:
    """Display the loss and the speed since the last display."""
    progress, loss, speed = training.progress, meter.shown.loss, meter.shown.speed
    meter.shown.clear()
    training.context.display.advance(
        _done(training, meter),
        f"update {progress.update}  epoch {progress.epoch}  "
        f"{loss}  {speed:,.0f} {training.task.units}/s"
        + (f"  {progress.skipped} skipped" if progress.skipped else ""),
    )


def _needs_validation(training: Training, end: End | None) -> bool:
    """Return whether a validation is due before the next update or before the end."""
    config, progress = training.config, training.progress
    if end == STOPPED or progress.update == progress.validated:
        return False
    # The initial weights of a fine-tuned run are validated too: they may stay the best.
    return progress.validated < 0 or _is_due(progress.update, config.valid_every) or bool(end)


def _validate(training: Training, meter: Meter) -> None:
    """Validate the current weights or their moving average, and save them if they are the best.

    If the run is asked to stop meanwhile, it repeats this validation when it is resumed.
    """
    # All processes call this: they may hold shards.
    weights = training.optimizer.weights_to_validate()
    progress, config, main = training.progress, training.config, training.main
    if main is None:
        return
    began, done = time.perf_counter(), _done(training, meter)
    try:
        found: Validation | None = main.validate(weights)
    except Stopped:
        return
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error) or training.context.world.size > 1:
            raise
        found = None
    if found is None:  # here, the memory of the failed attempt is free again
        _checkpoint(training, meter, due=False)
        lower = training.task.validation_bound
        raise UserError(
            f"not enough memory to validate at update {progress.update}, which is saved; continue "
            f"with more memory ({option('resume')})"
            + (f", or with a lower {lower}" if lower else "")
        )
    if not math.isfinite(found.values.get("loss", 0.0)):
        raise Diverged(
            f"the validation loss at update {progress.update} is not finite; lower "
            "train.learning_rate"
        )
    metrics, chosen = training.task.metrics, config.metric or training.task.chooses
    is_better = partial(found.is_better, metrics=metrics, chosen=chosen)
    score = found.score(metrics, chosen)
    counts = is_past_warmup(config, progress.update, done)
    is_best = _count_score(progress, score, is_better, counts)
    if has_stalled(config, progress) and progress.patience_spent < config.patience:
        progress.stalled, progress.patience_spent = progress.update, config.patience
    if is_best:
        save_best(main.directory, weights, main.settings, progress.update)
    progress.validated = progress.update
    progress.seconds += meter.restart()
    took = time.perf_counter() - began
    progress.validation_seconds = took
    meter.leave_out(took)
    _report_validation(training, found, is_best)


def _count_score(
    progress: Progress,
    score: list[float],
    is_better: Callable[[list[float], list[float]], bool],
    counts: bool,
) -> bool:
    """Update the best score and the count for patience; return whether this score is the best.

    The count does not grow during the warm-up (`counts` is false), when scores are mostly chance.
    """
    if progress.best_score is None or is_better(score, progress.best_score):
        progress.best_score, progress.best_update, progress.since_best = score, progress.update, 0
        progress.best_alone, progress.best_average = None, []
        return True
    if progress.best_alone is not None and is_better(score, progress.best_alone):
        # Patience compares single weights: an earlier average must not end training too soon.
        progress.best_alone, progress.since_best = score, 0
    elif counts:
        progress.since_best += 1
    return False


def _report_validation(training: Training, found: Validation, is_best: bool) -> None:
    """Log and show a validation."""
    progress, context = training.progress, training.context
    row = {"epoch": progress.epoch, "seconds": round(progress.seconds, 2), **found.values}
    row["best"] = is_best
    context.write("valid", progress.update, **row)
    context.on_validation({"update": progress.update, **row})
    context.say(
        f"update {progress.update}  epoch {progress.epoch}  validation: "
        f"{found.clause(training.task.metrics)}{'  (best so far)' * is_best}"
    )


def _checkpoint(training: Training, meter: Meter, *, due: bool) -> None:
    """Write a checkpoint; the next checkpoint replaces it unless it is `due`.

    A run that was stopped and resumed therefore keeps and averages the same checkpoints as an
    uninterrupted run.
    """
    progress, main = training.progress, training.main
    if main is None:
        training.optimizer.contents()  # the main process may need this shard
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
