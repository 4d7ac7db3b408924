"""What a run says of itself: at its start, in the model card, and of the memory it takes."""

import dataclasses
import os
import platform
from pathlib import Path

import torch

from crosshead import __version__
from crosshead.bundle import BundleScore
from crosshead.card import CardFacts
from crosshead.data.batching import example_lengths
from crosshead.decoding.search import DecodeConfig
from crosshead.training.checkpoint import Progress
from crosshead.training.corpus import Corpus
from crosshead.training.directory import LEFT_OUT
from crosshead.training.distributed import World
from crosshead.training.hardware import Machine
from crosshead.training.log import counted
from crosshead.training.memory import Shape, memory_estimate
from crosshead.training.recipe import Recipe, to_toml

FEW = 100
"""A run on fewer pairs begins with a warning."""


def opening_lines(
    recipe: Recipe, corpus: Corpus, machine: Machine, parameters: int, world: World
) -> list[str]:
    """What will run where, how large it is, what it costs in memory; a warning for little text."""
    kept, train = corpus.kept, recipe.train
    left_out = {reason: count for reason, count in kept.counts().items() if count}
    dropped = ", ".join(f"{count:,} {reason}" for reason, count in left_out.items())
    vocabulary = f"{corpus.source_tokenizer.vocab_size:,}"
    if not recipe.tokenizer.joint:
        vocabulary += f" and {corpus.target_tokenizer.vocab_size:,}"
    shape = _largest_part(recipe, corpus, world.size)
    memory = memory_estimate(recipe, shape, parameters, machine, world)
    lines = [
        f"{counted(len(kept.examples), 'pair')} to train on"
        + (f" (left out: {dropped}; see {LEFT_OUT})" if dropped else "")
        + f"; validation: {corpus.validation(recipe.data)}",
        f"{parameters / 1e6:.2f} M parameters, vocabulary {vocabulary}, batches of "
        f"{train.batch_tokens:,} tokens, warm-up of {counted(train.warmup or 0, 'update')}, "
        f"validation every {counted(train.valid_every, 'update')}",
        f"on {machine.name}, "
        + (f"{world.size} processes of " if world.size > 1 else "")
        + f"{counted(machine.threads, 'thread')}, {machine.precision} "
        f"({machine.why}); about {memory / 1e9:.1f} GB of memory",
    ]
    if len(kept.examples) < FEW:
        lines.append(
            f"warning: of {counted(len(kept.examples), 'pair')} a model learns no more than to "
            "repeat them; for sentences it has not seen it takes thousands"
        )
    return lines


def _largest_part(recipe: Recipe, corpus: Corpus, processes: int) -> Shape:
    """As many of the longest pairs as are computed at once."""
    lengths, train = example_lengths(corpus.kept.examples), recipe.train
    source, target = map(int, lengths.max(axis=0))
    rows = min(len(lengths), max(1, train.batch_tokens // max(source, target)))
    return Shape(-(-rows // (train.accumulate * processes)), source, target)


def card_facts(
    recipe: Recipe,
    out: Path,
    corpus: Corpus,
    machine: Machine,
    progress: Progress,
    parameters: int,
    weights: str,
    scores: list[BundleScore],
) -> CardFacts:
    """What the model card says; files have the names that were typed."""
    typed = recipe.data.renamed(progress.names)
    names = dict(zip(recipe.data.files(), progress.names, strict=True))
    return CardFacts(
        name=out.resolve().name,
        commands=[command for command in progress.commands if command],
        recipe=to_toml(recipe.model_copy(update={"data": typed})),
        files=[dataclasses.replace(file, path=names[file.path]) for file in corpus.files],
        pairs=len(corpus.kept.examples),
        left_out=corpus.kept.counts(),
        validation=corpus.validation(typed),
        weights=weights,
        parameters=parameters,
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
        search=search_name(recipe.decode),
        source_language=recipe.data.source_language,
        target_language=recipe.data.target_language,
        skipped=progress.skipped,
    )


def search_name(decode: DecodeConfig) -> str:
    """How translations were searched, in a few words."""
    if decode.sample:
        return "sampled"
    if decode.beam == 1:
        return "greedy"
    return f"beam {decode.beam}, length penalty {decode.length_penalty:g}"
