"""Maps of attention weights over pictures: one map, and sheets of them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from torch import Tensor

from crosshead.errors import DataError
from crosshead.inspection.labels import Labels
from crosshead.system.plotting import new_figure

MOST_MAPS = 400
"""The largest number of maps in a picture: 45 rows are 1.8 metres high."""

PICTURE_SIZE = 1.35
"""Inches of a picture with a map."""

_ACROSS = 9
"""The largest number of maps in a row if no picture has several heads, whose rows are whole."""


class PictureMaps(NamedTuple):
    """Maps over one picture."""

    pixels: np.ndarray
    """The picture, "H W C", `uint8`."""
    maps: Float[Tensor, "N Q R C"]
    names: Sequence[str]
    """The name of each row of maps, such as a head."""
    titles: Labels
    """The title of each column of maps, such as a word: its queries."""


def overlay(axes: Any, pixels: np.ndarray, weights: np.ndarray) -> None:
    """Draw a map over a grey picture."""
    height, width = pixels.shape[:2]
    extent = (-0.5, width - 0.5, height - 0.5, -0.5)
    # The picture has little contrast, because its bright parts would look like large weights.
    axes.imshow(pixels.mean(axis=2), cmap="gray", vmin=-150, vmax=405, extent=extent)
    most = max(float(weights.max()), 1e-9)
    style = {"cmap": "inferno", "alpha": 0.65, "interpolation": "nearest"}
    axes.imshow(weights, extent=extent, vmin=0, vmax=most, **style)


def draw_maps(pictures: Sequence[PictureMaps], title: str) -> Any:
    """Draw pictures and their maps: a row for each name, and a column for each title.

    Every picture begins a new row. A row continues below if it is long and alone.
    """
    count = sum(len(each.names) * len(each.titles.queries) for each in pictures)
    if not 0 < count <= MOST_MAPS:
        raise DataError(
            f"{count:,} maps cannot be drawn in one picture (1 to {MOST_MAPS}); choose a layer and "
            "a head, or give fewer images or words"
        )
    across = max(len(each.titles.queries) for each in pictures)
    if all(len(each.names) == 1 for each in pictures):
        across = min(across, _ACROSS)
    rows = [
        (picture, number, slice(first, first + across))
        for picture in pictures
        for number in range(len(picture.names))
        for first in range(0, len(picture.titles.queries), across)
    ]
    size = max(5.4, PICTURE_SIZE * (across + 1)), 0.9 + (PICTURE_SIZE + 0.2) * len(rows)
    figure = new_figure(layout="compressed", figsize=size)
    cells = figure.subplots(len(rows), across + 1, squeeze=False)
    for axes in cells.flat:
        axes.set_axis_off()
    for (picture, number, part), row in zip(rows, cells, strict=True):
        labels = picture.titles
        for axes, label, weights in zip(
            row[1:], labels.queries[part], picture.maps[number, part].numpy(), strict=False
        ):
            overlay(axes, picture.pixels, weights)
            name = f"{label} ({weights.max():#.2g})"
            axes.set_title(name, fontsize=8, pad=2, **labels.options)
        if part.start == 0:
            place = {"rotation": 90, "ha": "right", "va": "center", "transform": row[1].transAxes}
            row[1].text(-0.03, 0.5, picture.names[number], fontsize=8, **place)
            if number == 0:
                row[0].imshow(picture.pixels)
    scale = "In brackets the largest weight of a map, its brightest colour; dark is 0."
    figure.suptitle(f"{title}\n{scale}", fontsize=9)
    return figure
