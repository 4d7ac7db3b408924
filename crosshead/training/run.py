"""A whole run: from a recipe to a bundle. What `crosshead train` does."""

import os
import platform
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from crosshead import __version__
from crosshead.bundle import (
    Bundle,
    build_model,
    load_bundle,
    save_bundle,
    set_weights,
    weights_of,
)
from crosshead.card import CardFacts, CardScore, model_card
from crosshead.config import read_toml, validate
from crosshead.data.filters import write_left_out
from crosshead.errors import ConfigError, UserError
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
from crosshead.training.hardware import Machine, choose_machine
from crosshead.training.judge import Judge
from crosshead.training.log import Display, RunLog, Silent
from crosshead.training.loop import Training, fit
from crosshead.training.optimizer import Optimizer
from crosshead.training.recipe import Recipe, compose, to_toml

RECIPE, CHECKPOINTS, LEFT_OUT = "recipe.toml", "checkpoints", "left-out.tsv"

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

    `start` is a bundle to fine-tune: its tokenizers and its model's shape are kept. `resume` goes
    on from the newest checkpoint in `out`; `force` replaces an earlier run there. `command` is what
    the model card says was typed. Raises `UserError` before anything is written where the recipe,
    the text or the directory will not do.
    """
    display = display or Silent()
    _check_directory(out, resume=resume, force=force)
    base = load_bundle(start) if start else None
    if base is not None:
        recipe = _recipe_for(base, recipe)
    if resume:
        _check_same_run(recipe, out)
    machine = choose_machine(recipe.train, choose_device(recipe.train.device))
    recipe = _with_precision(recipe, machine)
    corpus = read_corpus(recipe, base, out if resume else None)
    torch.manual_seed(recipe.train.seed)
    model = build_model(
        recipe.model, corpus.source_tokenizer.vocab_size, corpus.target_tokenizer.vocab_size
    )
    if base is not None:
        set_weights(model, weights_of(base.model))
    optimizer = Optimizer(model.to(machine.device, machine.dtype), recipe.train)
    judge = Judge(recipe, corpus, machine.device)  # before a checkpoint's random state comes back
    if resume:
        progress = load_checkpoint(list_checkpoints(out / CHECKPOINTS)[-1], optimizer)
        display.say(f"going on from update {progress.update} in {out}")
    else:
        progress = Progress()
        _begin_directory(out, recipe, corpus, force)
    for line in _opening(recipe, corpus, machine, optimizer.size()):
        display.say(line)
    log = RunLog(out, keep=progress.log_bytes)
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
    try:
        reason = fit(training)
        if should_stop():
            return Summary(out, reason, True, progress, optimizer.size(), "", [])
        weights, clause = _choose_weights(training, judge)
        scores = judge.scores(weights)
        card = model_card(_facts(recipe, out, command, corpus, machine, training, clause, scores))
        save_bundle(out, judge.bundle_of(weights), card)
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
    finally:
        display.close()
        log.close()
    return Summary(out, reason, False, progress, optimizer.size(), clause, scores)


def _check_directory(out: Path, *, resume: bool, force: bool) -> None:
    """Refuse a directory that is in use, or is not what `resume` and `force` say it is."""
    if resume:
        if not (out / RECIPE).is_file() or not list_checkpoints(out / CHECKPOINTS):
            raise UserError(f"{out}: there is no run with a checkpoint to resume")
        return
    if out.exists() and not out.is_dir():
        raise UserError(f"{out}: is a file; --out names a directory")
    if not out.exists() or not any(out.iterdir()):
        return
    is_run = (out / RECIPE).is_file()
    if not is_run:
        raise UserError(f"{out}: is not empty and holds no run; choose another directory")
    if not force:
        raise UserError(
            f"{out}: holds a run already; --resume goes on with it, --force replaces it"
        )


def _begin_directory(out: Path, recipe: Recipe, corpus: Corpus, force: bool) -> None:
    """Make the run directory: what it takes to resume, and the list of what was left out."""
    if force and out.exists():
        for entry in list(out.iterdir()):
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    out.mkdir(parents=True, exist_ok=True)
    if recipe.tokenizer.joint:
        corpus.source_tokenizer.save(out, "tokenizer")
    else:
        corpus.source_tokenizer.save(out, "source")
        corpus.target_tokenizer.save(out, "target")
    write_left_out(out / LEFT_OUT, corpus.kept.left_out)
    atomic_write(out / RECIPE, to_toml(recipe).encode())


def _check_same_run(recipe: Recipe, out: Path) -> None:
    """A run goes on with the data, the tokenizer and the model it began with."""
    stored = compose(recipe=read_toml(out / RECIPE), where=str(out / RECIPE))
    for section in ("data", "tokenizer", "model"):
        before, now = getattr(stored, section), getattr(recipe, section)
        if before == now:
            continue
        key = next(k for k in type(now).model_fields if getattr(before, k) != getattr(now, k))
        raise ConfigError(
            f"{out}: the run began with {section}.{key} = {getattr(before, key)!r}, found "
            f"{getattr(now, key)!r}; a run is resumed with the settings it began with"
        )


def _recipe_for(base: Bundle, recipe: Recipe) -> Recipe:
    """The recipe with the tokenizers and the shape of a bundle; the dropouts are the recipe's."""
    rates = ("dropout", "attention_dropout", "activation_dropout")
    model = base.config.model.model_dump() | {key: getattr(recipe.model, key) for key in rates}
    tokenizer = recipe.tokenizer.model_dump() | {
        "kind": base.source_tokenizer.kind,
        "vocab_size": base.source_tokenizer.vocab_size,
        "joint": base.config.joint_tokenizer,
    }
    return validate(Recipe, recipe.model_dump() | {"model": model, "tokenizer": tokenizer})


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


def _with_precision(recipe: Recipe, machine: Machine) -> Recipe:
    """The recipe with the precision that was chosen, so that it resumes and repeats in the same."""
    train = recipe.train.model_copy(update={"precision": machine.precision})
    return recipe.model_copy(update={"train": train})


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
        epochs=progress.epoch,
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
