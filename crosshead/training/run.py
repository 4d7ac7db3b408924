"""A whole training run, from a recipe to a bundle, as `crosshead train` makes it."""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from crosshead.bundle.places import CHECKPOINTS, RECIPE, earlier_run_path
from crosshead.caller import how_to_resume, option
from crosshead.errors import UserError
from crosshead.recipe.recipe import Recipe
from crosshead.recipe.stored import stored_form, with_data_files
from crosshead.system.files import StrPath, atomic_write, real_path
from crosshead.system.lines import file_sha256
from crosshead.system.progress import Display, Silent
from crosshead.tasks.corpus import Corpus, Stopped
from crosshead.tasks.validation import Validation, Validator
from crosshead.training.checkpoint import list_checkpoints
from crosshead.training.context import (
    Callback,
    Context,
    MainProcess,
    ignore,
    stop_on_interrupt,
)
from crosshead.training.directory import (
    LockedDirectory,
    check_directory,
    check_utf8,
    drop_replaced,
    locked_directory,
    remove_unfinished,
    run_directory,
)
from crosshead.training.distributed import World, joined_process_group
from crosshead.training.log import RunLog
from crosshead.training.loop import Diverged, fit
from crosshead.training.new import prepare_new, prepare_worker
from crosshead.training.progress import Progress
from crosshead.training.result import Summary, finish, update_of
from crosshead.training.resumed import (
    earlier_end,
    has_whole_bundle,
    nothing_to_train,
    prepare_resumed,
)
from crosshead.training.schedule import STOPPED, End, Overhead
from crosshead.training.setup import Setup
from crosshead.training.summary import opening_lines


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
    check_data: Callable[[Corpus], None] = lambda corpus: None,
) -> Summary:
    """Train the model of a recipe, and write its bundle.

    A new run that ends without a checkpoint leaves nothing.
    """
    began, out = time.perf_counter(), Path(out)
    start = None if start is None else Path(start)
    check_utf8(option("out"), real_path(out).name)
    check_utf8("the command", command)
    inputs = [Path(name) for name in recipe.data.files()] + ([start] if start else [])
    with stop_on_interrupt(should_stop) as interrupt, joined_process_group() as world:
        context = Context(
            world,
            display or Silent(),
            interrupt,
            on_update=interrupt.guarded(on_update),
            on_validation=interrupt.guarded(on_validation),
            check_data=check_data,
            began=began,
        )
        if not world.is_first:
            summary = _train_worker(out, start, resume, context)
        else:
            with locked_directory(out) as lock:
                check_directory(out, resume=resume, force=force, inputs=inputs)
                remove_unfinished(out)
                run = _prepare(recipe, out, start, resume, command, context)
                if run is None:
                    summary = _summary_of_stopped(out, resume, world)
                elif run.end:
                    drop_replaced(out)  # a kill may have left it, even empty
                    summary = _summary_of_finished(run.setup, out, run.end)
                else:
                    with run_directory(lock, resume=resume), _open_run(run, lock):
                        before = run.setup.progress.update
                        end = STOPPED if world.any(context.should_stop()) else fit(run.setup)
                        if end != STOPPED and run.setup.progress.update == before:
                            end = end.without_update()  # of a resumed run
                        summary = finish(run.setup, run.validator, lock, end)
        interrupt.tell(summary.left_behind(how_to_resume(out)))
    return summary


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
            setup, began = prepare_resumed(recipe, out, context)
        else:
            setup, began = prepare_new(recipe, start, context), None
    except Stopped:
        return None
    validator, end = _validator(setup), None
    if began is not None:
        end, setup.recipe = earlier_end(setup, began, _overhead(setup, validator))
    if end is None:
        setup.progress.commands.append(command)
        return _Run(setup, validator)
    is_whole = has_whole_bundle(setup, out)
    context.say(nothing_to_train(setup, out, end.text, is_whole=is_whole))
    return _Run(setup, _validator(setup), end if is_whole else None)


def _summary_of_stopped(out: Path, resume: bool, world: World) -> Summary:
    """Return the summary of a run that was asked to stop before it was ready to train."""
    world.broadcast({"end": STOPPED.sent()})
    world.any(True)
    kept = list_checkpoints(out / CHECKPOINTS) if resume else []
    return Summary(out, STOPPED, Progress(update=update_of(kept[-1]) if kept else 0))


def _summary_of_finished(setup: Setup, out: Path, end: End) -> Summary:
    """Return the summary of a run that had ended before with a whole bundle."""
    setup.context.world.broadcast({"end": end.sent()})
    return Summary(
        out,
        end.without_update(),
        setup.progress,
        setup.optimizer.size(),
        task=setup.task,
        bundle_kept=True,
    )


def _train_worker(out: Path, start: Path | None, resume: bool, context: Context) -> Summary:
    """Train beside the main process, which decides and writes."""
    setup, world = None, context.world
    with contextlib.suppress(Stopped):
        setup = prepare_worker(out, start, resume, context)
    if isinstance(setup, End):
        return Summary(out, setup, Progress(), bundle_kept=True, rank=world.rank)
    if world.any(setup is None) or setup is None:
        return Summary(out, STOPPED, Progress(), rank=world.rank)
    context.display = Silent()
    context.on_update = context.on_validation = ignore
    try:
        end = fit(setup)
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


@contextlib.contextmanager
def _open_run(run: _Run, lock: LockedDirectory) -> Iterator[None]:
    """Write the first files of a run and open its log for the block, in which the run trains.

    If the run directory is renamed or removed during the block, the run ends with an error.
    """
    out, setup, validator = lock.path, run.setup, run.validator
    progress, context = setup.progress, setup.context
    if earlier_run_path(out).is_dir():
        context.say(
            f"the earlier run is kept in {earlier_run_path(out)} until the new bundle is written"
        )
    _write_beginning(out, setup)
    progress.bundled = False
    context.log = log = RunLog(out, keep=progress.log_bytes, check=lock.check)

    def validate(weights: dict[str, Tensor]) -> Validation:
        lock.check()
        found = validator.validate(weights)
        lock.check()  # before any result is written
        return found

    try:
        # From here on the workers can read the files that they need.
        context.world.broadcast({"sha256": progress.data_sha256})
        typed = dataclasses.replace(setup, recipe=with_data_files(setup.recipe, progress.names))
        for line in opening_lines(typed):
            context.say(line)
        settings = validator.bundle.config.model_dump_json()
        context.main = MainProcess(validate, out / CHECKPOINTS, settings)
        setup.overhead = _overhead(setup, validator)
        yield
    except UserError:
        lock.check()  # a file that cannot be written may be a directory that is gone
        raise
    finally:
        context.display.close()
        log.close()


def _write_beginning(out: Path, setup: Setup) -> None:
    """Write the files that a run needs to be resumed, besides its checkpoints.

    These are the recipe and the files that the data writes, such as tokenizers.
    """
    recipe, corpus, progress = setup.recipe, setup.corpus, setup.progress
    progress.recipe = stored_form(recipe, out)
    atomic_write(out / RECIPE, progress.recipe.encode())
    corpus.write_files(out, dict(zip(recipe.data.files(), progress.names, strict=True)))
    progress.own_files = [
        f"{file_sha256(out / name)}  {name}"
        for name in sorted(corpus.kind.own_files)
        if (out / name).is_file()
    ]
