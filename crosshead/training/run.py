"""A whole run: from a recipe to a bundle. What `crosshead train` does."""

import contextlib
import dataclasses
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from crosshead.bundle import (
    CHECKPOINTS,
    RECIPE,
    BundleScore,
    build_model,
    load_bundle,
    save_bundle,
    set_weights,
    weights_of,
)
from crosshead.card import model_card
from crosshead.data.batching import Example
from crosshead.data.filters import write_held_out, write_left_out
from crosshead.data.tokenizers import save_tokenizers
from crosshead.errors import UserError
from crosshead.files import atomic_write
from crosshead.models.transformer import Transformer
from crosshead.training.checkpoint import (
    BEST,
    Progress,
    average_weights,
    list_checkpoints,
    load_best,
    load_checkpoint,
    load_newest,
    load_weights,
)
from crosshead.training.corpus import Corpus, Stopped, epoch_examples, read_corpus
from crosshead.training.curve import plot_curve
from crosshead.training.directory import (
    HELD_OUT,
    LEFT_OUT,
    PICTURE,
    check_directory,
    check_utf8,
    drop_replaced,
    failed_batch,
    held_directory,
    kept_beside,
    run_directory,
)
from crosshead.training.distributed import World, joined, shard
from crosshead.training.hardware import Machine, choose_machine
from crosshead.training.judge import Judge
from crosshead.training.log import LOG, Display, NoLog, RunLog, Silent
from crosshead.training.loop import STOPPED, Training, Validation, fit
from crosshead.training.memory import recompute_activations, refuse_what_cannot_fit
from crosshead.training.optimizer import Optimizer
from crosshead.training.recipe import Recipe, to_toml
from crosshead.training.settings import check_fine_tuned, check_resumed, sections_of, stored_recipe
from crosshead.training.sizes import with_sizes
from crosshead.training.summary import card_facts, opening_lines, search_name

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
    """How the translations that were scored came about."""
    rank: int = 0
    """Which of several processes this was; the first, 0, has more to say than the others."""


@dataclass
class Setup:
    """A run that is ready to begin or to go on."""

    recipe: Recipe
    machine: Machine
    corpus: Corpus
    model: Transformer
    optimizer: Optimizer
    progress: Progress
    world: World


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
            return _follow(world, out, start, resume)
        with held_directory(out):
            check_directory(out, resume=resume, force=force, inputs=inputs)
            try:
                if resume:
                    setup = _resumed(recipe, out, display, world, should_stop)
                else:
                    setup = _begun(recipe, start, display, world, should_stop)
            except Stopped:
                kept = list_checkpoints(out / CHECKPOINTS) if resume else []
                progress = Progress(update=_update_of(kept[-1]) if kept else 0)
                return Summary(out, STOPPED, True, progress, 0, "", [])
            setup.progress.commands.append(command)
            with (
                run_directory(out, resume=resume),
                _under_way(setup, out, display, should_stop) as (training, judge),
            ):
                reason = fit(training)
                if reason == STOPPED or should_stop():
                    size = setup.optimizer.size()
                    return Summary(out, reason, True, setup.progress, size, "", [])
                return _finish(setup, out, judge, training, reason)


def _follow(world: World, out: Path, start: Path | None, resume: bool) -> Summary:
    """Train beside the first process, which has written all that there is to know."""
    world.wait()
    recipe = stored_recipe(out)
    machine = choose_machine(recipe.train, world.device(recipe.train.device), world.local_size)
    setup = _set_up(recipe, machine, read_corpus(recipe, None, out), world)
    if resume:
        newest = list_checkpoints(out / CHECKPOINTS)[-1]
        setup.progress = load_checkpoint(newest, setup.optimizer)
    elif start is not None:
        setup.optimizer.set_weights(weights_of(load_bundle(start).model))
    reason = fit(
        Training(
            setup.model,
            setup.optimizer,
            recipe.train,
            epoch_examples(recipe, setup.corpus),
            _never,
            out / CHECKPOINTS,
            NoLog(),
            Silent(),
            setup.progress,
            world=world,
        )
    )
    size, stopped = setup.optimizer.size(), reason == STOPPED
    return Summary(out, reason, stopped, setup.progress, size, "", [], rank=world.rank)


def _begun(
    recipe: Recipe,
    start: Path | None,
    display: Display,
    world: World,
    should_stop: Callable[[], bool],
) -> Setup:
    """A new run, of a new model or of that of the bundle `start`."""
    base = load_bundle(start) if start else None
    if base is not None and start is not None:
        check_fine_tuned(sections_of(base.config, base.source_tokenizer), recipe, start)
    machine = choose_machine(recipe.train, world.device(recipe.train.device), world.local_size)
    corpus = read_corpus(recipe, base, None, display.say, should_stop)
    first = epoch_examples(recipe, corpus)(0)
    recipe = with_sizes(_on_machine(recipe, machine), corpus.tokenizer, first)
    setup = _set_up(recipe, machine, corpus, world)
    if base is not None:
        setup.optimizer.set_weights(weights_of(base.model))
    progress = setup.progress
    progress.longest_source = max(
        corpus.longest_source, base.config.longest_source if base is not None else 0
    )
    progress.pairs, progress.text_sha256 = len(corpus.kept.examples), corpus.sha256()
    progress.names = recipe.data.files()
    return setup


def _resumed(
    recipe: Recipe, out: Path, display: Display, world: World, should_stop: Callable[[], bool]
) -> Setup:
    """The run in `out`, where its newest checkpoint stands."""
    began = _absolute(stored_recipe(out))
    recipe = check_resumed(began, _absolute(recipe), out)
    machine = choose_machine(recipe.train, world.device(recipe.train.device), world.local_size)
    corpus = read_corpus(recipe, None, out, display.say, should_stop)
    setup = _set_up(_on_machine(recipe, machine), machine, corpus, world)
    progress, passed_over = load_newest(out / CHECKPOINTS, setup.optimizer)
    _check_text(progress, corpus, out)
    for line in passed_over:
        display.say(line)
    display.say(f"going on from update {progress.update} in {out}")
    if machine.threads != began.train.threads:
        display.say(
            f"with {machine.threads} threads, where the run began with {began.train.threads}: "
            "the result is not, to the bit, that of a run without a break"
        )
    setup.progress = progress
    return setup


def _set_up(recipe: Recipe, machine: Machine, corpus: Corpus, world: World) -> Setup:
    refuse_what_cannot_fit(recipe, corpus, machine, world)
    torch.manual_seed(recipe.train.seed)
    model = build_model(
        recipe.model, corpus.source_tokenizer.vocab_size, corpus.target_tokenizer.vocab_size
    ).to(machine.device, machine.dtype)
    if recipe.train.recompute:
        recompute_activations(model)
    if recipe.train.sharded and world.size > 1:
        shard(model)
    progress = Progress(parts=recipe.train.accumulate)
    return Setup(recipe, machine, corpus, model, Optimizer(model, recipe.train), progress, world)


def _check_text(progress: Progress, corpus: Corpus, out: Path) -> None:
    """Raise `UserError` where the text is not what the run began with."""
    pairs = len(corpus.kept.examples)
    advice = "put the earlier files back, or begin another run with a new --out"
    if pairs != progress.pairs:
        raise UserError(
            f"the run in {out} began with {progress.pairs:,} pairs to train on, and the files now "
            f"give {pairs:,}; {advice}"
        )
    if corpus.sha256() != progress.text_sha256:
        raise UserError(
            f"the text that the run in {out} is trained or validated on has changed; {advice}"
        )


@contextlib.contextmanager
def _under_way(
    setup: Setup, out: Path, display: Display, should_stop: Callable[[], bool]
) -> Iterator[tuple[Training, Judge]]:
    """A block in which the run trains: its files are begun, and its log is open."""
    recipe, corpus, machine, progress = setup.recipe, setup.corpus, setup.machine, setup.progress
    if kept_beside(out).is_dir():
        display.say(f"the earlier run is in {kept_beside(out)} until this has a bundle")
    judge = Judge(recipe, corpus, progress.longest_source, machine.device)
    if progress.best_score is not None:  # it is needed at the end: better refused now
        set_weights(judge.bundle.model, load_best(out / CHECKPOINTS), out / CHECKPOINTS / BEST)
    # A recipe and a log are what a run is known by: they come first.
    atomic_write(out / RECIPE, to_toml(_absolute(recipe)).encode())
    log = RunLog(out, keep=progress.log_bytes)
    try:
        _write_text_files(out, recipe, corpus)
        setup.world.wait()  # from here on the others can read what they need
        size = setup.optimizer.size()
        for line in opening_lines(recipe, corpus, machine, size, setup.world):
            display.say(line)
        training = Training(
            setup.model,
            setup.optimizer,
            recipe.train,
            epoch_examples(recipe, corpus),
            judge.validate,
            out / CHECKPOINTS,
            log,
            display,
            progress,
            should_stop,
            setup.world,
            machine.parts_abreast(recipe.train, setup.world.size),
            partial(_keep_batch, failed_batch(out), corpus),
        )
        yield training, judge
    finally:
        display.close()
        log.close()


def _write_text_files(out: Path, recipe: Recipe, corpus: Corpus) -> None:
    """Write the tokenizers, which a resumed run reads, and what was left out and held out."""
    tokenizers = corpus.source_tokenizer, corpus.target_tokenizer
    save_tokenizers(out, *tokenizers, joint=recipe.tokenizer.joint)
    write_left_out(out / LEFT_OUT, corpus.kept.left_out)
    if corpus.held_out:
        write_held_out(out / HELD_OUT, corpus.valid)


def _never(weights: dict[str, Tensor]) -> Validation:
    raise AssertionError("the first process alone validates")


def _keep_batch(path: Path, corpus: Corpus, batch: Sequence[Example]) -> str:
    """Write the texts of a batch to `path`, for replay; the clause that says where they are."""
    tokenizers = corpus.source_tokenizer, corpus.target_tokenizer
    texts = [[t.decode(ids) for t, ids in zip(tokenizers, sides, strict=True)] for sides in batch]
    lines = [json.dumps({"source": source, "target": target}) for source, target in texts]
    atomic_write(path, ("\n".join(lines) + "\n").encode())
    return f"; the last batch is in {path} (--pairs, with --fields source,target)"


def _finish(setup: Setup, out: Path, judge: Judge, training: Training, reason: str) -> Summary:
    """Choose the weights, score them, and write the bundle and the picture of the run."""
    recipe, progress, log, display = setup.recipe, setup.progress, training.log, training.display
    size, search = setup.optimizer.size(), search_name(recipe.decode)
    weights, clause = _choose_weights(training, judge)
    scores = judge.scores(weights)
    bundle = judge.bundle_of(weights)
    bundle = dataclasses.replace(bundle, config=bundle.config.model_copy(update={"scores": scores}))
    facts = card_facts(recipe, out, setup.corpus, setup.machine, progress, size, clause, scores)
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
        search=search,
        **{score.metric.lower(): score.value for score in scores},
    )
    if progress.skipped:
        display.say(f"{progress.skipped} updates were left out: their gradients were not finite")
    try:
        plot_curve(out / LOG, out / PICTURE)
    except UserError as error:
        display.say(str(error))
    return Summary(out, reason, False, progress, size, clause, scores, search)


def _choose_weights(training: Training, judge: Judge) -> tuple[dict[str, Tensor], str]:
    """The best single weights or the average of the last checkpoints, by validation."""
    config, progress = training.config, training.progress
    best = load_best(training.directory)
    name = "BLEU (greedy)" if config.metric == "bleu" else "loss"
    clause = f"the best validation {name}, at update {progress.best_update}"
    last = list_checkpoints(training.directory)[-config.average :] if config.average > 1 else []
    if len(last) < 2 or progress.best_score is None:
        return best, clause
    averaged = average_weights([load_weights(place) for place in last])
    found = judge.validate(averaged)
    first, newest = _update_of(last[0]), _update_of(last[-1])
    average = f"the average of {len(last)} checkpoints, updates {first} to {newest}"
    is_best = found.score(config.metric) > progress.best_score
    training.log.write(
        "average",
        progress.update,
        epoch=progress.epoch,
        seconds=round(progress.seconds, 2),
        weights=average,
        **found._asdict(),
        best=is_best,
    )
    training.display.say(
        f"{average}: loss {found.loss:.3f}  BLEU (greedy) {found.bleu:.2f}"
        + ("  (best so far)" if is_best else "")
    )
    return (averaged, average) if is_best else (best, clause)


def _update_of(checkpoint: Path) -> int:
    return int(checkpoint.name.removeprefix("update-"))


def _on_machine(recipe: Recipe, machine: Machine) -> Recipe:
    """The recipe with the precision and the threads that were chosen, to repeat and resume in."""
    chosen = {"precision": machine.precision, "threads": machine.threads}
    return recipe.model_copy(update={"train": recipe.train.model_copy(update=chosen)})


def _absolute(recipe: Recipe) -> Recipe:
    """The recipe with names of files that are good in every working directory."""
    names = [os.path.abspath(name) for name in recipe.data.files()]
    return recipe.model_copy(update={"data": recipe.data.renamed(names)})
