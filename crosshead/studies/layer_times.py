"""Times of a self-attention layer and a recurrent one, for n below d and above: beside Table 1."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from crosshead.studies.charts import error_bars, name_powers
from crosshead.studies.effort import Effort
from crosshead.studies.study import Band, Table, Value, reported
from crosshead.studies.turns import TRAINING, Timed, of_layer, timed

BELOW = "measured, n < d: share of sizes at which self-attention is faster in every round"
ABOVE = "measured, n > d: share of sizes at which self-attention is faster in every round"

BANDS = (
    Band(
        BELOW, 1, 1,
        "The claim as it stands. Self-attention has at most 0.75 of the operations there and waits "
        "for no state. A trial on another machine had 16 of 16.",
    ),
    reported(
        ABOVE,
        "The claim is silent about this. From n = 2 d on self-attention has more operations, but "
        "the operations of a recurrence wait for each other.",
    ),
)  # fmt: skip

SHAPES = (
    *((n, d) for n in (64, 128, 256) for d in (512, 1024)), (64, 256), (128, 256),
    *((n, d) for n in (1024, 2048) for d in (128, 256, 512)), (512, 128), (512, 256),
)  # fmt: skip
"""Positions n and width d: eight with n < d, then eight with n > d."""

QUICK = ((4, 16), (16, 4))

Layers = Mapping[str, Callable[[tuple[int, int]], nn.Module]]
"""A self-attention layer, then a recurrent one, by name; each is built for n and d."""

LayerTimes = Mapping[tuple[int, int], list[Timed]]
"""By n and d, self-attention and recurrence, beside self-attention."""


def compare(layers: Layers, effort: Effort) -> LayerTimes:
    """Measure both layers in turns, forwards and backwards in float32, one sequence at a time."""
    rounds, seconds, baseline = effort.amount(2, 5), 0.3 * effort.share, next(iter(layers))
    found = {}
    for n, d in QUICK if effort.quick else SHAPES:
        x = torch.randn(1, n, d, requires_grad=True)
        calls = {name: of_layer(build((n, d)), x, TRAINING) for name, build in layers.items()}
        found[n, d] = list(timed(calls, lambda name: baseline, rounds, seconds).values())
    return found


def faster(found: LayerTimes) -> tuple[list[bool], list[bool]]:
    """Return whether self-attention is faster in every round, at sizes with n < d and n > d."""
    won = {(n, d): recurrent.ratio.low > 1 for (n, d), (_, recurrent) in found.items()}
    return [each for (n, d), each in won.items() if n < d], [
        e for (n, d), e in won.items() if n > d
    ]


def shares(found: LayerTimes, effort: Effort) -> dict[str, Value]:
    """Return the shares of sizes, below and above n = d, at which self-attention is faster."""
    if effort.quick:
        return dict.fromkeys((BELOW, ABOVE), "layers of the quick form are too small")
    below, above = faster(found)
    return {BELOW: sum(below) / len(below), ABOVE: sum(above) / len(above)}


def conclusion(found: LayerTimes) -> str:
    """Say in a sentence at which sizes self-attention was faster."""
    below, above = (f"{sum(side)} of {len(side)}" for side in faster(found))
    return (
        f"Measured, self-attention is faster than the LSTM in every round at {below} sizes with "
        f"n < d, and at {above} with n > d"
    )


def table(found: LayerTimes, names: Layers) -> Table:
    """Return the times at each size, beside the operations counted."""
    rows = [["n", "d", "operations", *names, "time"]]
    for (n, d), both in found.items():
        operations = 16 * n * d**2 / (8 * n * d**2 + 4 * n**2 * d)
        times = (each.shown for each in both)
        rows.append([str(n), str(d), f"{operations:.2f}", *times, str(both[1].ratio)])
    return Table(
        "Recurrent over self-attention: operations, and times forwards and backwards in float32 "
        "with their range over rounds",
        rows,
    )


def draw(found: LayerTimes, axes: Any) -> None:
    """Ratios by n over d, with their ranges."""
    ratios = [recurrent.ratio for _, recurrent in found.values()]
    error_bars(axes, [n / d for n, d in found], ratios, fmt="o", color="tab:blue")
    axes.axhline(1, color="gray", ls=":")
    axes.axvline(1, color="gray", ls=":")
    axes.set(xscale="log", yscale="log", title="time, LSTM over\nself-attention", xlabel="n / d")
    for axis in (axes.xaxis, axes.yaxis):
        name_powers(axis)
    axes.tick_params(axis="x", labelsize=7)
    axes.grid(alpha=0.3)
