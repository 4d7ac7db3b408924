"""A whole run: from a recipe to a bundle. What `crosshead train` does."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from crosshead.bundle import CHECKPOINTS, RECIPE, BundleScore, kept_beside, save_bundle
from crosshead.card import model_card
from crosshead.data.batching import Epoch
from crosshead.data.tokenizers import save_tokenizers
from crosshead.errors import UserError
from crosshead.files import atomic_write
from crosshead.training.checkpoint import (
    Progress,
    average_weights,
    list_checkpoints,
    load_best,
    load_weights,
)
from crosshead.training.corpus import Corpus, Stopped
from crosshead.training.curve import plot_curve
from crosshead.training.directory import (
    LEFT_OUT,
    PICTURE,
    check_directory,
    check_utf8,
    drop_replaced,
    failed_batch,
    remove_unfinished,
    run_directory,
)
from crosshead.training.distributed import World, joined
from crosshead.training.held import held_directory
from crosshead.training.judge import Judge
from crosshead.training.log import LOG, Display, RunLog, Silent, counted
from crosshead.training.loop import STOPPED, Diverged, Lead, Training, fit
from crosshead.training.recipe import Recipe
from crosshead.training.settings import stored_form
from crosshead.training.setup import Setup, begun, followed, resumed
from crosshead.training.summary import card_facts, opening_lines
from crosshead.training.tasks import TASKS

__all__ = ["LEFT_OUT", "RECIPE", "Summary", "train"]


@dataclass(frozen=True)
class Summary:
    """How a run ended."""

    out: Path
    reason: str
    interrupted: bool
    """Somebody asked it to stop: a checkpoint was saved, but no bundle was written."""
    progress: Progress
    parameters: int
    weights: str
    scores: list[BundleScore]
    search: str = ""
    """How what was scored came about."""
    task: str = "translation"
    """What the model is for."""
    rank: int = 0
    """Which of several processes this was; the first, 0, has more to say than the others."""


def train(
    recipe: Recipe,
    out: Path,
    *,
    start: Path | None = None,
    resume: bool = False,
    force: bool = False,
    command: str = "",
    display: Display | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Summary:
    """Train the model of `recipe` and leave a bundle in `out`.

    `start` is a bundle to fine-tune: the recipe has to be of its model and its tokenizer. `resume`
    goes on from the newest checkpoint in `out`, whatever `start` is; `force` replaces an earlier
    run there, which is kept beside it until the new one has a bundle. `command` is what the model
    card says was typed. Raises `UserError` before anything is written where the recipe, the text or
    the directory will not do. A run that ends without a checkpoint leaves nothing.
    """
    display = display or Silent()
    check_utf8("--out", out.resolve().name)
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
                    setup = resumed(recipe, out, display, world, should_stop)
                else:
                    setup = begun(recipe, start, display, world, should_stop)
            except Stopped:
                world.agreed(STOPPED)
                world.some(True)
                kept = list_checkpoints(out / CHECKPOINTS) if resume else []
                progress = Progress(update=_update_of(kept[-1]) if kept else 0)
                return Summary(out, STOPPED, True, progress, 0, "", [])
            setup.progress.commands.append(command)
            with (
                run_directory(held, resume=resume),
                _under_way(setup, out, display, should_stop) as (lead, judge),
            ):
                reason = STOPPED if world.some(should_stop()) else fit(_training(setup, lead))
                if reason != STOPPED:
                    with contextlib.suppress(Stopped):
                        return _finish(setup, out, judge, lead, reason)
                size = setup.optimizer.size()
                return Summary(out, reason, True, setup.progress, size, "", [])


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
    with contextlib.suppress(Stopped):
        setup = followed(out, start, resume, display, world, should_stop)
    if world.some(setup is None) or setup is None:
        return Summary(out, STOPPED, True, Progress(), 0, "", [], rank=world.rank)
    try:
        reason = fit(_training(setup, None))
    except Diverged:
        raise SystemExit(2) from None
    size, stopped = setup.optimizer.size(), reason == STOPPED
    return Summary(out, reason, stopped, setup.progress, size, "", [], rank=world.rank)


def _training(setup: Setup, lead: Lead | None) -> Training:
    config = setup.recipe.train
    return Training(
        model=setup.model,
        optimizer=setup.optimizer,
        config=config,
        epochs=setup.corpus.epochs(setup.recipe),
        progress=setup.progress,
        lead=lead,
        world=setup.world,
        abreast=setup.machine.parts_abreast(config, setup.world.size),
    )


@contextlib.contextmanager
def _under_way(
    setup: Setup, out: Path, display: Display, should_stop: Callable[[], bool]
) -> Iterator[tuple[Lead, Judge[Any]]]:
    """A block in which the run trains: its files are begun, and its log is open."""
    recipe, corpus, machine, progress = setup.recipe, setup.corpus, setup.machine, setup.progress
    if kept_beside(out).is_dir():
        display.say(f"the earlier run is in {kept_beside(out)} until this has a bundle")
    judge = TASKS[recipe.model.task].judge(
        recipe, corpus, progress.longest_source, machine.device, should_stop
    )
    progress.recipe = stored_form(recipe, out)
    atomic_write(out / RECIPE, progress.recipe.encode())
    log = RunLog(out, keep=progress.log_bytes)
    try:
        _write_text_files(out, setup)
        # From here on the others can read what they need.
        setup.world.agreed(progress.text_sha256)
        size = setup.optimizer.size()
        for line in opening_lines(recipe, corpus, machine, size, setup.world):
            display.say(line)
        keep = partial(_keep_batch, failed_batch(out), corpus)
        yield Lead(judge.validate, out / CHECKPOINTS, log, display, should_stop, keep), judge
    finally:
        display.close()
        log.close()


def _write_text_files(out: Path, setup: Setup) -> None:
    """Write the tokenizers, which a resumed run reads, and what was left out and held out."""
    recipe, corpus = setup.recipe, setup.corpus
    tokenizers = corpus.source_tokenizer, corpus.target_tokenizer
    save_tokenizers(out, *tokenizers, joint=recipe.tokenizer.joint)
    corpus.write_files(out, dict(zip(recipe.data.files(), setup.progress.names, strict=True)))


def _keep_batch(path: Path, corpus: Corpus, epoch: Epoch, rows: Sequence[int]) -> str:
    """Write the texts of a batch to `path`, for replay; the clause that says where they are."""
    text, how = corpus.records(epoch, rows)
    atomic_write(path, text.encode())
    return f"; the last batch is in {path} ({how})"


def _finish(setup: Setup, out: Path, judge: Judge[Any], lead: Lead, reason: str) -> Summary:
    """Choose the weights, score them, and write the bundle and the picture of the run.

    Raises `Stopped` where somebody asks for the end before the bundle is written.
    """
    recipe, progress, log, display = setup.recipe, setup.progress, lead.log, lead.display
    size, how = setup.optimizer.size(), judge.how()
    weights, clause = _choose_weights(setup, lead, judge)
    scores = judge.scores(weights)
    bundle = judge.bundle_of(weights)
    bundle = dataclasses.replace(bundle, config=bundle.config.model_copy(update={"scores": scores}))
    facts = card_facts(
        recipe, out, setup.corpus, setup.machine, progress, size, clause, scores, how
    )
    save_bundle(out, bundle, model_card(facts))
    drop_replaced(out)
    log.write(
        "end",
        progress.update,
        epoch=progress.epoch,
        seconds=round(progress.seconds, 2),
        target_tokens=progress.target_tokens,
        reason=reason,
        weights=clause,
        search=how,
        **{score.metric.lower().replace(" ", "_"): score.value for score in scores},
    )
    if progress.skipped:
        display.say(f"{progress.skipped} updates were left out: their gradients were not finite")
    _draw(out, display)
    task = recipe.model.task
    return Summary(out, reason, False, progress, size, clause, scores, how, task=task)


def _draw(out: Path, display: Display) -> None:
    """Draw the picture of the run. What fails is said in a line: the bundle is saved already."""
    try:
        damaged = plot_curve(out / LOG, out / PICTURE)
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


def _choose_weights(setup: Setup, lead: Lead, judge: Judge[Any]) -> tuple[dict[str, Tensor], str]:
    """The best single weights or the average of the last checkpoints, by validation."""
    config, progress = setup.recipe.train, setup.progress
    best = load_best(lead.directory)
    name = "BLEU (greedy)" if config.metric == "bleu" else "loss"
    clause = f"the best validation {name}, at update {progress.best_update}"
    last = list_checkpoints(lead.directory)[-config.average :] if config.average > 1 else []
    if len(last) < 2 or progress.best_score is None:
        return best, clause
    averaged = average_weights([load_weights(place) for place in last])
    found = judge.validate(averaged)
    first, newest = _update_of(last[0]), _update_of(last[-1])
    average = f"the average of {len(last)} checkpoints, updates {first} to {newest}"
    is_best = found.score(config.metric) > progress.best_score
    lead.log.write(
        "average",
        progress.update,
        epoch=progress.epoch,
        seconds=round(progress.seconds, 2),
        weights=average,
        **found.values(),
        best=is_best,
    )
    lead.display.say(f"{average}: {found.clause()}" + ("  (best so far)" if is_best else ""))
    return (averaged, average) if is_best else (best, clause)


def _update_of(checkpoint: Path) -> int:
    return int(checkpoint.name.removeprefix("update-"))
