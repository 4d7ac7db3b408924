"""Times of a self-attention layer and a recurrent one, for n below d and above: beside Table 1."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from crosshead.addons.studies.charts import error_bars, name_powers
from crosshead.addons.studies.effort import Effort
from crosshead.addons.studies.study import Band, Table, Value, reported
from crosshead.addons.studies.turns import TRAINING, Timed, of_layer, timed
from crosshead.layers.layer_types import RecurrentLayer, SelfAttention

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

NAMES = ("self-attention", "recurrent")

LayerTimes = Mapping[tuple[int, int], list[Timed]]
"""By n and d: self-attention and recurrence, over self-attention."""


def compare(effort: Effort) -> LayerTimes:
    """Measure both layers in turns, forwards and backwards in float32, one sequence at a time."""
    found = {}
    for n, d in QUICK if effort.quick else SHAPES:
        x, layers = torch.randn(1, n, d), (SelfAttention(d, 1), RecurrentLayer(d, nn.LSTM))
        calls = dict(enumerate(of_layer(layer, x, TRAINING) for layer in layers))
        times = timed(calls, lambda place: 0, effort.amount(2, 5), 0.3 * effort.share)
        found[n, d] = list(times.values())
    return found


def shares(found: LayerTimes, effort: Effort) -> tuple[dict[str, Value], str]:
    """Return the shares of sizes at which self-attention is faster, and the conclusion."""
    if effort.quick:
        return dict.fromkeys((BELOW, ABOVE), "layers of the quick form are too small"), ""
    won = {(n, d): recurrent.ratio.low > 1 for (n, d), (_, recurrent) in found.items()}
    below = [faster for (n, d), faster in won.items() if n < d]
    above = [faster for (n, d), faster in won.items() if n > d]
    return {BELOW: sum(below) / len(below), ABOVE: sum(above) / len(above)}, (
        f"Measured, self-attention is faster than the LSTM in every round at {sum(below)} of "
        f"{len(below)} sizes with n < d, and at {sum(above)} of {len(above)} with n > d"
    )


def table(found: LayerTimes) -> Table:
    """Return the times at each size, beside the operations counted."""
    rows = [["n", "d", "operations", *NAMES, "time"]]
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
    """Draw ratios by n over d, with their ranges."""
    ratios = [recurrent.ratio for _, recurrent in found.values()]
    error_bars(axes, [n / d for n, d in found], ratios, fmt="o", color="tab:blue")
    axes.axhline(1, color="gray", ls=":")
    axes.axvline(1, color="gray", ls=":")
    axes.set(xscale="log", yscale="log", title="time, LSTM over\nself-attention", xlabel="n / d")
    name_powers(axes.xaxis, axes.yaxis)
    axes.tick_params(axis="x", labelsize=7)
    axes.grid(alpha=0.3)
