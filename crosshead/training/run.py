"""A whole run: from a recipe to a bundle. What `crosshead train` does."""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from crosshead.bundle.card import model_card
from crosshead.bundle.config import BundleScore
from crosshead.bundle.io import save_bundle
from crosshead.bundle.places import CHECKPOINTS, kept_beside
from crosshead.data.batching import Epoch
from crosshead.data.parallel.filters import LEFT_OUT
from crosshead.errors import UserError
from crosshead.recipe.recipe import Recipe
from crosshead.system.files import StrPath, atomic_write, real_path
from crosshead.system.progress import Display, Silent, counted
from crosshead.tasks.base import Task
from crosshead.tasks.corpus import Corpus, Stopped
from crosshead.tasks.usability import Findings
from crosshead.tasks.validation import Metric, Validation, Validator
from crosshead.training.again import has_ended, has_whole_bundle, nothing_to_train
from crosshead.training.budget import Around
from crosshead.training.checkpoint import Progress, list_checkpoints, save_state
from crosshead.training.choice import choose_weights, update_of
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
from crosshead.training.distributed import World, joined
from crosshead.training.held import Held, held_directory
from crosshead.training.interrupt import stop_on_interrupt
from crosshead.training.log import LOG, RunLog
from crosshead.training.loop import STOPPED, Diverged, MainProcess, Training, fit
from crosshead.training.rescue import save_displaced, write_beginning
from crosshead.training.setup import (
    ENDED,
    Ended,
    Setup,
    prepare_new,
    prepare_resumed,
    prepare_worker,
)
from crosshead.training.summary import card_facts, opening_lines
from crosshead.training.verdict import verdict, warmup_signs

__all__ = ["LEFT_OUT", "Summary", "train"]


@dataclass(frozen=True)
class Summary:
    """The end of a run: its reason, scores and findings."""

    out: Path
    reason: str
    interrupted: bool
    """Somebody asked it to stop: a checkpoint was saved, but no bundle was written."""
    progress: Progress
    parameters: int
    weights: str
    scores: list[BundleScore]
    search: str = ""
    """A few words on the search or the reading behind the scores."""
    task: Task | None = None
    """The task of the model; None where no bundle was written."""
    validated: Mapping[str, float] = field(default_factory=dict)
    """The metrics of the weights, as validation during training measures them."""
    findings: Findings | None = None
    """Findings about the model at the end."""
    verdict: str = ""
    """The reason why the model is of no use yet, and what to do; empty for a usable model."""
    bundle_kept: bool = False
    """True if the run had ended before, and its bundle was left as it was."""
    rank: int = 0
    """The rank of this process. Rank 0 is the main process and prints more than the others."""


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
) -> Summary:
    """Train the model of `recipe` and leave a bundle in `out`.

    A run that ends without a checkpoint leaves nothing.

    Args:
        recipe: The whole run.
        out: The run directory.
        start: A bundle to fine-tune; the recipe has to be of its model and its tokenizer.
        resume: Go on from the newest checkpoint in `out`, whatever `start` is.
        force: Replace an earlier run in `out`, which is kept beside it until there is a bundle.
        command: What the model card says was typed.
        display: Where the run says how it goes; by default nowhere.
        should_stop: Asked after each update whether to stop; a checkpoint is saved then.

    Returns:
        How the run ended.

    Raises:
        UserError: Before anything is written, if the recipe, the text or the directory will not do;
            later, if the run cannot go on.
        KeyboardInterrupt: After Ctrl-C. The update under way is finished and a checkpoint saved, so
            that `resume=True` goes on; a second Ctrl-C ends at once.
    """
    command_began = time.perf_counter()
    with stop_on_interrupt(should_stop) as interrupt:
        summary = _train(
            recipe, Path(out), Path(start) if start is not None else None, resume, force, command,
            display or Silent(), interrupt, command_began,
        )  # fmt: skip
    if interrupt.was_pressed:
        raise KeyboardInterrupt(_how_it_was_left(summary))
    return summary


def _how_it_was_left(summary: Summary) -> str:
    """Return what there is to say to somebody who has pressed Ctrl-C."""
    if not summary.interrupted:
        return f"the run in {summary.out} has ended, and its bundle is saved"
    if summary.progress.update == 0:
        return (
            f"the run in {summary.out} was stopped before its first update; nothing is kept of it"
        )
    return (
        f"the run in {summary.out} was stopped at update {summary.progress.update} and is saved; "
        "train it with resume=True to go on"
    )


def _train(
    recipe: Recipe,
    out: Path,
    start: Path | None,
    resume: bool,
    force: bool,
    command: str,
    display: Display,
    should_stop: Callable[[], bool],
    command_began: float,
) -> Summary:
    """Do what `train` does, until somebody asks to stop."""
    check_utf8("--out", real_path(out).name)
    check_utf8("the command", command)
    inputs = [Path(name) for name in recipe.data.files()] + ([start] if start else [])
    with joined() as world:
        if not world.is_first:
            return _follow(world, out, start, resume, display, should_stop)
        with held_directory(out) as held:
            check_directory(out, resume=resume, force=force, inputs=inputs)
            remove_unfinished(held)
            try:
                if resume:
                    setup = prepare_resumed(recipe, out, display, world, should_stop)
                else:
                    setup = prepare_new(recipe, start, display, world, should_stop)
            except Stopped:
                world.broadcast(STOPPED)
                world.any(True)
                kept = list_checkpoints(out / CHECKPOINTS) if resume else []
                progress = Progress(update=update_of(kept[-1]) if kept else 0)
                return Summary(out, STOPPED, True, progress, 0, "", [])
            validator = _validator(setup, should_stop)
            around = _around(setup, validator, command_began)
            ended = has_ended(setup, out, around) if resume else ""
            if ended:
                is_whole = has_whole_bundle(setup, out)
                update = setup.progress.update
                display.say(nothing_to_train(update, out, ended, is_whole=is_whole))
                if is_whole:
                    world.broadcast(ENDED)
                    return _left_alone(setup, out, ended)
                validator = _validator(setup, should_stop)  # by the recipe that the run keeps
            else:
                setup.progress.commands.append(command)
            with (
                run_directory(held, resume=resume),
                _under_way(setup, held, validator, display, should_stop) as main,
            ):
                around = _around(setup, validator, command_began)
                try:
                    summary = _fit_and_finish(setup, held, validator, main, around)
                except UserError as error:
                    if held.is_in_place() or isinstance(error, Diverged):
                        raise
                    raise save_displaced(setup, held, main.log) from None
                if not summary.interrupted:
                    _say_if_late(setup, display, command_began)
                return summary


def _fit_and_finish(
    setup: Setup, held: Held, validator: Validator[Any, Any, Any], main: MainProcess, around: Around
) -> Summary:
    """Train to the end and leave a bundle, unless somebody asks for the end before."""
    out, progress = held.path, setup.progress
    before, progress.bundled = progress.update, False
    stopped = setup.world.any(main.should_stop())
    reason = STOPPED if stopped else fit(_training(setup, main, around))
    if reason != STOPPED:
        if progress.update == before:  # of a run that was resumed
            reason += ": no update was made"
        held.check()
        with contextlib.suppress(Stopped):
            return _finish(setup, held, validator, main, reason)
    return Summary(out, reason, True, progress, setup.optimizer.size(), "", [])


def _follow(
    world: World,
    out: Path,
    start: Path | None,
    resume: bool,
    display: Display,
    should_stop: Callable[[], bool],
) -> Summary:
    """Train beside the first process, which has written all that there is to know.

    Exits with the code of a mistake where the run diverges: the first one says why.
    """
    setup = None
    try:
        setup = prepare_worker(out, start, resume, display, world, should_stop)
    except Ended:
        return Summary(out, ENDED, False, Progress(), 0, "", [], bundle_kept=True, rank=world.rank)
    except Stopped:
        pass
    if world.any(setup is None) or setup is None:
        return Summary(out, STOPPED, True, Progress(), 0, "", [], rank=world.rank)
    try:
        reason = fit(_training(setup, None, Around()))
    except Diverged:
        raise SystemExit(2) from None
    size, stopped = setup.optimizer.size(), reason == STOPPED
    return Summary(out, reason, stopped, setup.progress, size, "", [], rank=world.rank)


def _validator(setup: Setup, should_stop: Callable[[], bool]) -> Validator[Any, Any, Any]:
    return setup.task.validates(
        setup.recipe,
        setup.corpus,
        setup.progress.longest_source,
        setup.machine.device,
        should_stop,
    )


def _left_alone(setup: Setup, out: Path, reason: str) -> Summary:
    """Return the summary of a run that had ended before, and whose bundle is whole."""
    return Summary(
        out,
        f"{reason}: no update was made",
        False,
        setup.progress,
        setup.optimizer.size(),
        "",
        [],
        task=setup.task,
        bundle_kept=True,
    )


def _around(setup: Setup, validator: Validator[Any, Any, Any], command_began: float) -> Around:
    """Return the time that the command needs beside updates: reading the text, and the end."""
    averaging = 1.0 if setup.recipe.train.average > 1 else 0.0
    after = 1.0 + averaging + validator.validations_to_score
    return Around(time.perf_counter() - command_began, after)


def _say_if_late(setup: Setup, display: Display, command_began: float) -> None:
    """Say where scoring took the command beyond its minutes: it was longer than was foreseen."""
    limit, took = setup.recipe.train.max_minutes, (time.perf_counter() - command_began) / 60
    if limit is not None and took > 1.02 * limit:
        display.say(
            f"the command took {took:.1f} minutes where max_minutes is {limit:g}: reading the "
            "text, or validation and scoring at the end, took longer than was foreseen"
        )


def _training(setup: Setup, main: MainProcess | None, around: Around) -> Training:
    config = setup.recipe.train
    return Training(
        task=setup.task,
        model=setup.model,
        optimizer=setup.optimizer,
        config=config,
        epochs=setup.corpus.epochs(setup.recipe),
        progress=setup.progress,
        main=main,
        world=setup.world,
        parallel=setup.machine.parallel_microbatches(config, setup.world.size),
        around=around,
    )


@contextlib.contextmanager
def _under_way(
    setup: Setup,
    held: Held,
    validator: Validator[Any, Any, Any],
    display: Display,
    should_stop: Callable[[], bool],
) -> Iterator[MainProcess]:
    """A block in which the run trains: its files are begun, and its log is open."""
    out = held.path
    recipe, corpus, machine, progress = setup.recipe, setup.corpus, setup.machine, setup.progress
    if kept_beside(out).is_dir():
        display.say(f"the earlier run is in {kept_beside(out)} until this has a bundle")
    write_beginning(out, setup)
    log = RunLog(out, keep=progress.log_bytes, check=held.check)
    try:
        # From here on the others can read what they need.
        setup.world.broadcast(progress.text_sha256)
        size = setup.optimizer.size()
        for line in opening_lines(setup.task, recipe, corpus, machine, size, setup.world):
            display.say(line)

        def validate(weights: dict[str, Tensor]) -> Validation:
            held.check()
            found = validator.validate(weights)
            held.check()  # before anything is written of it
            return found

        keep = partial(_keep_batch, failed_batch(out), corpus)
        settings = validator.bundle.config.model_dump_json()
        yield MainProcess(validate, out / CHECKPOINTS, log, display, should_stop, keep, settings)
    finally:
        display.close()
        log.close()


def _keep_batch(path: Path, corpus: Corpus, epoch: Epoch, rows: Sequence[int]) -> str:
    """Write the texts of a batch to `path`, for replay; the clause that says where they are."""
    text, how = corpus.records(epoch, rows)
    atomic_write(path, text.encode())
    return f"; the last batch is in {path} ({how})"


def _finish(
    setup: Setup, held: Held, validator: Validator[Any, Any, Any], main: MainProcess, reason: str
) -> Summary:
    """Choose the weights, score them, and write the bundle and the picture of the run.

    Raises `Stopped` where somebody asks for the end before the bundle is written.
    """
    recipe, progress, log, display = setup.recipe, setup.progress, main.log, main.display
    out = held.path
    size, how = setup.optimizer.size(), validator.how()
    weights, clause, validated = choose_weights(setup.task, recipe.train, progress, main, validator)
    findings = validator.findings(weights)
    scores = findings.scores
    bundle = validator.bundle_of(weights)
    bundle = dataclasses.replace(bundle, config=bundle.config.model_copy(update={"scores": scores}))
    facts = card_facts(
        setup.task, recipe, out, setup.corpus, setup.machine, progress, size, clause, scores, how
    )
    held.check()
    save_bundle(out, bundle, model_card(facts))
    drop_replaced(out)
    log.write(
        "end",
        progress.update,
        epoch=progress.epoch,
        seconds=round(progress.seconds, 2),
        **{setup.task.counter: progress.target_tokens},
        reason=reason,
        weights=clause,
        search=how,
        **{score.metric.lower().replace(" ", "_"): score.value for score in scores},
    )
    if progress.skipped:
        display.say(f"{progress.skipped} updates were left out: their gradients were not finite")
    _draw(out, setup.task.metrics, display)
    progress.bundled = True
    save_state(main.directory, progress)
    within, note = warmup_signs(recipe.train, progress, findings)
    if note:
        display.say(note)
    faults = [*within, *findings.faults]
    return Summary(
        out,
        reason,
        False,
        progress,
        size,
        clause,
        scores,
        how,
        task=setup.task,
        validated=validated,
        findings=findings,
        verdict=verdict(faults, recipe.train, progress, reason, out),
    )


def _draw(out: Path, metrics: Sequence[Metric], display: Display) -> None:
    """Draw the picture of the run. What fails is said in a line: the bundle is saved already."""
    try:
        damaged = plot_curve(out / LOG, out / PICTURE, metrics)
    except UserError as error:
        display.say(str(error))
        return
    except Exception as error:  # matplotlib's own mistakes must not decide how a run ends
        display.say(f"no {PICTURE}: {type(error).__name__} ({' '.join(str(error).split())})")
        return
    if damaged:
        shown = ", ".join(map(str, damaged[:5])) + (", ..." if len(damaged) > 5 else "")
        display.say(
            f"{out / LOG}: {counted(len(damaged), 'damaged line')} left out of {PICTURE}: {shown}"
        )
