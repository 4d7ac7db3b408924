"""Long sequences: time, memory and reach of attention to all, to some, and to a memory.

Each size is measured in a new process, so that no earlier memory counts. The copying task needs no
positions, only reach: a few tokens, each an index with a letter, then filler, and then a question
for the letter of each index.
"""

import math
import multiprocessing
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import NamedTuple

import torch
from torch import Generator

from crosshead.addons.studies.charts import Sheet, Table, by_seed, cells
from crosshead.addons.studies.fitting import FIRST, accuracy, drawn_from, train
from crosshead.addons.studies.measuring import powers
from crosshead.addons.studies.runs import means, results
from crosshead.addons.studies.study import Band, Result, Study, Trial, Value
from crosshead.models.language import LanguageConfig, TransformerLanguageModel
from crosshead.models.transformer_xl import TransformerXL, TransformerXLConfig
from crosshead.text.batching import Batch
from crosshead.training.hardware import peak_memory
from crosshead.vocabulary import PAD

INDICES, LETTERS = 4, 4
ASKED = FIRST + INDICES * LETTERS
FILLER = ASKED + INDICES


FULL, NEAR, STRIDED, XL = "full", "window", "strided", "Transformer-XL"

_SHAPE = {"d_model": 64, "d_ff": 128, "heads": 1, "dropout": 0.0}


def language_model(layers: int, pattern: str = "full", **reach: int) -> TransformerLanguageModel:
    """Return a language model without positions; `reach` is a radius or a stride."""
    own = {"layers": layers, "positions": "none", "pattern": pattern, **reach}
    return TransformerLanguageModel(LanguageConfig.model_validate(_SHAPE | own), FILLER + 1)


def transformer_xl(layers: int, memory: int, segment: int) -> TransformerXL:
    """Return a model whose segments remember those before them."""
    own = {"layers": layers, "memory": memory, "segment": segment}
    return TransformerXL(TransformerXLConfig.model_validate(_SHAPE | own), FILLER + 1)


Build = Callable[[int], TransformerLanguageModel | TransformerXL]

PATTERNS: dict[str, Build] = {
    FULL: lambda length: language_model(1),
    NEAR: lambda length: language_model(1, "window", radius=128),
    STRIDED: lambda length: language_model(1, "strided", stride=round(math.sqrt(length))),
    XL: lambda length: transformer_xl(1, 128, 128),
}
"""The models measured at a length. The stride is its root, as in Child et al. 2019."""

WHOLE, SHORT = "Transformer-XL, memory of all", "Transformer-XL, short memory"
FEW, ENOUGH = "window, 2 layers that do not reach", "window, 2 layers that reach"

COPIERS: dict[str, Build] = {
    FULL: lambda filler: language_model(2),
    STRIDED: lambda filler: language_model(2, "strided", stride=round(math.sqrt(filler))),
    WHOLE: lambda filler: transformer_xl(2, filler + 2 * INDICES, filler // 8),
    SHORT: lambda filler: transformer_xl(2, filler // 32, filler // 32),
    FEW: lambda filler: language_model(2, "window", radius=filler // 32),
    ENOUGH: lambda filler: language_model(2, "window", radius=filler // 2 + INDICES),
}
"""The models that copy across a filler of this length."""

TIME = "{}: power of the length by which time grows"
MEMORY = "{}: power of the length by which memory grows"
COPIED = "{}: share copied across the longest filler"

LENGTHS = (1024, 2048, 4096, 8192, 16384)
"""The positions at which time and memory are measured."""

LEARNED = 0.8
"""The share copied from which on the task counts as learned."""

_GUESSED = "No path leads that far: the model guesses one of 4 letters, for 128 questions."

BANDS = (
    Band(MEMORY.format(FULL), 1.7, 2.1, "There are n^2 weights; all else is linear and small."),
    Band(MEMORY.format(NEAR), 0.85, 1.15, "Each query has the same number of keys at any length."),
    Band(MEMORY.format(STRIDED), 1.15, 1.6, "There are n sqrt(n) weights; all else is linear."),
    Band(MEMORY.format(XL), 0.85, 1.15, "Each segment has the same number of keys."),
    Band(TIME.format(FULL), 1.6, 2.3, "As memory; long sequences also exceed the caches."),
    Band(TIME.format(NEAR), 0.8, 1.3, "As memory."),
    Band(TIME.format(STRIDED), 1.1, 1.7, "As memory."),
    Band(TIME.format(XL), 0.8, 1.3, "As memory."),
    Band(COPIED.format(FULL), 0.95, 1, "Every token is one step away."),
    Band(COPIED.format(STRIDED), 0.9, 1, "Two steps: to the column of a token, and up to it."),
    Band(COPIED.format(WHOLE), 0.95, 1, "Every token in memory is one step away."),
    Band(COPIED.format(SHORT), 0.1, 0.4, _GUESSED),
    Band(COPIED.format(FEW), 0.1, 0.4, _GUESSED),
    Band(
        COPIED.format(ENOUGH), 0.3, 0.9,
        "A path leads there, but through means of thousands of tokens.",
    ),
)  # fmt: skip


def run(trial: Trial) -> Result:
    """Measure time and memory by length, then copying."""
    grown = _grown(trial)
    filler, most = 64 if trial.quick else 4096, trial.amount(2, 300)
    found = results(trial, COPIERS, lambda name, seed: (name, filler, most, seed), learn)
    title = f"Copied across {filler:,} positions after {most} updates"
    copied = Sheet(title, by_seed(found), form=".1%", drawn=False)
    return Result({**grown.measured, **copies(means(found))}, [*grown.sheets, copied], grown.tables)


def copies(mean: Mapping[str, float]) -> dict[str, Value]:
    """Return the shares copied; guessing counts if attention to all has learned the task."""
    found: dict[str, Value] = {COPIED.format(name): each for name, each in mean.items()}
    if mean[FULL] < LEARNED:
        why = f"attention to all copied only {mean[FULL]:.0%} either"
        found |= {COPIED.format(name): why for name in (SHORT, FEW)}
    return found


class TimeAndMemory(NamedTuple):
    """Seconds, and bytes of peak memory, of a forward and a backward pass."""

    seconds: float
    bytes: int


def taken(pattern: str, length: int, rounds: int, threads: int) -> TimeAndMemory:
    """Measure a sequence in this process: the least time, and the growth of peak memory."""
    torch.set_num_threads(threads)
    model, cpu = PATTERNS[pattern](length), torch.device("cpu")

    def once(tokens: int) -> float:
        began = time.perf_counter()
        model.features(torch.full((1, tokens), FILLER)).sum().backward()
        return time.perf_counter() - began

    once(16)  # loads libraries and starts threads
    before = peak_memory(cpu)
    seconds = min(once(length) for _ in range(rounds))
    return TimeAndMemory(seconds, peak_memory(cpu) - before)


def alone(cases: Sequence[tuple[str, int]], rounds: int) -> list[TimeAndMemory]:
    """Measure each pattern at its length, each in a separate process.

    The processes are forked from one that has imported this module and computed nothing. So no
    thread is lost and no memory is held.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    found = []
    for case in cases:
        with ProcessPoolExecutor(1, context) as pool:
            found.append(pool.submit(taken, *case, rounds, torch.get_num_threads()).result())
    return found


def _grown(trial: Trial) -> Result:
    """Measure times and memory by pattern and length, and their powers of the length."""
    lengths = (512, 1024) if trial.quick else LENGTHS
    # Attention to all pairs of 16,384 positions would take gigabytes.
    cases = [(p, n) for p in PATTERNS for n in lengths if p != FULL or n <= 8192]
    measured: dict[str, Value] = {}
    grown = dict(zip(cases, alone(cases, trial.amount(1, 3)), strict=True))
    times = cells(grown, lambda each: [each.seconds])
    memory = cells(grown, lambda each: [max(each.bytes, 1) / 2**20])
    rows = [["pattern", "of time", "of memory"]]
    for pattern in PATTERNS:
        rows.append([pattern])
        for name, found in ((TIME, times[pattern]), (MEMORY, memory[pattern])):
            [power] = powers([[n] for n in found], [value for [value] in found.values()])
            few = f"{len(found)} lengths are too few for a power"
            measured[name.format(pattern)] = power.value if len(found) > 2 else few
            rows[-1].append(str(power))
        trial.say(f"{pattern}: time {rows[-1][1]}, memory {rows[-1][2]}")
    sheets = [
        Sheet("Seconds, forwards and backwards", times, "positions", log="xy"),
        Sheet("Peak memory, MiB", memory, "positions", log="xy"),
    ]
    return Result(measured, sheets, [Table("Powers of the length, with their errors", rows)])


def learn(run: tuple[str, int, int, int]) -> float:
    """Train by name, filler, updates and seed; return the share copied across the longest filler.

    Training sees shorter fillers, too.
    """
    name, filler, most, seed = run
    with drawn_from(seed) as generator:
        model = COPIERS[name](filler)
        tests = [copying(filler, generator, 2) for _ in range(16)]
    train(model, partial(mixed, filler), generator, most=most, rate=3e-3)
    # Few rows at once: attention to all pairs of many rows would take gigabytes.
    return statistics.mean(accuracy(model, test) for test in tests)


def mixed(filler: int, generator: Generator) -> Batch:
    """Return a batch whose filler is the full length, or a 4th, 16th or 64th of it.

    Shorter fillers come with more rows, so that the number of tokens stays about the same.
    """
    shorter = filler // 4 ** int(torch.randint(4, (1,), generator=generator))
    return copying(shorter, generator, min(64, 2 * filler // shorter))


def copying(filler: int, generator: Generator, rows: int) -> Batch:
    """Return indices with their letters, filler, and then questions for these letters."""
    letters = torch.randint(LETTERS, (rows, INDICES), generator=generator)
    index = torch.arange(INDICES).expand(rows, INDICES)
    said = FIRST + index * LETTERS + letters
    tokens = torch.cat([said, torch.full((rows, filler), FILLER), ASKED + index], dim=1)
    labels = torch.full_like(tokens, PAD)
    labels[:, -INDICES:] = FIRST + letters
    return Batch((tokens,), labels)


LONG = Study(
    "long",
    "Attention to some is cheap along long sequences, and still reaches across them",
    "Transformers are powerful sequence models, but require time and memory that grows "
    "quadratically with the sequence length. In this paper we introduce sparse factorizations of "
    "the attention matrix which reduce this to O(n sqrt(n)).",
    "Child et al. 2019, abstract; window: Vaswani et al. 2017, section 4; Transformer-XL: Dai et "
    "al. 2019",
    BANDS,
    run,
    seconds=500,  # recorded with one seed: 305
)
