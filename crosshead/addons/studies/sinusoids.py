"""Sinusoids: PE(pos + k) is a linear map of PE(pos); for random vectors there is no such map."""

import math

import torch
from torch import Tensor

from crosshead.addons.studies.charts import Line, Panel
from crosshead.addons.studies.formats import number
from crosshead.addons.studies.study import Band, Result, Study, Table, Trial, at_any_size
from crosshead.attention.positions import shift, sinusoidal

CLOSED = "closed form: largest error"
FITTED = "least squares: largest error at other positions"
LEARNED = "least squares on a table of random vectors: error at other positions"

WAYS = {CLOSED: "closed form", FITTED: "least squares", LEARNED: "random vectors"}

BANDS = at_any_size(
    Band(
        CLOSED, 0, 1e-6,
        "sin and cos of a sum are a rotation of sin and cos: exact, apart from the rounding of "
        "float32 (6e-8 a number; a sum has three numbers).",
    ),
    Band(
        FITTED, 0, 1e-4,
        "All positions share one map, so a map fitted on even positions serves odd ones. The slow "
        "sinusoids are nearly collinear, which costs the fit some digits.",
    ),
    Band(
        LEARNED, 0.9, math.inf,
        "The error is a share of the vectors' length. Vectors drawn one by one are unrelated: at "
        "new positions no map is better than zero, whose error is 1.",
    ),
)  # fmt: skip


def fitted_errors(table: Tensor, offset: int) -> Tensor:
    """Return the residuals of the best linear map from row p to row p + offset.

    The map is fitted by least squares on every second position and measured on the remaining ones.
    """
    here, there = table[:-offset].double(), table[offset:].double()
    found: Tensor = torch.linalg.lstsq(here[::2], there[::2], driver="gelsd").solution
    return here[1::2] @ found - there[1::2]


def run(trial: Trial) -> Result:
    """Measure the error of the map by offset and width, in closed form and by least squares."""
    widths = (16, 64) if trial.quick else (32, 128, 512)
    offsets = (1, 8, 64) if trial.quick else (1, 4, 16, 64, 256)
    rows = [["d_model", "offset", "closed form", "least squares", "random vectors, relative"]]
    curves: dict[tuple[str, int], list[float]] = {}
    for d_model in widths:
        trial.say(f"d_model {d_model}")
        length = 8 * d_model + max(offsets)
        table = sinusoidal(length, d_model)
        vectors = torch.randn(length, d_model) * d_model**-0.5
        for offset in offsets:
            exact = table[:-offset].double() @ shift(offset, d_model).T - table[offset:]
            random = fitted_errors(vectors, offset).norm() / vectors[offset + 1 :: 2].norm()
            fitted = fitted_errors(table, offset).abs().max()
            errors = {CLOSED: exact.abs().max(), FITTED: fitted, LEARNED: random}
            for name, error in errors.items():
                curves.setdefault((name, d_model), []).append(float(error))
            rows.append([str(d_model), str(offset), *(number(float(e)) for e in errors.values())])
    measured = {
        name: worst(error for width in widths for error in curves[name, width])
        for name, worst in ((CLOSED, max), (FITTED, max), (LEARNED, min))
    }
    table_of_errors = Table("Errors at positions that were not fitted", rows)
    return Result(measured, [table_of_errors], [panel(curves, widths, offsets)])


def panel(
    curves: dict[tuple[str, int], list[float]], widths: tuple[int, ...], offsets: tuple[int, ...]
) -> Panel:
    """Show errors by offset: a line for the mean of all widths, in a band of their range."""
    lines = []
    for (name, way), style in zip(WAYS.items(), ("o-", "s--", "^:"), strict=True):
        errors = list(zip(*(curves[name, width] for width in widths), strict=True))
        spread = [(min(each), max(each)) for each in errors]
        lines.append(Line(offsets, [sum(e) / len(e) for e in errors], way, style, spread))
    title = f"error of the map: mean and range over d_model {', '.join(map(str, widths))}"
    return Panel(title, lines, "offset k", log="xy")


SINUSOIDS = Study(
    "sinusoids",
    "A sinusoidal position is a linear map of any other at the same offset",
    "We hypothesized it would allow the model to easily learn to attend by relative positions, "
    "since for any fixed offset k, PE_{pos+k} can be represented as a linear function of PE_{pos}.",
    "Vaswani et al. 2017, section 3.5",
    BANDS,
    run,
    seconds=6,
)
