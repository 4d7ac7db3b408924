"""Maps of attention weights over a picture: one map, and a grid of heads and queries."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

from crosshead.errors import DataError
from crosshead.inspection.labels import Labels
from crosshead.system.plotting import new_figure

MOST_MAPS = 400
"""The largest number of maps in a picture."""

PICTURE_SIZE = 1.35
"""Inches of a picture with a map."""

SCALE = "In brackets the largest weight of a map, its brightest colour; dark is 0."
"""The line that explains the colours. Every map has a scale of its own."""

_ACROSS = 8
"""The largest number of maps in a row of a single head."""


def overlay(axes: Any, pixels: np.ndarray, weights: np.ndarray) -> None:
    """Draw a map over a grey picture."""
    height, width = pixels.shape[:2]
    extent = (-0.5, width - 0.5, height - 0.5, -0.5)
    # The picture has little contrast, because its bright parts would look like large weights.
    axes.imshow(pixels.mean(axis=2), cmap="gray", vmin=-150, vmax=405, extent=extent)
    most = max(float(weights.max()), 1e-9)
    style = {"cmap": "inferno", "alpha": 0.65, "interpolation": "nearest"}
    axes.imshow(weights, extent=extent, vmin=0, vmax=most, **style)


def with_largest(name: str, weights: np.ndarray) -> str:
    """Return the title of a map: a name, and the largest weight in brackets."""
    return f"{name} ({weights.max():#.2g})"


def check_maps(count: int, advice: str) -> None:
    """Check that a number of maps fits into a picture."""
    if not 0 < count <= MOST_MAPS:
        raise DataError(
            f"{count:,} maps cannot be drawn in one picture (1 to {MOST_MAPS}); {advice}"
        )


def draw_maps(
    pixels: np.ndarray,
    maps: Float[Tensor, "N Q R C"],
    heads: Sequence[str],
    labels: Labels,
    title: str,
) -> Any:
    """Draw a picture and its maps: a row for each head, and a column for each query.

    The maps of a single head fill several rows if they are many.
    """
    queries = labels.queries
    check_maps(len(heads) * len(queries), "choose a layer and a head, or give fewer words")
    columns = min(len(queries), _ACROSS) if len(heads) == 1 else len(queries)
    height = -(-len(queries) // columns)  # rows of one head
    size = (
        max(5.4, PICTURE_SIZE * (columns + 1)),
        0.9 + (PICTURE_SIZE + 0.2) * height * len(heads),
    )
    figure = new_figure(layout="compressed", figsize=size)
    cells = figure.subplots(height * len(heads), columns + 1, squeeze=False)
    for each in cells.flat:
        each.set_axis_off()
    cells[0, 0].imshow(pixels)
    for row, name in enumerate(heads):
        for number, label in enumerate(queries):
            down, across = divmod(number, columns)
            axes = cells[row * height + down, 1 + across]
            weights = maps[row, number].numpy()
            overlay(axes, pixels, weights)
            axes.set_title(with_largest(label, weights), fontsize=8, pad=2, **labels.options)
        first = cells[row * height, 1]
        place = {"rotation": 90, "ha": "right", "va": "center", "transform": first.transAxes}
        first.text(-0.03, 0.5, name, fontsize=8, **place)
    figure.suptitle(f"{title}\n{SCALE}", fontsize=9)
    return figure
