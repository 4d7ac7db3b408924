"""Sinusoids: PE(pos + k) as a linear map of PE(pos), which a table of random vectors lacks."""

from functools import partial
from typing import Any

import torch
from torch import Tensor

from crosshead.attention.positions import shift, sinusoidal
from crosshead.studies.effort import Effort
from crosshead.studies.study import Band, Result, Say, Study, Table, number
from crosshead.studies.times import TIMES

CLOSED = "closed form: largest error"
FITTED = "least squares: largest error at other positions"
LEARNED = "least squares on a table of random vectors: error at other positions"

WAYS = {CLOSED: "closed form", FITTED: "least squares", LEARNED: "random vectors"}

BANDS = (
    Band(
        CLOSED, 0, 1e-6,
        "sin and cos of a sum are a rotation of sin and cos: exact, but for the rounding of "
        "float32 (6e-8 a number, of which a sum has three).",
    ),
    Band(
        FITTED, 0, 1e-4,
        "The map is one for all positions, so fitted on the even ones it serves the odd ones; the "
        "slow sinusoids are nearly collinear, which costs a fit some digits.",
    ),
    Band(
        LEARNED, 0.9, float("inf"),
        "As a share of the vectors' length. Vectors drawn one by one have nothing to do with each "
        "other: no map is better at new positions than zero, whose error is 1.",
    ),
)  # fmt: skip


def fitted_errors(table: Tensor, offset: int) -> Tensor:
    """Return the residuals of the best linear map from row p to row p + offset.

    The map is fitted by least squares on every second position and measured on the others.

    Args:
        table: Position vectors, "T D".
        offset: Distance between the rows, in positions.
    """
    here, there = table[:-offset].double(), table[offset:].double()
    found: Tensor = torch.linalg.lstsq(here[::2], there[::2], driver="gelsd").solution
    return here[1::2] @ found - there[1::2]


def run(effort: Effort, seed: int, say: Say) -> Result:
    """The error of the map by offset and width, in closed form and by least squares."""
    widths = (16, 64) if effort.quick else (32, 128, 512)
    offsets = (1, 8, 64) if effort.quick else (1, 4, 16, 64, 256)
    rows, worst = [], dict.fromkeys((CLOSED, FITTED), 0.0)
    least = float("inf")
    curves: dict[tuple[str, int], list[tuple[int, float]]] = {}
    for d_model in widths:
        say(f"d_model {d_model}")
        length = 8 * d_model + max(offsets)
        table = sinusoidal(length, d_model)
        vectors = torch.randn(length, d_model) * d_model**-0.5
        for offset in offsets:
            exact = table[:-offset].double() @ shift(offset, d_model).T - table[offset:]
            errors = {
                CLOSED: float(exact.abs().max()),
                FITTED: float(fitted_errors(table, offset).abs().max()),
                LEARNED: float(
                    fitted_errors(vectors, offset).norm() / vectors[offset + 1 :: 2].norm()
                ),
            }
            for name, value in errors.items():
                curves.setdefault((WAYS[name], d_model), []).append((offset, value))
            worst = {name: max(value, errors[name]) for name, value in worst.items()}
            least = min(least, errors[LEARNED])
            rows.append([str(d_model), str(offset), *map(number, errors.values())])
    heads = ["d_model", "offset", "closed form", "least squares", "random vectors, relative"]
    table_of_errors = Table("Errors at positions that were not fitted", [heads, *rows])
    return Result({**worst, LEARNED: least}, [table_of_errors], partial(draw, curves))


def draw(curves: dict[tuple[str, int], list[tuple[int, float]]], figure: Any) -> None:
    """Errors by offset, a line for each way and width."""
    axes = figure.subplots()
    colors = dict(zip(WAYS.values(), ("tab:blue", "tab:orange", "tab:green"), strict=True))
    widths = list(dict.fromkeys(width for _, width in curves))
    for (way, width), points in curves.items():
        style = ("o-", "s--", "^:")[widths.index(width)]
        offsets, errors = zip(*points, strict=True)
        axes.plot(offsets, errors, style, ms=4, color=colors[way], label=f"{way}, {width}")
    axes.set(xscale="log", yscale="log", xlabel="offset k", ylabel="error of the map")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5), title="way, d_model")


SINUSOIDS = Study(
    "sinusoids",
    "A sinusoidal position is a linear map of any other at the same offset",
    "We chose this function because we hypothesized it would allow the model to easily learn to "
    "attend by relative positions, since for any fixed offset k, PE_{pos+k} can be represented as "
    "a linear function of PE_{pos}.",
    "Vaswani et al. 2017, section 3.5",
    BANDS,
    run,
    TIMES["sinusoids"],
)
