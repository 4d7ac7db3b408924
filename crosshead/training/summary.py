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
from crosshead.models.transformer import TransformerConfig
from crosshead.training.checkpoint import Progress
from crosshead.training.corpus import Corpus
from crosshead.training.directory import LEFT_OUT
from crosshead.training.hardware import Machine
from crosshead.training.log import counted
from crosshead.training.recipe import Recipe, to_toml

LIBRARIES = 500_000_000
"""Bytes that Python, PyTorch and their like hold before there is a model."""

KERNELS = 200_000_000
"""Bytes that oneDNN holds on a CPU for products in bfloat16, whose kernels and packed operands
differ by shape: what was measured beyond the rest at `tiny`, its caches held to 64 shapes."""


def opening_lines(recipe: Recipe, corpus: Corpus, machine: Machine, parameters: int) -> list[str]:
    """What will run where, how large it is, and what it will cost in memory."""
    kept, train = corpus.kept, recipe.train
    left_out = {reason: count for reason, count in kept.counts().items() if count}
    dropped = ", ".join(f"{count:,} {reason}" for reason, count in left_out.items())
    vocabulary = f"{corpus.source_tokenizer.vocab_size:,}"
    if not recipe.tokenizer.joint:
        vocabulary += f" and {corpus.target_tokenizer.vocab_size:,}"
    tokens = min(train.batch_tokens, int(example_lengths(kept.examples).max(axis=1).sum()))
    memory = memory_estimate(recipe.model, tokens, parameters, machine)
    return [
        f"{counted(len(kept.examples), 'pair')} to train on"
        + (f" (left out: {dropped}; see {LEFT_OUT})" if dropped else "")
        + f"; validation: {corpus.validation(recipe.data)}",
        f"{parameters / 1e6:.2f} M parameters, vocabulary {vocabulary}, batches of "
        f"{train.batch_tokens:,} tokens, warm-up of {counted(train.warmup or 0, 'update')}, "
        f"validation every {counted(train.valid_every, 'update')}",
        f"on {machine.name}, {counted(machine.threads, 'thread')}, {machine.precision} "
        f"({machine.why}); about {memory / 1e9:.1f} GB of memory",
    ]


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
    """What the model card says; files have the names that were typed when the run began."""
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


def memory_estimate(
    model: TransformerConfig, tokens: int, parameters: int, machine: Machine
) -> int:
    """Bytes that a run takes: the libraries, the weights with all that hangs on them, a batch.

    For its backward pass an encoder layer keeps about 21 vectors of d_model and 2 of d_ff a
    position and 3 weights a head and key; a decoder layer 37, 2 and 6 (for sentences of 32
    tokens). That is counted from the code, and was held against the peak of resident memory of
    `tiny` in float32 on one thread of a CPU, with a vocabulary of 120: 0.58 GB for batches of 1,024
    tokens (estimated: 0.69), 0.90 to 1.09 GB for 4,096 in sentences of 32 to 120 (1.16).
    """
    size = machine.dtype.itemsize
    masters = 0 if size == 4 else 4
    weights = parameters * (2 * size + masters + 4 + 8 + 4)  # gradients twice, moments, validation
    pairs = model.heads * 32
    position = model.encoder_layers * (21 * model.d_model + 2 * model.d_ff + 3 * pairs)
    position += model.decoder_layers * (37 * model.d_model + 2 * model.d_ff + 6 * pairs)
    has_kernels = machine.device.type == "cpu" and machine.dtype == torch.bfloat16
    return LIBRARIES + KERNELS * has_kernels + weights + tokens * position * size
