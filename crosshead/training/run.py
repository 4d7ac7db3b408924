"""A whole run: from a recipe to a bundle. What `crosshead train` does."""

import dataclasses
import os
import platform
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from crosshead import __version__
from crosshead.bundle import (
    BundleScore,
    build_model,
    load_bundle,
    save_bundle,
    set_weights,
    weights_of,
)
from crosshead.card import CardFacts, CardScore, model_card
from crosshead.data.filters import write_left_out
from crosshead.errors import UserError
from crosshead.files import atomic_write
from crosshead.pipelines import choose_device
from crosshead.training.checkpoint import (
    Progress,
    average_weights,
    list_checkpoints,
    load_best,
    load_checkpoint,
    load_weights,
)
from crosshead.training.corpus import Corpus, epoch_examples, read_corpus
from crosshead.training.curve import plot_curve
from crosshead.training.directory import (
    CHECKPOINTS,
    LEFT_OUT,
    PICTURE,
    RECIPE,
    check_directory,
    check_utf8,
    clear,
    run_directory,
)
from crosshead.training.hardware import Machine, choose_machine
from crosshead.training.judge import Judge
from crosshead.training.log import LOG, Display, RunLog, Silent
from crosshead.training.loop import Training, fit
from crosshead.training.optimizer import Optimizer
from crosshead.training.recipe import Recipe, to_toml
from crosshead.training.settings import check_fine_tuned, check_resumed, sections_of, stored_recipe

__all__ = ["LEFT_OUT", "RECIPE", "Summary", "memory_estimate", "train"]

LIBRARIES = 500_000_000
"""Bytes that Python, PyTorch and their like hold before there is a model."""


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
    scores: list[CardScore]


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
    run there. `command` is what the model card says was typed. Raises `UserError` before anything
    is written where the recipe, the text or the directory will not do. A run that ends before its
    first update leaves nothing.
    """
    display = display or Silent()
    check_utf8("--out", out.resolve().name)
    check_utf8("the command", command)
    inputs = [Path(name) for name in recipe.data.files()]
    check_directory(out, resume=resume, force=force, inputs=[*inputs, *([start] if start else [])])
    began = stored_recipe(out) if resume else None
    base = load_bundle(start) if start and not resume else None
    if began is not None:
        recipe = check_resumed(began, recipe, out)
    if base is not None and start is not None:
        check_fine_tuned(sections_of(base.config, base.source_tokenizer), recipe, start)
    machine = choose_machine(recipe.train, choose_device(recipe.train.device))
    recipe = _resolved(recipe, machine)
    corpus = read_corpus(recipe, base, out if resume else None)
    torch.manual_seed(recipe.train.seed)
    model = build_model(
        recipe.model, corpus.source_tokenizer.vocab_size, corpus.target_tokenizer.vocab_size
    )
    if base is not None:
        set_weights(model, weights_of(base.model))
    optimizer = Optimizer(model.to(machine.device, machine.dtype), recipe.train)
    progress = Progress(longest_source=base.config.longest_source if base else 0)
    if began is not None:
        progress = load_checkpoint(list_checkpoints(out / CHECKPOINTS)[-1], optimizer)
        display.say(f"going on from update {progress.update} in {out}")
        if machine.threads != began.train.threads:
            display.say(
                f"with {machine.threads} threads, where the run began with {began.train.threads}: "
                "the result is not, to the bit, that of a run without a break"
            )
    progress.longest_source = max(progress.longest_source, corpus.longest_source)
    judge = Judge(recipe, corpus, progress.longest_source, machine.device)
    with run_directory(out, progress):
        if not resume:
            clear(out)
        # A recipe and a log are what a run is known by: they come first.
        atomic_write(out / RECIPE, to_toml(recipe).encode())
        log = RunLog(out, keep=progress.log_bytes)
        try:
            _write_text_files(out, recipe, corpus)
            for line in _opening(recipe, corpus, machine, optimizer.size()):
                display.say(line)
            training = Training(
                model,
                optimizer,
                recipe.train,
                epoch_examples(recipe, corpus),
                judge.validate,
                out / CHECKPOINTS,
                log,
                display,
                progress,
                should_stop,
            )
            reason = fit(training)
            if should_stop():
                return Summary(out, reason, True, progress, optimizer.size(), "", [])
            return _finish(recipe, out, command, corpus, machine, judge, training, reason)
        finally:
            display.close()
            log.close()


def _write_text_files(out: Path, recipe: Recipe, corpus: Corpus) -> None:
    """Write the tokenizers, which a resumed run reads, and the list of what was left out."""
    if recipe.tokenizer.joint:
        corpus.source_tokenizer.save(out, "tokenizer")
    else:
        corpus.source_tokenizer.save(out, "source")
        corpus.target_tokenizer.save(out, "target")
    write_left_out(out / LEFT_OUT, corpus.kept.left_out)


def _finish(
    recipe: Recipe,
    out: Path,
    command: str,
    corpus: Corpus,
    machine: Machine,
    judge: Judge,
    training: Training,
    reason: str,
) -> Summary:
    """Choose the weights, score them, and write the bundle and the picture of the run."""
    progress, log, display = training.progress, training.log, training.display
    weights, clause = _choose_weights(training, judge)
    scores = judge.scores(weights)
    bundle = judge.bundle_of(weights)
    listed = [BundleScore(**dataclasses.asdict(score)) for score in scores]
    bundle = dataclasses.replace(bundle, config=bundle.config.model_copy(update={"scores": listed}))
    card = model_card(_facts(recipe, out, command, corpus, machine, training, clause, scores))
    save_bundle(out, bundle, card)
    log.write(
        "end",
        progress.update,
        epoch=progress.epoch,
        seconds=round(progress.seconds, 2),
        target_tokens=progress.target_tokens,
        reason=reason,
        weights=clause,
        **{score.metric: score.value for score in scores},
    )
    if progress.skipped:
        display.say(f"{progress.skipped} updates were left out: their gradients were not finite")
    try:
        plot_curve(out / LOG, out / PICTURE)
    except UserError as error:
        display.say(str(error))
    return Summary(out, reason, False, progress, training.optimizer.size(), clause, scores)


def _choose_weights(training: Training, judge: Judge) -> tuple[dict[str, Tensor], str]:
    """The best single weights or the average of the last checkpoints, by validation."""
    config, progress = training.config, training.progress
    best = load_best(training.directory)
    name = "BLEU" if config.metric == "bleu" else "loss"
    clause = f"the best by validation {name}, at update {progress.best_update}"
    last = list_checkpoints(training.directory)[-config.average :] if config.average > 1 else []
    if len(last) < 2 or progress.best_score is None:
        return best, clause
    averaged = average_weights([load_weights(place) for place in last])
    found = judge.validate(averaged)
    training.display.say(
        f"average of the last {len(last)} checkpoints: loss {found.loss:.3f}  BLEU {found.bleu:.2f}"
    )
    if found.score(config.metric) <= progress.best_score:
        return best, clause
    first, newest = (int(place.name.removeprefix("update-")) for place in (last[0], last[-1]))
    return averaged, f"the average of {len(last)} checkpoints, updates {first} to {newest}"


def _resolved(recipe: Recipe, machine: Machine) -> Recipe:
    """The recipe with the precision and the threads that were chosen, to repeat and resume in."""
    chosen = {"precision": machine.precision, "threads": machine.threads}
    return recipe.model_copy(update={"train": recipe.train.model_copy(update=chosen)})


def _opening(recipe: Recipe, corpus: Corpus, machine: Machine, parameters: int) -> list[str]:
    """What will run where, how large it is, and what it will cost in memory."""
    kept = corpus.kept
    left_out = {reason: count for reason, count in kept.counts().items() if count}
    dropped = ", ".join(f"{count:,} {reason}" for reason, count in left_out.items())
    vocabulary = f"{corpus.source_tokenizer.vocab_size:,}"
    if not recipe.tokenizer.joint:
        vocabulary += f" and {corpus.target_tokenizer.vocab_size:,}"
    memory = memory_estimate(recipe, parameters, machine.dtype)
    return [
        f"{len(kept.examples):,} pairs to train on"
        + (f" (left out: {dropped}; see {LEFT_OUT})" if dropped else "")
        + f"; validation: {corpus.validation}",
        f"{parameters / 1e6:.2f} M parameters, vocabulary {vocabulary}, batches of "
        f"{recipe.train.batch_tokens:,} tokens",
        f"on {machine.name}, {machine.threads} threads, {machine.precision} ({machine.why}); about "
        f"{memory / 1e9:.1f} GB of memory",
    ]


def _facts(
    recipe: Recipe,
    out: Path,
    command: str,
    corpus: Corpus,
    machine: Machine,
    training: Training,
    weights: str,
    scores: list[CardScore],
) -> CardFacts:
    """What the model card says."""
    progress = training.progress
    return CardFacts(
        name=out.resolve().name,
        command=command,
        recipe=to_toml(recipe),
        files=corpus.files,
        pairs=len(corpus.kept.examples),
        left_out=corpus.kept.counts(),
        validation=corpus.validation,
        weights=weights,
        parameters=training.optimizer.size(),
        updates=progress.update,
        epochs=progress.epochs,
        seconds=progress.seconds,
        device=machine.name,
        threads=machine.threads,
        cores=os.cpu_count() or 1,
        precision=machine.precision,
        seed=recipe.train.seed,
        versions={
            "crosshead": __version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        scores=scores,
        source_language=recipe.data.source_language,
        target_language=recipe.data.target_language,
        skipped=progress.skipped,
    )


def memory_estimate(recipe: Recipe, parameters: int, dtype: torch.dtype) -> int:
    """Bytes that a run takes: the libraries, the weights with all that hangs on them, a batch.

    For its backward pass an encoder layer keeps about 21 vectors of d_model and 2 of d_ff a
    position and 3 weights a head and key; a decoder layer 37, 2 and 6 (for sentences of 32
    tokens). It is a rough figure, counted from the code.
    """
    model, size = recipe.model, dtype.itemsize
    masters = 0 if size == 4 else 4
    weights = parameters * (2 * size + masters + 4 + 8 + 4)  # gradients twice, moments, validation
    pairs = model.heads * 32
    position = model.encoder_layers * (21 * model.d_model + 2 * model.d_ff + 3 * pairs)
    position += model.decoder_layers * (37 * model.d_model + 2 * model.d_ff + 6 * pairs)
    return LIBRARIES + weights + recipe.train.batch_tokens * position * size
