"""Long sequences: what attention to all, to some, and to a memory takes, and how far each copies.

Each size is measured in a process of its own, whose memory has known nothing else. The task needs
no positions, only reach: a few tokens, each an index with a letter, then filler, and then each
index is asked for its letter.
"""

import math
import multiprocessing
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from torch import Generator

from crosshead.data.batching import Batch
from crosshead.models.language import LanguageConfig, TransformerLanguageModel
from crosshead.models.transformer_xl import TransformerXL, TransformerXLConfig
from crosshead.studies.effort import Effort, seeds_of
from crosshead.studies.exponents import exponents
from crosshead.studies.fitting import FIRST, accuracy, drawn_from, updates
from crosshead.studies.study import (
    Band,
    Result,
    Say,
    Study,
    Table,
    Unmeasured,
    Value,
    after_training,
    number,
)
from crosshead.studies.times import TIMES
from crosshead.training.memory import peak_memory
from crosshead.vocabulary import PAD

CPU = torch.device("cpu")
INDICES, LETTERS = 4, 4
ASKED = FIRST + INDICES * LETTERS
FILLER = ASKED + INDICES

Model = TransformerLanguageModel | TransformerXL


class Shape(NamedTuple):
    """One way to attend along a sequence."""

    kind: Literal["full", "window", "strided", "xl"]
    layers: int
    reach: int = 0
    """The radius of a window, the stride, or the memory of Transformer-XL."""
    segment: int = 0


FULL, NEAR, STRIDED, XL = "full", "window", "strided", "Transformer-XL"

PATTERNS: dict[str, Callable[[int], Shape]] = {
    FULL: lambda length: Shape("full", 1),
    NEAR: lambda length: Shape("window", 1, 128),
    STRIDED: lambda length: Shape("strided", 1, round(math.sqrt(length))),
    XL: lambda length: Shape("xl", 1, 128, 128),
}
"""The models measured at a length. The stride is the root of the length, as in Child et al.
2019."""

WHOLE, SHORT, FEW, ENOUGH = (
    "Transformer-XL, memory of all", "Transformer-XL, short memory",
    "window, 2 layers that do not reach", "window, 2 layers that reach",
)  # fmt: skip

COPIERS: dict[str, Callable[[int], Shape]] = {
    FULL: lambda filler: Shape("full", 2),
    STRIDED: lambda filler: Shape("strided", 2, round(math.sqrt(filler))),
    WHOLE: lambda filler: Shape("xl", 2, filler + 2 * INDICES, filler // 8),
    SHORT: lambda filler: Shape("xl", 2, filler // 32, filler // 32),
    FEW: lambda filler: Shape("window", 2, filler // 32),
    ENOUGH: lambda filler: Shape("window", 2, filler // 2 + INDICES),
}
"""The models that copy across a filler of this length."""

TIME = "{}: power of the length by which time grows"
MEMORY = "{}: power of the length by which memory grows"
COPIED = "{}: share copied across the longest filler"

LENGTHS = (1024, 2048, 4096, 8192, 16384)
"""The positions at which time and memory are measured; shortened forms leave out the longest."""

LEARNED = 0.8
"""The share copied from which on the task counts as learned."""

_GUESSED = "No path leads that far: a guess among 4, of 128 asked."

BANDS = (
    Band(MEMORY.format(FULL), 1.7, 2.1, "n^2 weights; what is linear in n is little beside them."),
    Band(MEMORY.format(NEAR), 0.85, 1.15, "Each query has as many keys, however many there are."),
    Band(MEMORY.format(STRIDED), 1.15, 1.6, "n sqrt(n) weights, and what is linear in n."),
    Band(MEMORY.format(XL), 0.85, 1.15, "As many keys for each segment, segments in proportion."),
    Band(TIME.format(FULL), 1.6, 2.3, "As memory; caches are left behind on the way."),
    Band(TIME.format(NEAR), 0.8, 1.3, "As memory."),
    Band(TIME.format(STRIDED), 1.1, 1.7, "As memory."),
    Band(TIME.format(XL), 0.8, 1.3, "As memory."),
    Band(COPIED.format(FULL), 0.95, 1, "Every token is one step away."),
    Band(COPIED.format(STRIDED), 0.9, 1, "Two steps: to the column of a token, and up to it."),
    Band(COPIED.format(WHOLE), 0.95, 1, "What is remembered is one step away."),
    Band(COPIED.format(SHORT), 0.1, 0.4, _GUESSED),
    Band(COPIED.format(FEW), 0.1, 0.4, _GUESSED),
    Band(
        COPIED.format(ENOUGH), 0.3, 0.9,
        "A path leads there, but through means of thousands that cannot know which index is asked: "
        "a trial at a quarter of the length had learned half of it in as many updates.",
    ),
)  # fmt: skip


def run(effort: Effort, seed: int, say: Say) -> Result:
    """Time and memory by length, then copying."""
    lengths = (512, 1024) if effort.quick else LENGTHS[: effort.amount(2, len(LENGTHS))]
    measured, table, curves = _grown(lengths, rounds=effort.amount(1, 3), say=say)
    filler, most = 64 if effort.quick else 4096, effort.amount(2, 300)
    copied = {
        name: [learn(name, filler, most, each, say) for each in seeds_of(effort, seed)]
        for name in COPIERS
    }
    rows = [["model", "layers", "reach of one", "copied by seed"]]
    for name, shares in copied.items():
        shape = COPIERS[name](filler)
        shown = ", ".join(f"{share:.1%}" for share in shares)
        rows.append([name, str(shape.layers), _reach(shape), shown])
    measured |= copies({name: statistics.mean(each) for name, each in copied.items()}, effort)
    tables = [table, Table(f"Copying across {filler:,} positions after {most} updates", rows)]
    return Result(measured, tables, partial(draw, curves))


def copies(means: Mapping[str, float], effort: Effort) -> dict[str, Value]:
    """Return the shares copied, by the names of their bands.

    Guessing tells something of a short reach where attention to all has learned the task.
    """
    found = {COPIED.format(name): after_training(effort, mean) for name, mean in means.items()}
    if not effort.quick and means[FULL] < LEARNED:
        for name in (SHORT, FEW):
            why = f"attention to all copied only {means[FULL]:.0%} either"
            found[COPIED.format(name)] = Unmeasured(why)
    return found


def build(shape: Shape) -> Model:
    """A language model without positions, but for the distances of Transformer-XL."""
    common = {"d_model": 64, "d_ff": 128, "heads": 1, "dropout": 0.0, "layers": shape.layers}
    if shape.kind == "xl":
        memory = {"memory": shape.reach, "segment": shape.segment}
        return TransformerXL(TransformerXLConfig.model_validate(common | memory), FILLER + 1)
    pattern = {"window": {"radius": shape.reach}, "strided": {"stride": shape.reach}}
    config = common | {"positions": "none", "pattern": shape.kind} | pattern.get(shape.kind, {})
    return TransformerLanguageModel(LanguageConfig.model_validate(config), FILLER + 1)


class Taken(NamedTuple):
    """Time and memory of a forward and a backward pass."""

    seconds: float
    bytes: int


def taken(pattern: str, length: int, rounds: int, threads: int) -> Taken:
    """Measure a sequence in this process: the least time, and the growth of peak memory."""
    torch.set_num_threads(threads)
    model = build(PATTERNS[pattern](length))

    def once(tokens: int) -> float:
        began = time.perf_counter()
        model.features(torch.full((1, tokens), FILLER)).sum().backward()
        return time.perf_counter() - began

    once(16)  # libraries are loaded and threads begun
    before = peak_memory(CPU)
    seconds = min(once(length) for _ in range(rounds))
    return Taken(seconds, peak_memory(CPU) - before)


def alone(cases: Sequence[tuple[str, int]], rounds: int) -> list[Taken]:
    """Measure each pattern at its length, each in a process of its own.

    The processes are forked from one that has imported the modules and has computed nothing. So no
    thread is lost and no memory is held.

    Raises:
        CalledProcessError: If a process dies.
    """
    call = f"answer({list(cases)!r}, {rounds}, {torch.get_num_threads()})"
    done = subprocess.run(
        [sys.executable, "-c", f"from {__name__} import answer; {call}"],
        stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    answers = (line.split() for line in done.stdout.splitlines())
    return [Taken(float(seconds), int(peak)) for seconds, peak in answers]


def answer(cases: Sequence[tuple[str, int]], rounds: int, threads: int) -> None:
    """Print what each case took, a line each."""
    fork = multiprocessing.get_context("fork")
    for pattern, length in cases:
        with ProcessPoolExecutor(1, mp_context=fork) as pool:
            found = pool.submit(taken, pattern, length, rounds, threads).result()
        print(*found, flush=True)


def _grown(
    lengths: tuple[int, ...], rounds: int, say: Say
) -> tuple[dict[str, Value], Table, dict[str, dict[int, Taken]]]:
    """The powers by pattern; what was taken as a table, and by length."""
    # Of all pairs 16,384 positions would take gigabytes.
    cases = [(p, n) for p in PATTERNS for n in lengths if p != FULL or n <= 8192]
    measured: dict[str, Value] = {}
    curves: dict[str, dict[int, Taken]] = {pattern: {} for pattern in PATTERNS}
    for (pattern, n), each in zip(cases, alone(cases, rounds), strict=True):
        curves[pattern][n] = each
    rows = [["pattern", "positions", "seconds", "peak memory, MiB"]]
    for pattern in PATTERNS:
        found = curves[pattern]
        sizes = [[n] for n in found]
        [seconds] = exponents(sizes, [each.seconds for each in found.values()])
        [memory] = exponents(sizes, [max(each.bytes, 1) for each in found.values()])
        for name, power in ((TIME, seconds), (MEMORY, memory)):
            few = Unmeasured(f"{len(sizes)} lengths are too few for a power")
            measured[name.format(pattern)] = power.value if len(sizes) > 2 else few
        for n, each in found.items():
            rows.append([pattern, f"{n:,}", number(each.seconds), f"{each.bytes / 2**20:,.1f}"])
        rows.append([pattern, "power", str(seconds), str(memory)])
        say(f"{pattern}: time {seconds}, memory {memory}")
    title = "Forwards and backwards through one layer, with powers of the length and intervals"
    return measured, Table(title, rows), curves


def learn(name: str, filler: int, most: int, seed: int, say: Say) -> float:
    """The share copied across `filler` after training on it and on shorter ones."""
    with drawn_from(seed) as generator:
        model = build(COPIERS[name](filler))
        tests = [copying(filler, generator, 2) for _ in range(16)]
    for _ in updates(model, partial(mixed, filler), generator, most=most, rate=3e-3):
        pass
    # Few rows at once: attention to all pairs of many rows would take gigabytes.
    share = sum(accuracy(model, test) for test in tests) / len(tests)
    say(f"{name}: {share:.1%} copied")
    return share


def mixed(filler: int, generator: Generator) -> Batch:
    """MaskFiller of the length or of a fourth, 16th or 64th; as many tokens, within bounds."""
    shorter = filler // 4 ** int(torch.randint(4, (1,), generator=generator))
    return copying(shorter, generator, min(64, 2 * filler // shorter))


def copying(filler: int, generator: Generator, rows: int) -> Batch:
    """Indices with their letters, filler, and then questions for the letter of each index."""
    letters = torch.randint(LETTERS, (rows, INDICES), generator=generator)
    index = torch.arange(INDICES).expand(rows, INDICES)
    said = FIRST + index * LETTERS + letters
    tokens = torch.cat([said, torch.full((rows, filler), FILLER), ASKED + index], dim=1)
    labels = torch.full_like(tokens, PAD)
    labels[:, -INDICES:] = FIRST + letters
    return Batch((tokens,), labels)


def _reach(shape: Shape) -> str:
    words = {"window": "radius", "strided": "stride", "xl": "memory"}
    return f"{words[shape.kind]} {shape.reach:,}" if shape.kind in words else "all"


def draw(curves: Mapping[str, Mapping[int, Taken]], figure: Any) -> None:
    """Time and memory by length."""
    from matplotlib.ticker import LogLocator

    left, right = figure.subplots(1, 2)
    for pattern, found in curves.items():
        left.plot(list(found), [each.seconds for each in found.values()], "o-", label=pattern)
        right.plot(list(found), [max(each.bytes, 1) / 2**20 for each in found.values()], "o-")
    left.set(title="seconds")
    right.set(title="peak memory, MiB")
    lengths = sorted({n for found in curves.values() for n in found})
    for axes in (left, right):
        axes.set(xscale="log", yscale="log", xlabel="positions")
        axes.set_xticks(lengths, map(str, lengths))
        axes.set_xticks([], minor=True)
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.set_yticks([], minor=True)
        axes.grid(alpha=0.3)
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
    TIMES["long"],
)
