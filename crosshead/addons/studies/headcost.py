"""Cost of attention by the number of heads at one width: operations, time and memory."""

from collections.abc import Mapping
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import torch
from torch.utils.flop_counter import FlopCounterMode

from crosshead.addons.studies.charts import COLORS, error_bars, logarithmic, name_powers
from crosshead.addons.studies.computation import bytes_kept
from crosshead.addons.studies.effort import Effort, Times
from crosshead.addons.studies.study import Band, Result, Say, Study, Table, Value, reported
from crosshead.addons.studies.turns import FORWARD, TRAINING, Timed, of_layer, timed
from crosshead.attention.attend import Backend, explicit, sdpa
from crosshead.layers.layer_types import SelfAttention

KERNELS: dict[str, Backend] = {"explicit": explicit, "fused": sdpa}
"""The library's own kernel, which CPUs get, and PyTorch's."""


class HeadSizes(NamedTuple):
    """The layers that are measured: batches of `tokens` positions, for rounds and seconds each."""

    width: int
    heads: tuple[int, ...]
    lengths: tuple[int, ...]
    tokens: int
    rounds: int
    seconds: float


FULL = HeadSizes(512, (1, 2, 4, 8, 16, 32), (64, 256, 1024), 1024, 5, 0.3)
QUICK = HeadSizes(16, (1, 2, 4), (8, 16), 16, 2, 0.0)


class HeadCost(NamedTuple):
    """Times over one head's by direction, and the bytes kept for the backward pass."""

    times: Mapping[str, Timed]
    kept: int


Costs = Mapping[tuple[str, int, int], HeadCost]
"""By kernel, length and number of heads."""

OPERATIONS = "operations of 8 heads over those of one"
SHORT = "explicit kernel, 64 positions: time of 8 heads over that of one, forwards and backwards"
LONG = "explicit kernel, 1,024 positions: time of 8 heads over that of one, forwards and backwards"
KEPT = "explicit kernel, 1,024 positions: memory kept by 8 heads over that of one"
FUSED = "fused kernel, 1,024 positions: memory kept by 8 heads over that of one"
MANY = "explicit kernel, 1,024 positions: time of 32 heads over that of one, forwards and backwards"
FUSED_TIME = "fused kernel, 1,024 positions: time of 8 heads over that of one"

BANDS = (
    Band(OPERATIONS, 1, 1, "H times n^2 d/H: the products of all heads equal those of one."),
    Band(
        SHORT, 0.75, 1.33,
        "\"Similar\". At 64 positions 8 heads have as many weights, H n^2, as the layer has "
        "numbers, n d: a small part of the work. The margin of a third covers kernels that suit "
        "products of one width better than of another.",
    ),
    Band(
        LONG, 1, 2,
        "Each of H n^2 weights is read and written about ten times, at 10 GB/s: 34 ms for 8 heads "
        "and 4 ms for one, beside 115 ms of products at 110 GFLOP/s. The ratio is 1.25; machines "
        "differ.",
    ),
    Band(
        KEPT, 2, 4,
        "About five tensors of n d numbers are kept, and one of H n^2: (2.5 + 8) / (2.5 + 1) = 3 "
        "at n = 2 d.",
    ),
    Band(FUSED, 0.95, 1.1, "The fused kernel keeps a number for each query and head, no weights."),
    reported(
        MANY, "The same estimate gives 2.1 here, but heads of 16 numbers suit no kernel well."
    ),
    reported(FUSED_TIME, "PyTorch's kernel chooses its own blocks; no estimate was made."),
)  # fmt: skip


def run(effort: Effort, seed: int, say: Say) -> Result:
    """Measure layers with one head and with several in turns, by length and kernel."""
    how = QUICK if effort.quick else FULL._replace(rounds=effort.amount(2, FULL.rounds))
    found: dict[tuple[str, int, int], HeadCost] = {}
    for kernel, length in product(KERNELS, how.lengths):
        layers = {heads: build(how.width, heads, kernel) for heads in how.heads}
        x = torch.randn(how.tokens // length, length, how.width, requires_grad=True)
        calls = {
            (heads, direction): of_layer(layer, x, direction)
            for heads, layer in layers.items()
            for direction in (FORWARD, TRAINING)
        }
        times = timed(calls, lambda case: (1, case[1]), how.rounds, how.seconds * effort.share)
        for heads, layer in layers.items():
            both = {direction: times[heads, direction] for direction in (FORWARD, TRAINING)}
            found[kernel, length, heads] = HeadCost(both, bytes_kept(layer, x))
        many = both[TRAINING].ratio
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


def operations(heads: int) -> int:
    """Return the floating-point operations of a layer, as PyTorch counts them."""
    layer, x = build(64, heads, "explicit"), torch.randn(1, 32, 64)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        layer(x)
    return int(counter.get_total_flops())


def quantities(found: Costs, effort: Effort) -> dict[str, Value]:
    """Return the quantities of time and memory, for the width and lengths of the full form."""
    measured: dict[str, Value] = {}
    for name, kernel, length, heads in (
        (SHORT, "explicit", 64, 8), (LONG, "explicit", 1024, 8), (MANY, "explicit", 1024, 32),
        (FUSED_TIME, "fused", 1024, 8), (KEPT, "explicit", 1024, 8), (FUSED, "fused", 1024, 8),
    ):  # fmt: skip
        if effort.quick:
            measured[name] = f"layers of width {QUICK.width} are too small"
        elif name in (KEPT, FUSED):
            measured[name] = found[kernel, length, heads].kept / found[kernel, length, 1].kept
        else:
            measured[name] = found[kernel, length, heads].times[TRAINING].ratio.median
    return measured


def as_rows(found: Costs) -> list[list[str]]:
    """Return a line for each layer: times, their ratios to one head, and memory."""
    both = [
        f"{prefix}{direction}" for direction in (FORWARD, TRAINING) for prefix in ("", "over one, ")
    ]
    rows = [["kernel", "positions", "heads", *both, "memory kept, MiB"]]
    for (kernel, length, heads), cost in found.items():
        times = []
        for direction in (FORWARD, TRAINING):
            each = cost.times[direction]
            times += [each.shown, str(each.ratio) if heads > 1 else ""]
        rows.append([kernel, str(length), str(heads), *times, f"{cost.kept / 2**20:.2f}"])
    return rows


def draw(found: Costs, how: HeadSizes, figure: Any) -> None:
    """Draw time and memory relative to one head, a line for each kernel and length."""
    left, right = figure.subplots(1, 2)
    for kernel, style in zip(KERNELS, ("o-", "s--"), strict=True):
        for length, color in zip(how.lengths, COLORS, strict=False):
            costs = [found[kernel, length, heads] for heads in how.heads]
            ratios = [cost.times[TRAINING].ratio for cost in costs]
            options = {"fmt": style, "label": f"{kernel}, {length}", "color": color}
            error_bars(left, how.heads, ratios, lw=1, capsize=2, **options)
            memory = [cost.kept / costs[0].kept for cost in costs]
            right.plot(how.heads, memory, style, ms=4, color=color)
    for axes, title in (
        (left, "time over that of one head"),
        (right, "memory kept over that of one head"),
    ):
        logarithmic(axes, how.heads, xlabel=f"heads, at width {how.width}", title=title)
        name_powers(axes.yaxis)
    left.set_ylabel(TRAINING)
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
    Times(quick=1, full=125),
)
