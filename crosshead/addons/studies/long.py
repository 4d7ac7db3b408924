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
from typing import Any, Literal, NamedTuple

import torch
from torch import Generator

from crosshead.addons.studies.charts import logarithmic, name_powers
from crosshead.addons.studies.effort import Effort, Times, seeds_of
from crosshead.addons.studies.exponents import exponents
from crosshead.addons.studies.fitting import FIRST, accuracy, drawn_from, train
from crosshead.addons.studies.formats import joined, number
from crosshead.addons.studies.study import Band, Result, Say, Study, Table, Value, after_training
from crosshead.models.language import LanguageConfig, TransformerLanguageModel
from crosshead.models.transformer_xl import TransformerXL, TransformerXLConfig
from crosshead.text.batching import Batch
from crosshead.training.memory import peak_memory
from crosshead.vocabulary import PAD

INDICES, LETTERS = 4, 4
ASKED = FIRST + INDICES * LETTERS
FILLER = ASKED + INDICES


class AttentionReach(NamedTuple):
    """A way to attend along a sequence.

    `reach` is the radius of a window, the stride, or the memory of Transformer-XL.
    """

    kind: Literal["full", "window", "strided", "xl"]
    layers: int
    reach: int = 0
    segment: int = 0

    def __str__(self) -> str:
        words = {"window": "radius", "strided": "stride", "xl": "memory"}
        return f"{words[self.kind]} {self.reach:,}" if self.kind in words else "all"


FULL, NEAR, STRIDED, XL = "full", "window", "strided", "Transformer-XL"

PATTERNS: dict[str, Callable[[int], AttentionReach]] = {
    FULL: lambda length: AttentionReach("full", 1),
    NEAR: lambda length: AttentionReach("window", 1, 128),
    STRIDED: lambda length: AttentionReach("strided", 1, round(math.sqrt(length))),
    XL: lambda length: AttentionReach("xl", 1, 128, 128),
}
"""The models measured at a length. The stride is its root, as in Child et al. 2019."""

WHOLE, SHORT = "Transformer-XL, memory of all", "Transformer-XL, short memory"
FEW, ENOUGH = "window, 2 layers that do not reach", "window, 2 layers that reach"

COPIERS: dict[str, Callable[[int], AttentionReach]] = {
    FULL: lambda filler: AttentionReach("full", 2),
    STRIDED: lambda filler: AttentionReach("strided", 2, round(math.sqrt(filler))),
    WHOLE: lambda filler: AttentionReach("xl", 2, filler + 2 * INDICES, filler // 8),
    SHORT: lambda filler: AttentionReach("xl", 2, filler // 32, filler // 32),
    FEW: lambda filler: AttentionReach("window", 2, filler // 32),
    ENOUGH: lambda filler: AttentionReach("window", 2, filler // 2 + INDICES),
}
"""The models that copy across a filler of this length."""

TIME = "{}: power of the length by which time grows"
MEMORY = "{}: power of the length by which memory grows"
COPIED = "{}: share copied across the longest filler"

LENGTHS = (1024, 2048, 4096, 8192, 16384)
"""The positions at which time and memory are measured; shortened forms leave out the longest."""

LEARNED = 0.8
"""The share copied from which on the task counts as learned."""

_GUESSED = "No path leads that far: the model guesses one of 4 letters, for 128 questions."

BANDS = (
    Band(MEMORY.format(FULL), 1.7, 2.1, "There are n^2 weights; all else is linear and small."),
    Band(MEMORY.format(NEAR), 0.85, 1.15, "Each query has the same number of keys at any length."),
    Band(MEMORY.format(STRIDED), 1.15, 1.6, "There are n sqrt(n) weights; all else is linear."),
    Band(
        MEMORY.format(XL), 0.85, 1.15,
        "Each segment has the same number of keys. The number of segments grows with the length.",
    ),
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
        "A path leads there, but through means of thousands of tokens that cannot know which index "
        "is asked. A trial at a quarter of the length had learned half of it in as many updates.",
    ),
)  # fmt: skip


def run(effort: Effort, seed: int, say: Say) -> Result:
    """Measure time and memory by length, then copying."""
    lengths = (512, 1024) if effort.quick else LENGTHS[: effort.amount(2, len(LENGTHS))]
    measured, table, curves = _grown(lengths, rounds=effort.amount(1, 3), say=say)
    filler, most = 64 if effort.quick else 4096, effort.amount(2, 300)
    rows = [["model", "layers", "reach of one", "copied by seed"]]
    means = {}
    for name, reach in COPIERS.items():
        shares = [learn(name, filler, most, each, say) for each in seeds_of(effort, seed)]
        means[name] = statistics.mean(shares)
        layers = str(reach(filler).layers)
        rows.append([name, layers, str(reach(filler)), joined(shares, ".1%")])
    tables = [table, Table(f"Copying across {filler:,} positions after {most} updates", rows)]
    return Result(measured | copies(means, effort), tables, partial(draw, curves))


def copies(means: Mapping[str, float], effort: Effort) -> dict[str, Value]:
    """Return the shares copied; guessing counts if attention to all has learned the task."""
    why = f"attention to all copied only {means[FULL]:.0%} either"
    failed = {COPIED.format(name): why for name in (SHORT, FEW) if means[FULL] < LEARNED}
    return after_training(effort, {COPIED.format(name): means[name] for name in means}, failed)


def build(reach: AttentionReach) -> TransformerLanguageModel | TransformerXL:
    """Return a language model without positions, apart from Transformer-XL's distances."""
    common = {"d_model": 64, "d_ff": 128, "heads": 1, "dropout": 0.0, "layers": reach.layers}
    if reach.kind == "xl":
        memory = {"memory": reach.reach, "segment": reach.segment}
        return TransformerXL(TransformerXLConfig.model_validate(common | memory), FILLER + 1)
    pattern = {"window": {"radius": reach.reach}, "strided": {"stride": reach.reach}}
    config = common | {"positions": "none", "pattern": reach.kind} | pattern.get(reach.kind, {})
    return TransformerLanguageModel(LanguageConfig.model_validate(config), FILLER + 1)


class TimeAndMemory(NamedTuple):
    """Seconds, and bytes of peak memory, of a forward and a backward pass."""

    seconds: float
    bytes: int


def taken(pattern: str, length: int, rounds: int, threads: int) -> TimeAndMemory:
    """Measure a sequence in this process: the least time, and the growth of peak memory."""
    torch.set_num_threads(threads)
    model, cpu = build(PATTERNS[pattern](length)), torch.device("cpu")

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


Curves = Mapping[str, Mapping[int, TimeAndMemory]]
"""By pattern and length."""


def _grown(
    lengths: tuple[int, ...], rounds: int, say: Say
) -> tuple[dict[str, Value], Table, Curves]:
    """Return the powers by pattern, and times and memory as a table and by length."""
    # Attention to all pairs of 16,384 positions would take gigabytes.
    cases = [(p, n) for p in PATTERNS for n in lengths if p != FULL or n <= 8192]
    measured: dict[str, Value] = {}
    curves: dict[str, dict[int, TimeAndMemory]] = {pattern: {} for pattern in PATTERNS}
    for (pattern, n), each in zip(cases, alone(cases, rounds), strict=True):
        curves[pattern][n] = each
    rows = [["pattern", "positions", "seconds", "peak memory, MiB"]]
    for pattern, found in curves.items():
        sizes = [[n] for n in found]
        [seconds] = exponents(sizes, [each.seconds for each in found.values()])
        [memory] = exponents(sizes, [max(each.bytes, 1) for each in found.values()])
        for name, power in ((TIME, seconds), (MEMORY, memory)):
            few = f"{len(sizes)} lengths are too few for a power"
            measured[name.format(pattern)] = power.value if len(sizes) > 2 else few
        for n, each in found.items():
            rows.append([pattern, f"{n:,}", number(each.seconds), f"{each.bytes / 2**20:,.1f}"])
        rows.append([pattern, "power", str(seconds), str(memory)])
        say(f"{pattern}: time {seconds}, memory {memory}")
    title = "Forwards and backwards through one layer, with powers of the length and intervals"
    return measured, Table(title, rows), curves


def learn(name: str, filler: int, most: int, seed: int, say: Say) -> float:
    """Train on a filler and on shorter ones; return the share copied across the longest."""
    with drawn_from(seed) as generator:
        model = build(COPIERS[name](filler))
        tests = [copying(filler, generator, 2) for _ in range(16)]
    train(model, partial(mixed, filler), generator, most=most, rate=3e-3)
    # Few rows at once: attention to all pairs of many rows would take gigabytes.
    share = sum(accuracy(model, test) for test in tests) / len(tests)
    say(f"{name}: {share:.1%} copied")
    return share


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


def draw(curves: Curves, figure: Any) -> None:
    """Draw time and memory by length."""
    left, right = figure.subplots(1, 2)
    for pattern, found in curves.items():
        left.plot(list(found), [each.seconds for each in found.values()], "o-", label=pattern)
        right.plot(list(found), [max(each.bytes, 1) / 2**20 for each in found.values()], "o-")
    lengths = sorted({n for found in curves.values() for n in found})
    for axes, title in ((left, "seconds"), (right, "peak memory, MiB")):
        logarithmic(axes, lengths, xlabel="positions", title=title)
        name_powers(axes.yaxis)
    left.legend()


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
    Times(quick=16, full=500),  # recorded with one seed: 305
)
