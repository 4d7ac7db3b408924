"""Cost of attention by the number of heads at one width: operations, time and memory."""

from collections.abc import Mapping
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from crosshead.attention.attend import Backend, explicit, sdpa
from crosshead.layers.layer_types import SelfAttention
from crosshead.studies.computation import costs
from crosshead.studies.effort import Effort
from crosshead.studies.study import (
    Band,
    Reported,
    Result,
    Say,
    Study,
    Table,
    Unmeasured,
    Value,
    number,
)
from crosshead.studies.times import TIMES
from crosshead.studies.turns import Ratio, in_turns, name_powers, ratio

KERNELS: dict[str, Backend] = {"explicit": explicit, "fused": sdpa}
"""The library's own kernel, which CPUs get, and PyTorch's."""

FORWARD, TRAINING = "forwards", "forwards and backwards"


class Sizes(NamedTuple):
    """The layers that are measured, and how often."""

    width: int
    heads: tuple[int, ...]
    lengths: tuple[int, ...]
    tokens: int
    rounds: int
    seconds: float


FULL = Sizes(512, (1, 2, 4, 8, 16, 32), (64, 256, 1024), 1024, 5, 0.3)
QUICK = Sizes(16, (1, 2, 4), (8, 16), 16, 2, 0.0)


class Case(NamedTuple):
    """One layer and what it is given."""

    kernel: str
    length: int
    heads: int


class Cost(NamedTuple):
    """The cost of a layer beside that of the same layer with one head."""

    milliseconds: Mapping[str, float]
    """The least of the rounds, by direction."""
    ratios: Mapping[str, Ratio]
    """Time over that of one head, by direction."""
    kept: int
    """Bytes kept for the way back, weights left out."""


Costs = Mapping[Case, Cost]

OPERATIONS = "operations of 8 heads over those of one"
SHORT = "explicit kernel, 64 positions: time of 8 heads over that of one, forwards and backwards"
LONG = "explicit kernel, 1,024 positions: time of 8 heads over that of one, forwards and backwards"
KEPT = "explicit kernel, 1,024 positions: memory kept by 8 heads over that of one"
FUSED = "fused kernel, 1,024 positions: memory kept by 8 heads over that of one"
MANY = "explicit kernel, 1,024 positions: time of 32 heads over that of one, forwards and backwards"
FUSED_TIME = "fused kernel, 1,024 positions: time of 8 heads over that of one"

BANDS = (
    Band(OPERATIONS, 1, 1, "H times n^2 d/H: the products of all heads are those of one."),
    Band(
        SHORT, 0.75, 1.33,
        "\"Similar\". At 64 positions 8 heads have as many weights, H n^2, as the layer has "
        "numbers, n d: a small part of the work. A third more or less stands for kernels that suit "
        "products of one width better than of another.",
    ),
    Band(
        LONG, 1, 2,
        "Each of H n^2 weights is read and written about ten times, at 10 GB/s: 34 ms for 8 heads "
        "and 4 for one, beside 115 ms of products at 110 GFLOP/s. That is 1.25; machines differ.",
    ),
    Band(
        KEPT, 2, 4,
        "About five tensors of n d numbers are kept, and one of H n^2: (2.5 + 8) / (2.5 + 1) = 3 "
        "at n = 2 d.",
    ),
    Band(FUSED, 0.95, 1.1, "The fused kernel keeps a number for each query and head, no weights."),
)  # fmt: skip

REPORTED = (
    Reported(MANY, "By the estimate for 8 heads 2.1, but heads of 16 numbers suit no kernel well."),
    Reported(FUSED_TIME, "PyTorch's kernel chooses its own blocks; no estimate was made."),
)


def run(effort: Effort, seed: int, say: Say) -> Result:
    """Measure layers with one head and with several in turns, by length and kernel."""
    how = QUICK if effort.quick else FULL._replace(rounds=effort.amount(2, FULL.rounds))
    found: dict[Case, Cost] = {}
    for kernel, length in product(KERNELS, how.lengths):
        layers = {heads: build(how.width, heads, kernel) for heads in how.heads}
        x = torch.randn(how.tokens // length, length, how.width, requires_grad=True)
        found |= _measured(kernel, length, layers, x, how.rounds, how.seconds * effort.share)
        many = found[Case(kernel, length, how.heads[-1])].ratios[TRAINING]
        say(f"{kernel}, {length} positions: {how.heads[-1]} heads over one {many}")
    threads = f"{torch.get_num_threads()} threads"
    title = f"Layers of width {how.width}, batches of {how.tokens:,} positions, {threads}"
    values = quantities(found, effort) | {OPERATIONS: operations(8) / operations(1)}
    return Result(values, [Table(title, as_rows(found))], partial(draw, found, how))


def build(width: int, heads: int, kernel: str) -> SelfAttention:
    """Return a self-attention layer that computes with a kernel."""
    layer = SelfAttention(width, heads)
    layer.attention.backend = KERNELS[kernel]
    return layer


def _measured(
    kernel: str,
    length: int,
    layers: Mapping[int, SelfAttention],
    x: Tensor,
    rounds: int,
    seconds: float,
) -> dict[Case, Cost]:
    """Return the cost of each layer, all of them measured in turns."""
    calls = {
        (heads, direction): partial(_compute, layer, x, direction)
        for heads, layer in layers.items()
        for direction in (FORWARD, TRAINING)
    }
    times = in_turns(calls, rounds, seconds)

    def cost(heads: int, layer: SelfAttention) -> Cost:
        both = {direction: times[heads, direction] for direction in (FORWARD, TRAINING)}
        return Cost(
            {direction: 1000 * min(each) for direction, each in both.items()},
            {name: ratio(each, times[1, name]) for name, each in both.items()},
            costs(layer, x, rounds=1).kept,
        )

    return {Case(kernel, length, heads): cost(heads, layer) for heads, layer in layers.items()}


def _compute(layer: SelfAttention, x: Tensor, direction: str) -> None:
    if direction == FORWARD:
        with torch.no_grad():
            layer(x)
        return
    layer.zero_grad()
    x.grad = None
    layer(x).sum().backward()


def operations(heads: int) -> int:
    """Return the floating-point operations of a layer, as PyTorch counts them."""
    layer, x = build(64, heads, "explicit"), torch.randn(1, 32, 64)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        layer(x)
    return int(counter.get_total_flops())


def quantities(found: Costs, effort: Effort) -> dict[str, Value]:
    """Return the quantities of time and memory, for the width and lengths of the full form."""
    if effort.quick:
        names = (SHORT, LONG, KEPT, FUSED, MANY, FUSED_TIME)
        return dict.fromkeys(names, Unmeasured(f"layers of width {QUICK.width} are too small"))

    def time(kernel: str, length: int, heads: int) -> float:
        return found[Case(kernel, length, heads)].ratios[TRAINING].median

    def kept(kernel: str) -> float:
        eight, one = (found[Case(kernel, 1024, heads)].kept for heads in (8, 1))
        return eight / one

    return {
        SHORT: time("explicit", 64, 8),
        LONG: time("explicit", 1024, 8),
        KEPT: kept("explicit"),
        FUSED: kept("fused"),
        MANY: time("explicit", 1024, 32),
        FUSED_TIME: time("fused", 1024, 8),
    }


def as_rows(found: Costs) -> list[list[str]]:
    """Return a line for each layer: times, their ratios to one head, and memory."""
    rows = [
        ["kernel", "positions", "heads"]
        + [f"{what}{direction}" for direction in (FORWARD, TRAINING) for what in ("", "over one, ")]
        + ["memory kept, MiB"]
    ]
    for case, cost in found.items():
        times = (
            shown
            for direction in (FORWARD, TRAINING)
            for shown in (
                f"{number(cost.milliseconds[direction])} ms",
                str(cost.ratios[direction]) if case.heads > 1 else "",
            )
        )
        kept = f"{cost.kept / 2**20:.2f}"
        rows.append([case.kernel, str(case.length), str(case.heads), *times, kept])
    return rows


def draw(found: Costs, how: Sizes, figure: Any) -> None:
    """Time and memory over those of one head, by heads: a line for each kernel and length."""
    left, right = figure.subplots(1, 2)
    colors = ("tab:blue", "tab:orange", "tab:green")
    for kernel, style in zip(KERNELS, ("o-", "s--"), strict=True):
        for length, color in zip(how.lengths, colors, strict=False):
            costs_of = [found[Case(kernel, length, heads)] for heads in how.heads]
            times = [cost.ratios[TRAINING] for cost in costs_of]
            label = f"{kernel}, {length}"
            middle = [each.median for each in times]
            below = [each.median - each.low for each in times]
            above = [each.high - each.median for each in times]
            options: dict[str, Any] = {"ms": 4, "lw": 1, "capsize": 2, "color": color}
            label = f"{kernel}, {length}"
            left.errorbar(how.heads, middle, [below, above], fmt=style, label=label, **options)
            memory = [cost.kept / costs_of[0].kept for cost in costs_of]
            right.plot(how.heads, memory, style, ms=4, color=color)
    left.set(title="time over that of one head", ylabel=TRAINING)
    right.set(title="memory kept over that of one head")
    for axes in (left, right):
        axes.set(xscale="log", yscale="log", xlabel=f"heads, at width {how.width}")
        axes.set_xticks(how.heads, map(str, how.heads))
        axes.set_xticks([], minor=True)
        name_powers(axes.yaxis)
        axes.grid(alpha=0.3)
    left.legend(fontsize=7, title="kernel, positions", title_fontsize=7)


HEADCOST = Study(
    "headcost",
    "Several heads cost as much as one of full width",
    "In this work we employ h = 8 parallel attention layers, or heads. For each of these we use "
    "d_k = d_v = d_model/h = 64. Due to the reduced dimension of each head, the total "
    "computational cost is similar to that of single-head attention with full dimensionality.",
    "Vaswani et al. 2017, section 3.2.2",
    BANDS,
    run,
    TIMES["headcost"],
    REPORTED,
)
