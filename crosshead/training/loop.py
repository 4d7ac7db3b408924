"""The training loop: updates, validations, checkpoints and budgets."""

import math
import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from crosshead.caller import option
from crosshead.errors import UserError, is_out_of_memory
from crosshead.tasks.corpus import Epoch, Stopped
from crosshead.tasks.validation import Validation
from crosshead.training.checkpoint import save_best, save_checkpoint
from crosshead.training.hardware import peak_memory
from crosshead.training.progress import MAX_SKIPPED, Meter, Progress, UpdateResult
from crosshead.training.schedule import (
    STOPPED,
    End,
    EndKind,
    budget_spent,
    fraction_done,
    has_stalled,
    is_past_warmup,
    learning_rate,
    needs_timed_validation,
)
from crosshead.training.setup import Setup
from crosshead.training.updater import RowTooLarge


class Diverged(UserError):
    """Raised if the gradients of `MAX_SKIPPED` updates in a row or a validation are not finite."""


def fit(setup: Setup) -> End:
    """Train until a budget is spent, validation stops improving, or the run is asked to stop.

    Afterwards a checkpoint of the last update is on disk.
    """
    config, progress, context = setup.recipe.train, setup.progress, setup.context
    meter, updater = Meter(progress, setup.task.counter), setup.updater()
    if end := _validate_first(setup, meter):
        return end
    context.display.advance(_done(setup, meter), "the first update is under way")
    for epoch, rows in _batches(setup):
        width = setup.model.config.d_model
        rate = learning_rate(config, width, progress.update + 1, setup.done)
        try:
            sums, count = updater.gradients(epoch, rows)
        except RowTooLarge:
            raise _too_large(setup, epoch, rows) from None
        result = UpdateResult(sums, count, setup.optimizer.step(rate, updater.replicas))
        if not meter.add(result, rate):
            raise _diverged(setup)
        progress.update += 1
        context.on_update({"update": progress.update, "epoch": progress.epoch, **result.row(rate)})
        if end := _after_update(setup, meter):
            break
    assert end is not None, "the batches have no end"
    context.display.close()
    context.world.any(False)  # no process leaves while another still waits for its shard
    return end


def _validate_first(setup: Setup, meter: Meter) -> End | None:
    """Validate before the first update of this command if necessary; return the end, if any."""
    end = _decide(setup, 0.0)[0]
    if _needs_validation(setup, end):
        _validate(setup, meter)
        if setup.progress.update:
            _checkpoint(setup, meter, due=not end)
        end = end or _decide(setup, 0.0)[0]
    return end


def _after_update(setup: Setup, meter: Meter) -> End | None:
    """Log, display, validate and save if they are due; return the end, if any."""
    config, progress = setup.recipe.train, setup.progress
    end, times_validation = _decide(setup, meter.elapsed())
    if progress.update % config.log_every == 0 or end:
        _report(setup, meter)
    if setup.context.display.due() or end:
        _show(setup, meter)
    validates = times_validation or _is_due(progress.update, config.valid_every)
    # Skipped updates change nothing: a checkpoint now would only displace an older one.
    checkpoints = not progress.skipped_in_a_row and _is_due(
        progress.update, config.checkpoint_every or config.valid_every
    )
    if (validates or end) and end != STOPPED:
        if end:
            setup.context.say(f"update {progress.update}: the last validation has begun")
        _validate(setup, meter)
        end = end or _decide(setup, 0.0)[0]
    if checkpoints or end:
        _checkpoint(setup, meter, due=checkpoints)
    return end


def _batches(setup: Setup) -> Iterator[tuple[Epoch, np.ndarray]]:
    """Yield epochs with the rows of their batches, from the current position, without end.

    The order of the batches depends on (seed, epoch) alone, so a resumed run skips used batches
    without reading them.
    """
    config, progress = setup.recipe.train, setup.progress
    epochs = setup.corpus.epochs(setup.recipe)
    while True:
        epoch = epochs(progress.epoch)
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


def _decide(setup: Setup, since: float) -> tuple[End | None, bool]:
    """Return the end if the run ends now, and whether it validates to time a validation.

    The main process decides for all processes, after each update.
    """
    state = setup.recipe.train, setup.progress, setup.overhead, since
    end, times_validation, done = None, False, setup.done
    if setup.context.main and setup.context.should_stop():
        end = STOPPED
    elif setup.context.main:
        end = budget_spent(*state)
        times_validation = not end and needs_timed_validation(*state)
        # A validation that takes less time than the last one would raise the learning rate again.
        done = max(done, fraction_done(*state))
    sent, times_validation, setup.done = setup.context.world.broadcast(
        [end and end.sent(), times_validation, done]
    )
    end = sent and End.received(sent)
    if end and end.kind is EndKind.MAX_MINUTES:
        # The time reserved for the end of the run must not look unused when the run is resumed.
        minutes = setup.recipe.train.max_minutes or 0.0
        setup.progress.minutes_spent = max(minutes, setup.progress.minutes_spent)
    return end, times_validation


def _done(setup: Setup, meter: Meter) -> float:
    """Return the completed fraction of the run."""
    return fraction_done(setup.recipe.train, setup.progress, setup.overhead, meter.elapsed())


def _diverged(setup: Setup) -> Diverged:
    """Return the error for gradients that stay infinite."""
    return Diverged(
        f"the gradients of {MAX_SKIPPED} updates in a row, up to update "
        f"{setup.progress.update + 1}, were not finite; lower train.learning_rate"
    )


def _too_large(setup: Setup, epoch: Epoch, rows: np.ndarray) -> UserError:
    """Return the error for too little memory for one row."""
    longest = int(rows[epoch.lengths[rows].sum(axis=1).argmax()])
    return UserError(
        f"not enough memory for update {setup.progress.update + 1} on one {epoch.row} of "
        f"{epoch.extent(longest)}; resume with more memory ({option('resume')}), or begin "
        f"again with a lower {epoch.bound}"
    )


def _report(setup: Setup, meter: Meter) -> None:
    """Log the updates since the last line."""
    progress = setup.progress
    setup.context.write(
        "train",
        progress.update,
        epoch=progress.epoch,
        seconds=round(progress.seconds + meter.elapsed(), 2),
        **{setup.task.counter: progress.predictions},
        **meter.logged.values(),
        skipped=progress.skipped,
        peak_memory_bytes=peak_memory(setup.optimizer.device),
    )
    meter.logged.clear()


def _show(setup: Setup, meter: Meter) -> None:
    """Display the loss and the speed since the last display."""
    progress, loss, speed = setup.progress, meter.shown.loss, meter.shown.speed
    meter.shown.clear()
    setup.context.display.advance(
        _done(setup, meter),
        f"update {progress.update}  epoch {progress.epoch}  "
        f"{loss}  {speed:,.0f} {setup.task.units}/s"
        + (f"  {progress.skipped} skipped" if progress.skipped else ""),
    )


def _needs_validation(setup: Setup, end: End | None) -> bool:
    """Return whether a validation is due before the next update or before the end."""
    config, progress = setup.recipe.train, setup.progress
    if end == STOPPED or progress.update == progress.validated:
        return False
    # The initial weights of a fine-tuned run are validated too: they may stay the best.
    return progress.validated < 0 or _is_due(progress.update, config.valid_every) or bool(end)


def _validate(setup: Setup, meter: Meter) -> None:
    """Validate the current weights or their moving average, and save them if they are the best.

    If the run is asked to stop meanwhile, it repeats this validation when it is resumed.
    """
    # All processes call this: they may hold shards.
    weights = setup.optimizer.weights_to_validate()
    progress, config, main = setup.progress, setup.recipe.train, setup.context.main
    if main is None:
        return
    began, done = time.perf_counter(), _done(setup, meter)
    try:
        found: Validation | None = main.validate(weights)
    except Stopped:
        return
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error) or setup.context.world.size > 1:
            raise
        found = None
    if found is None:  # here, the memory of the failed attempt is free again
        _checkpoint(setup, meter, due=False)
        lower = setup.task.validation_bound
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
    metrics, chosen = setup.task.metrics, config.metric or setup.task.chooses
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
    _report_validation(setup, found, is_best)


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


def _report_validation(setup: Setup, found: Validation, is_best: bool) -> None:
    """Log and show a validation."""
    progress, context = setup.progress, setup.context
    row = {"epoch": progress.epoch, "seconds": round(progress.seconds, 2), **found.values}
    row["best"] = is_best
    context.write("valid", progress.update, **row)
    context.on_validation({"update": progress.update, **row})
    context.say(
        f"update {progress.update}  epoch {progress.epoch}  validation: "
        f"{found.clause(setup.task.metrics)}{'  (best so far)' * is_best}"
    )


def _checkpoint(setup: Setup, meter: Meter, *, due: bool) -> None:
    """Write a checkpoint; the next checkpoint replaces it unless it is `due`.

    A run that was stopped and resumed therefore keeps and averages the same checkpoints as an
    uninterrupted run.
    """
    progress, main = setup.progress, setup.context.main
    if main is None:
        setup.optimizer.contents()  # the main process may need this shard
        return
    began = time.perf_counter()
    progress.seconds += meter.restart()
    log = setup.context.log
    progress.log_bytes = log.tell() if log else 0
    replaced, progress.interim = progress.interim, 0 if due else progress.update
    save_checkpoint(
        main.directory, setup.optimizer, progress, setup.recipe.train.keep_last, replaced
    )
    meter.leave_out(time.perf_counter() - began)
