"""Times of a self-attention layer and a recurrent one, for n below d and above: beside Table 1."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import nn

from crosshead.studies.effort import Effort
from crosshead.studies.study import Band, Reported, Table, Unmeasured, Value, number
from crosshead.studies.turns import Ratio, in_turns, name_powers, ratio

BELOW = "measured, n < d: share of sizes at which self-attention is faster in every round"
ABOVE = "measured, n > d: share of sizes at which self-attention is faster in every round"

BANDS = (
    Band(
        BELOW, 1, 1,
        "The claim as it stands. Self-attention has at most 0.75 of the operations there and waits "
        "for no state; a trial on another machine had 16 of 16.",
    ),
)  # fmt: skip

REPORTED = (
    Reported(
        ABOVE,
        "The claim says nothing of it. From n = 2 d on self-attention has more operations, but "
        "those of a recurrence wait for each other.",
    ),
)


class Shape(NamedTuple):
    """The positions and the width of a layer."""

    n: int
    d: int


SHAPES = (
    *(Shape(n, d) for n in (64, 128, 256) for d in (512, 1024)),
    Shape(64, 256), Shape(128, 256),
    *(Shape(n, d) for n in (1024, 2048) for d in (128, 256, 512)),
    Shape(512, 128), Shape(512, 256),
)  # fmt: skip
"""Eight with n < d, then eight with n > d."""

QUICK = (Shape(4, 16), Shape(16, 4))

Layers = Mapping[str, Callable[[Shape], nn.Module]]
"""A self-attention layer, then a recurrent one, by name."""


class Compared(NamedTuple):
    """A size at which both layers were measured."""

    shape: Shape
    milliseconds: tuple[float, float]
    ratio: Ratio
    """The recurrent layer's time over that of self-attention."""


def compare(layers: Layers, effort: Effort) -> list[Compared]:
    """Measure both layers in turns, forwards and backwards in float32, one sequence at a time."""
    rounds, seconds = effort.amount(2, 5), 0.3 * effort.share
    found = []
    for shape in QUICK if effort.quick else SHAPES:
        x = torch.randn(1, shape.n, shape.d, requires_grad=True)
        calls = {name: _both_ways(build(shape), x) for name, build in layers.items()}
        attention, recurrent = in_turns(calls, rounds, seconds).values()
        least = 1000 * min(attention), 1000 * min(recurrent)
        found.append(Compared(shape, least, ratio(recurrent, attention)))
    return found


def _both_ways(layer: nn.Module, x: torch.Tensor) -> Callable[[], None]:
    def call() -> None:
        layer.zero_grad()
        x.grad = None
        layer(x).sum().backward()

    return call


def shares(found: list[Compared], effort: Effort) -> dict[str, Value]:
    """Return the shares of sizes, below and above n = d, at which self-attention is faster."""
    if effort.quick:
        return dict.fromkeys((BELOW, ABOVE), Unmeasured("layers of the quick form are too small"))
    return {
        name: sum(each.ratio.low > 1 for each in sizes) / len(sizes)
        for name, sizes in zip((BELOW, ABOVE), _sides(found), strict=True)
    }


def conclusion(found: list[Compared]) -> str:
    """Say in a sentence at which sizes self-attention was faster."""
    below, above = (
        f"{sum(each.ratio.low > 1 for each in side)} of {len(side)}" for side in _sides(found)
    )
    return (
        f"Measured, self-attention is faster than the LSTM in every round at {below} sizes with "
        f"n < d, and at {above} with n > d"
    )


def _sides(found: list[Compared]) -> tuple[list[Compared], list[Compared]]:
    below = [each for each in found if each.shape.n < each.shape.d]
    return below, [each for each in found if each.shape.n > each.shape.d]


def table(found: list[Compared], names: Layers) -> Table:
    """Return the times at each size, beside the operations counted."""
    rows = [["n", "d", "operations", *names, "time"]]
    for (n, d), times, seconds in found:
        operations = 16 * n * d**2 / (8 * n * d**2 + 4 * n**2 * d)
        shown = (f"{number(each)} ms" for each in times)
        rows.append([str(n), str(d), f"{operations:.2f}", *shown, str(seconds)])
    return Table(
        "Recurrent over self-attention: operations, and times forwards and backwards in float32 "
        "with their range over rounds",
        rows,
    )


def draw(found: list[Compared], axes: Any) -> None:
    """Ratios by n over d, with their ranges."""
    for each in found:
        low, high = each.ratio.median - each.ratio.low, each.ratio.high - each.ratio.median
        place = each.shape.n / each.shape.d
        axes.errorbar(place, each.ratio.median, [[low], [high]], fmt="o", ms=4, color="tab:blue")
    axes.axhline(1, color="gray", ls=":")
    axes.axvline(1, color="gray", ls=":")
    axes.set(xscale="log", yscale="log", title="time, LSTM over\nself-attention", xlabel="n / d")
    for axis in (axes.xaxis, axes.yaxis):
        name_powers(axis)
    axes.tick_params(axis="x", labelsize=7)
    axes.grid(alpha=0.3)
