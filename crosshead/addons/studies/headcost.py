"""Cost of attention by the number of heads at one width: operations, time and memory."""

from collections.abc import Mapping
from itertools import product
from typing import NamedTuple

import torch
from torch.utils.flop_counter import FlopCounterMode

from crosshead.addons.studies.charts import Line, Panel
from crosshead.addons.studies.computation import bytes_kept
from crosshead.addons.studies.study import (
    Band,
    Result,
    Study,
    Table,
    Trial,
    Value,
    at_any_size,
    reported,
)
from crosshead.addons.studies.turns import TRAINING, Timed, of_layer, timed
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
    """The time forwards and backwards over one head's, and the bytes kept for the way back."""

    time: Timed
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
    *at_any_size(Band(OPERATIONS, 1, 1, "H times n^2 d/H: all heads' products equal one's.")),
    Band(
        SHORT, 0.75, 1.33,
        "“Similar”: 8 heads have as many weights, H n^2, as the layer has numbers, n d, a small "
        "part of the work. A third covers kernels that suit some widths better than others.",
    ),
    Band(
        LONG, 1, 2,
        "Each of H n^2 weights is read and written about ten times, at 10 GB/s: 34 ms for 8 heads "
        "and 4 ms for one, beside 115 ms of products. The ratio is 1.25; machines differ.",
    ),
    Band(KEPT, 2, 4, "Five tensors of n d numbers and one of H n^2: (2.5 + 8) / (2.5 + 1) = 3."),
    Band(FUSED, 0.95, 1.1, "The fused kernel keeps a number for each query and head, no weights."),
    reported(MANY, "The estimate gives 2.1, but heads of 16 numbers suit no kernel well."),
    reported(FUSED_TIME, "PyTorch's kernel chooses its own blocks; no estimate was made."),
)  # fmt: skip


def run(trial: Trial) -> Result:
    """Measure layers with one head and with several in turns, by length and kernel."""
    how = QUICK if trial.quick else FULL._replace(rounds=trial.amount(2, FULL.rounds))
    found: dict[tuple[str, int, int], HeadCost] = {}
    for kernel, length in product(KERNELS, how.lengths):
        layers = {heads: build(how.width, heads, kernel) for heads in how.heads}
        x = torch.randn(how.tokens // length, length, how.width, requires_grad=True)
        calls = {heads: of_layer(layer, x, TRAINING) for heads, layer in layers.items()}
        times = timed(calls, lambda heads: 1, how.rounds, how.seconds * trial.effort.share)
        for heads, layer in layers.items():
            found[kernel, length, heads] = HeadCost(times[heads], bytes_kept(layer, x))
        many = times[how.heads[-1]].ratio
        trial.say(f"{kernel}, {length} positions: {how.heads[-1]} heads over one {many}")
    threads = f"{torch.get_num_threads()} threads"
    title = f"Layers of width {how.width}, {how.tokens:,} positions, {TRAINING}, {threads}"
    values = {} if trial.quick else quantities(found)
    values[OPERATIONS] = operations(8) / operations(1)
    return Result(values, [Table(title, as_rows(found))], panels(found, how))


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


def quantities(found: Costs) -> dict[str, Value]:
    """Return the quantities of time and memory, for the width and lengths of the full form."""

    def time(kernel: str, length: int, heads: int) -> float:
        return found[kernel, length, heads].time.ratio.median

    def memory(kernel: str) -> float:
        return found[kernel, 1024, 8].kept / found[kernel, 1024, 1].kept

    return {
        SHORT: time("explicit", 64, 8), LONG: time("explicit", 1024, 8),
        MANY: time("explicit", 1024, 32), FUSED_TIME: time("fused", 1024, 8),
        KEPT: memory("explicit"), FUSED: memory("fused"),
    }  # fmt: skip


def as_rows(found: Costs) -> list[list[str]]:
    """Return a line for each layer: times, their ratios to one head, and memory."""
    rows = [["kernel", "positions", "heads", "time", "over one", "memory kept, MiB"]]
    for (kernel, length, heads), (time, kept) in found.items():
        over = str(time.ratio) if heads > 1 else ""
        rows.append([kernel, str(length), str(heads), time.shown, over, f"{kept / 2**20:.2f}"])
    return rows


def panels(found: Costs, how: HeadSizes) -> list[Panel]:
    """Show time and memory relative to one head, a line for each kernel and length."""
    time, memory = [], []
    for (kernel, style), length in product(zip(KERNELS, ("o-", "s--"), strict=True), how.lengths):
        costs = [found[kernel, length, heads] for heads in how.heads]
        middle, *spread = zip(*(cost.time.ratio for cost in costs), strict=True)
        label = f"{kernel}, {length} positions"
        time.append(Line(how.heads, middle, label, style, list(zip(*spread, strict=True))))
        kept = [cost.kept / costs[0].kept for cost in costs]
        memory.append(Line(how.heads, kept, style=style))
    where = f"heads, at width {how.width}"
    return [
        Panel(f"time over that of one head, {TRAINING}", time, where, log="xy"),
        Panel("memory kept over that of one head", memory, where, log="xy"),
    ]


HEADCOST = Study(
    "headcost",
    "Several heads cost as much as one of full width",
    "Due to the reduced dimension of each head, the total computational cost is similar to that "
    "of single-head attention with full dimensionality.",
    "Vaswani et al. 2017, section 3.2.2",
    BANDS,
    run,
    seconds=125,
)
