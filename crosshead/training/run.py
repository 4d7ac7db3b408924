"""A whole training run, from a recipe to a bundle, as `crosshead train` makes it."""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from crosshead.bundle.card import model_card
from crosshead.bundle.config import BundleScore
from crosshead.bundle.io import save_bundle
from crosshead.bundle.places import CHECKPOINTS, kept_beside
from crosshead.errors import UserError
from crosshead.recipe.recipe import Recipe
from crosshead.system.files import StrPath, atomic_write, real_path
from crosshead.system.progress import Display, Silent, counted
from crosshead.tasks.base import Task
from crosshead.tasks.corpus import Corpus, Epoch, Stopped
from crosshead.tasks.usability import Findings
from crosshead.tasks.validation import Metric, Validation, Validator
from crosshead.training.budget import STOPPED, End, EndKind, Overhead
from crosshead.training.checkpoint import Progress, list_checkpoints, save_state
from crosshead.training.choice import choose_weights, update_of
from crosshead.training.context import Callback, Context, ignore
from crosshead.training.curve import plot_curve
from crosshead.training.directory import (
    PICTURE,
    check_directory,
    check_utf8,
    drop_replaced,
    failed_batch,
    remove_unfinished,
    run_directory,
)
from crosshead.training.directory_lock import LockedDirectory, locked_directory
from crosshead.training.distributed import World, joined_process_group
from crosshead.training.finished import earlier_end, has_whole_bundle, nothing_to_train
from crosshead.training.interrupt import stop_on_interrupt
from crosshead.training.log import LOG, RunLog
from crosshead.training.loop import Diverged, MainProcess, Training, fit
from crosshead.training.rescue import save_displaced, write_beginning
from crosshead.training.settings import with_data_files
from crosshead.training.setup import (
    Ended,
    Setup,
    announce_data,
    announce_end,
    prepare_new,
    prepare_resumed,
    prepare_worker,
)
from crosshead.training.summary import card_facts, opening_lines
from crosshead.training.verdict import verdict, warmup_signs


@dataclass(frozen=True)
class Summary:
    """The end of a run: its reason, scores and findings."""

    out: Path
    end: End
    progress: Progress
    parameters: int = 0
    weights: str = ""
    """A description of the chosen weights; empty if no bundle was written."""
    scores: Sequence[BundleScore] = ()
    search: str = ""
    """A short description of the search, or of the reading, behind the scores."""
    task: Task | None = None
    """The task of the model; None if no bundle was written."""
    validated: Mapping[str, float] = field(default_factory=dict)
    """The metrics of the weights, as validation during training measures them."""
    findings: Findings | None = None
    """Findings about the model at the end."""
    verdict: str = ""
    """The reason why the model is not usable yet, and what to do; empty for a usable model."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """The number of rows left out of training, by reason."""
    unit: str = "row"
    """The noun for a row of the data."""
    bundle_kept: bool = False
    """True if the run had ended before, and its bundle was left unchanged."""
    rank: int = 0
    """The rank of this process. Rank 0 is the main process, which prints more than workers do."""

    @property
    def reason(self) -> str:
        """The reason for the end, in a clause."""
        return self.end.text

    @property
    def interrupted(self) -> bool:
        """True if the run was asked to stop.

        It then writes no bundle, and keeps a checkpoint if it has made an update.
        """
        return self.end.kind is EndKind.STOPPED

    def __repr__(self) -> str:
        """Return a short description, for a notebook."""
        parts = [str(self.out), f"update {self.progress.update:,}", self.reason]
        parts += [f"{score.metric} {score.value:.2f}" for score in self.scores]
        if self.verdict:
            parts.append("not usable yet (see verdict)")
        return f"<Summary: {', '.join(parts)}>"


def train(
    recipe: Recipe,
    out: StrPath,
    *,
    start: StrPath | None = None,
    resume: bool = False,
    force: bool = False,
    command: str = "",
    display: Display | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    on_update: Callback = ignore,
    on_validation: Callback = ignore,
) -> Summary:
    """Train the model of a recipe, and write its bundle.

    A new run that ends without a checkpoint leaves nothing.

    Args:
        recipe: The recipe.
        out: The run directory.
        start: A bundle to fine-tune; the recipe must have its model and its tokenizer.
        resume: Continue from the newest checkpoint in `out`, whatever `start` is.
        force: Replace an earlier run in `out`. It is kept beside `out` until there is a bundle.
        command: The typed command, for the model card.
        display: Shows messages and progress; by default nothing is shown.
        should_stop: Asked after each update whether to stop. A checkpoint is saved then.
        on_update: Receives a row after each update: see `Context`.
        on_validation: Receives a row after each validation: see `Context`.

    Returns:
        The end of the run.

    Raises:
        UserError: If the recipe, the data or the directory cannot be used, before anything is
            written; or later, if the run cannot continue.
        KeyboardInterrupt: After Ctrl-C. The run finishes the current update and saves a checkpoint,
            so that `resume=True` continues it. A second Ctrl-C ends at once.
        BaseException: An exception of a callback, after a checkpoint is saved in the same way.
    """
    began, out = time.perf_counter(), Path(out)
    start = None if start is None else Path(start)
    check_utf8("--out", real_path(out).name)
    check_utf8("the command", command)
    inputs = [Path(name) for name in recipe.data.files()] + ([start] if start else [])
    with stop_on_interrupt(should_stop) as interrupt, joined_process_group() as world:
        context = Context(
            world,
            display or Silent(),
            interrupt,
            on_update=interrupt.guarded(on_update),
            on_validation=interrupt.guarded(on_validation),
            began=began,
        )
        if not world.is_first:
            summary = _train_worker(out, start, resume, context)
        else:
            with locked_directory(out) as lock:
                check_directory(out, resume=resume, force=force, inputs=inputs)
                remove_unfinished(lock)
                run = _prepare(recipe, out, start, resume, command, context)
                if run is None:
                    summary = _summary_of_stopped(out, resume, world)
                elif run.end:
                    summary = _summary_of_finished(run.setup, out, run.end)
                else:
                    with run_directory(lock, resume=resume), _open_run(run, lock) as training:
                        before = training.progress.update
                        end = STOPPED if world.any(context.should_stop()) else fit(training)
                        if end != STOPPED and training.progress.update == before:
                            end = end.without_update()  # of a resumed run
                        summary = _finish(run, lock, training, end)
    if interrupt.error is not None:
        interrupt.error.add_note(_interruption_message(summary))
        raise interrupt.error
    if interrupt.was_pressed:
        raise KeyboardInterrupt(_interruption_message(summary))
    return summary


def _interruption_message(summary: Summary) -> str:
    """Return the message after Ctrl-C."""
    if not summary.interrupted:
        return f"the run in {summary.out} has ended, and its bundle is saved"
    if summary.progress.update == 0:
        return (
            f"the run in {summary.out} was stopped before its first update; nothing is kept of it"
        )
    return (
        f"the run in {summary.out} was stopped at update {summary.progress.update} and is saved; "
        "train it with resume=True to continue"
    )


class _Run(NamedTuple):
    """A run of the main process, ready to train."""

    setup: Setup
    validator: Validator[Any, Any, Any]
    end: End | None = None
    """The earlier end of a resumed run that has nothing to train and a whole bundle, else None."""


def _prepare(
    recipe: Recipe, out: Path, start: Path | None, resume: bool, command: str, context: Context
) -> _Run | None:
    """Return a run that is ready to train, or None if the run was asked to stop."""
    try:
        if resume:
            setup = prepare_resumed(recipe, out, context)
        else:
            setup = prepare_new(recipe, start, context)
    except Stopped:
        return None
    validator, end = _validator(setup), None
    if resume:
        end, setup.recipe = earlier_end(setup, out, _overhead(setup, validator))
    if end is None:
        setup.progress.commands.append(command)
        return _Run(setup, validator)
    is_whole = has_whole_bundle(setup, out)
    context.say(nothing_to_train(setup.progress.update, out, end.text, is_whole=is_whole))
    return _Run(setup, _validator(setup), end if is_whole else None)


def _summary_of_stopped(out: Path, resume: bool, world: World) -> Summary:
    """Return the summary of a run that was asked to stop before it was ready to train."""
    announce_end(world, STOPPED)
    world.any(True)
    kept = list_checkpoints(out / CHECKPOINTS) if resume else []
    return Summary(out, STOPPED, Progress(update=update_of(kept[-1]) if kept else 0))


def _summary_of_finished(setup: Setup, out: Path, end: End) -> Summary:
    """Return the summary of a run that had ended before with a whole bundle."""
    announce_end(setup.context.world, end)
    return Summary(
        out,
        end.without_update(),
        setup.progress,
        setup.optimizer.size(),
        task=setup.task,
        bundle_kept=True,
    )


def _train_worker(out: Path, start: Path | None, resume: bool, context: Context) -> Summary:
    """Train beside the main process, which decides and writes.

    Raises:
        SystemExit: With exit code 2, if the run diverges. The main process reports the reason.
    """
    setup, world = None, context.world
    try:
        setup = prepare_worker(out, start, resume, context)
    except Ended as ended:
        return Summary(out, ended.end, Progress(), bundle_kept=True, rank=world.rank)
    except Stopped:
        pass
    if world.any(setup is None) or setup is None:
        return Summary(out, STOPPED, Progress(), rank=world.rank)
    context.display = Silent()
    context.on_update = context.on_validation = ignore
    try:
        end = fit(_training(setup, None, Overhead()))
    except Diverged:
        raise SystemExit(2) from None
    return Summary(out, end, setup.progress, setup.optimizer.size(), rank=world.rank)


def _validator(setup: Setup) -> Validator[Any, Any, Any]:
    return setup.task.make_validator(
        setup.recipe,
        setup.corpus,
        setup.progress.longest_input,
        setup.machine.device,
        setup.context.should_stop,
    )


def _overhead(setup: Setup, validator: Validator[Any, Any, Any]) -> Overhead:
    """Return the time that the command needs besides updates: reading the data, and the end."""
    averaging = 1.0 if setup.recipe.train.average > 1 else 0.0
    after = 1.0 + averaging + validator.validations_to_score
    return Overhead(time.perf_counter() - setup.context.began, after)


def _say_if_late(setup: Setup) -> None:
    """Show a message if the command took longer than `max_minutes`."""
    took = (time.perf_counter() - setup.context.began) / 60
    limit = setup.recipe.train.max_minutes
    if limit is not None and took > 1.02 * limit:
        setup.context.say(
            f"the command took {took:.1f} minutes where max_minutes is {limit:g}: reading the "
            "data, or validation and scoring at the end, took longer than estimated"
        )


def _training(setup: Setup, main: MainProcess | None, overhead: Overhead) -> Training:
    config = setup.recipe.train
    return Training(
        task=setup.task,
        model=setup.model,
        optimizer=setup.optimizer,
        config=config,
        epochs=setup.corpus.epochs(setup.recipe),
        progress=setup.progress,
        main=main,
        context=setup.context,
        parallel=setup.machine.parallel_microbatches(config, setup.context.world.size),
        overhead=overhead,
    )


@contextlib.contextmanager
def _open_run(run: _Run, lock: LockedDirectory) -> Iterator[Training]:
    """Write the first files of a run and open its log for the block, in which the run trains.

    If the run directory is moved or removed during the block, the run is saved if possible.
    """
    out, setup, validator = lock.path, run.setup, run.validator
    corpus, progress, context = setup.corpus, setup.progress, setup.context
    if kept_beside(out).is_dir():
        context.say(
            f"the earlier run is kept in {kept_beside(out)} until the new bundle is written"
        )
    write_beginning(out, setup)
    progress.bundled = False
    context.log = log = RunLog(out, keep=progress.log_bytes, check=lock.check)

    def validate(weights: dict[str, Tensor]) -> Validation:
        lock.check()
        found = validator.validate(weights)
        lock.check()  # before any result is written
        return found

    try:
        # From here on the workers can read the files that they need.
        announce_data(context.world, progress.data_sha256)
        typed = dataclasses.replace(setup, recipe=with_data_files(setup.recipe, progress.names))
        for line in opening_lines(typed):
            context.say(line)
        keep = partial(_keep_batch, failed_batch(out), corpus)
        settings = validator.bundle.config.model_dump_json()
        main = MainProcess(validate, out / CHECKPOINTS, keep, settings)
        yield _training(setup, main, _overhead(setup, validator))
    except UserError as error:
        if lock.is_in_place() or isinstance(error, Diverged):
            raise
        raise save_displaced(setup, lock, log) from None
    finally:
        context.display.close()
        log.close()


def _keep_batch(path: Path, corpus: Corpus, epoch: Epoch, rows: Sequence[int]) -> str:
    """Write the rows of a batch to `path` for replay, and return a clause that names the file."""
    text, how = corpus.records(epoch, rows)
    atomic_write(path, text.encode())
    return f"; the last batch is in {path} ({how})"


def _finish(run: _Run, lock: LockedDirectory, training: Training, end: End) -> Summary:
    """Choose the weights, score them, and write the bundle and the picture of the run.

    A run that is or was asked to stop gets no bundle.
    """
    setup, validator, out, main = run.setup, run.validator, lock.path, training.main
    recipe, progress, context = setup.recipe, setup.progress, setup.context
    size, search = setup.optimizer.size(), validator.search_description()
    assert main is not None
    try:
        if end == STOPPED:
            raise Stopped
        lock.check()
        weights, clause, validated = choose_weights(
            setup.task, recipe.train, progress, main, validator, context
        )
        findings = validator.findings(weights)
    except Stopped:
        return Summary(out, STOPPED, progress, size)
    scores = findings.scores
    bundle = validator.bundle_of(weights)
    bundle = dataclasses.replace(bundle, config=bundle.config.model_copy(update={"scores": scores}))
    facts = card_facts(setup, out, clause, scores, search)
    lock.check()
    save_bundle(out, bundle, model_card(facts))
    drop_replaced(out)
    context.write(
        "end",
        progress.update,
        epoch=progress.epoch,
        seconds=round(progress.seconds, 2),
        **{setup.task.counter: progress.predictions},
        reason=end.text,
        weights=clause,
        search=search,
        **{score.metric.lower().replace(" ", "_"): score.value for score in scores},
    )
    if progress.skipped:
        context.say(f"{progress.skipped} updates were left out: their gradients were not finite")
    _plot(out, setup.task.metrics, context)
    progress.bundled = True
    save_state(main.directory, progress)
    within, note = warmup_signs(recipe.train, progress, findings)
    if note:
        context.say(note)
    _say_if_late(setup)
    faults = [*within, *findings.faults]
    return Summary(
        out,
        end,
        progress,
        size,
        clause,
        scores,
        search,
        task=setup.task,
        validated=validated,
        findings=findings,
        left_out=setup.corpus.left_out(),
        unit=setup.corpus.unit,
        verdict=verdict(faults, setup.task, recipe.train, progress, end, out),
    )


def _plot(out: Path, metrics: Sequence[Metric], context: Context) -> None:
    """Draw the training curve; an error becomes a message, because the bundle is already saved."""
    try:
        damaged = plot_curve(out / LOG, out / PICTURE, metrics)
    except UserError as error:
        context.say(str(error))
        return
    except Exception as error:  # an error inside matplotlib must not fail the run
        context.say(f"no {PICTURE}: {type(error).__name__} ({' '.join(str(error).split())})")
        return
    if damaged:
        shown = ", ".join(map(str, damaged[:5])) + (", ..." if len(damaged) > 5 else "")
        context.say(
            f"{out / LOG}: {counted(len(damaged), 'damaged line')} left out of {PICTURE}: {shown}"
        )
