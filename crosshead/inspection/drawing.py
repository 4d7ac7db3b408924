"""Draw attention weights: a grid of all heads, one large head, or maps over a picture."""

import itertools
import math
from functools import singledispatch
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch

from crosshead.errors import ConfigError, DataError
from crosshead.inspection.labels import Labels, labels_of
from crosshead.inspection.picture_maps import PictureMaps, draw_maps
from crosshead.inspection.record import NAMES, AttentionWeights, attention_weights, numbered
from crosshead.inspection.saved_page import page_of
from crosshead.system.files import atomic_write
from crosshead.system.plotting import drawing, new_figure, rendered
from crosshead.tasks.pipeline import Pipeline

MOST_DRAWN = 500
"""The largest number of pieces or positions on an axis, because the size of a picture is
limited."""

LARGE, WRITTEN, SMALL = 0.38, 0.3, 0.11
"""Inches per piece: the largest size, the smallest size with values, and the smallest with a
readable label."""

WIDE_PICTURE, LARGEST_GRID = 13.0, 30.0
"""The usual size of the heat maps in inches, and the largest size of a grid. In a larger grid the
pieces are counted instead of named."""

COUNTED = (
    "Too many pieces to name in a grid, so the axes count them.\n"
    "Draw one layer and one head to see the pieces."
)

PAGE = ".html"
"""The suffix of a page."""

TAUGHT = "\n(taught by a word aligner)"
"""The mark of the head that guided alignment has trained."""

UNSEEN = "#e6e6e6"
"""The colour of weights that are exactly zero, as behind a mask."""

Scale = Literal["one", "max", "row"]
"""The weight with the darkest colour: 1, the largest of a map, or the largest of each row."""

LEGENDS: dict[Scale, str] = {
    "one": "weight (grey: 0)",
    "max": "weight over the largest of its map (grey: 0)",
    "row": "weight over the largest of its row (grey: 0)",
}
"""The label of the colour bar by the scale."""


@drawing()
def draw_attention(
    found: AttentionWeights,
    *,
    layer: int | None = None,
    head: int | None = None,
    path: Path | str | None = None,
    scale: Scale = "one",
) -> Any:
    """Draw attention weights as heat maps: all heads of all layers, or selected ones.

    Queries are on the vertical axis and keys on the horizontal axis. A single head is drawn large,
    with its values in the cells if they fit; values below 0.005 stay empty. A space in a piece is
    shown as U+2423. If a grid is too large for labels, its pieces are counted, and the picture says
    so.

    If the keys are the patches of an image, the picture shows the image instead, with a map over it
    for each head and query. If the queries are patches, too, the map of a head is their mean.

    Args:
        found: The result of `attention_weights`.
        layer: The layer, counted from 1. By default all layers.
        head: The head, counted from 1. By default all heads.
        path: The file of the picture, with the suffix .png, .pdf or .svg; None writes none.
        scale: What has the darkest colour: "one", the weight 1; "max", the largest weight of a map;
            or "row", the largest weight of each row. Long texts have small weights. It does not
            count for maps over an image, which have the scale "max".

    Returns:
        The figure, a `matplotlib.figure.Figure`.

    Raises:
        ConfigError: If there is no such layer or head, or the path has another suffix.
        DataError: If a side has more than `MOST_DRAWN` pieces, or there are too many maps.
        UserError: If matplotlib is missing or fails, or the file cannot be written.
    """
    layers, heads = found.weights.shape[:2]
    chosen = list(
        itertools.product(
            numbered("layer", layer, layers, found.kind), numbered("head", head, heads, found.kind)
        )
    )
    if found.pixels is None:
        figure = _draw_maps(found, chosen, scale)
    else:
        figure = _draw_over_image(found, found.pixels, chosen)
    return save(path, figure)


@singledispatch
def draw_attention_of(
    pipeline: Pipeline,
    text: str,
    path: Path,
    *,
    target: str | None,
    kind: str | None,
    layer: int | None,
    head: int | None,
    scale: Scale = "one",
) -> str:
    """Draw the attention of a pipeline on a text, and return the name of what is drawn.

    Pipelines whose attention has another picture register a function of their own.
    """
    found = attention_weights(pipeline, text, target=target, kind=kind)
    if path.suffix.lower() == PAGE:
        if layer is not None or head is not None or scale != "one":
            raise ConfigError(f"{path}: a page shows every head; leave layer, head and scale out")
        atomic_write(path, page_of(found).encode())
        return NAMES[found.kind]
    draw_attention(found, layer=layer, head=head, path=path, scale=scale)
    return NAMES[found.kind]


def check_picture(path: Path, *others: str) -> None:
    """Raise `ConfigError` if the suffix of `path` is no picture format, and none of the others."""
    suffixes = (".png", ".svg", ".pdf", *others)
    if path.suffix.lower() not in suffixes:
        listed = f"{', '.join(suffixes[:-1])} or {suffixes[-1]}"
        raise ConfigError(f"{path}: expected the name of a picture to end in {listed}")


def save(path: Path | str | None, figure: Any) -> Any:
    """Return a figure, after writing it to a file in the format of its suffix if there is one."""
    if path is not None:
        place = Path(path)
        check_picture(place)
        atomic_write(place, rendered(figure, place.suffix.lower().removeprefix("."), dpi=150))
    return figure


def _draw_over_image(
    found: AttentionWeights, pixels: np.ndarray, chosen: list[tuple[int, int]]
) -> Any:
    """Draw the weights of the patches of an image over it, for each head and query."""
    weights = torch.stack([found.weights[layer - 1, head - 1] for layer, head in chosen])
    queries = found.queries
    if queries == found.keys:
        weights, queries = weights.mean(dim=1, keepdim=True), ["mean of all patches"]
    rows = math.isqrt(len(found.keys))
    maps = weights.unflatten(-1, (rows, rows))
    names = [f"layer {layer}, head {head}" for layer, head in chosen]
    picture = PictureMaps(pixels, maps, names, labels_of(queries, []))
    return draw_maps([picture], NAMES[found.kind].capitalize())


class _Grid(NamedTuple):
    """The layout of a grid of cells of equal size, in inches."""

    rows: int
    columns: int
    inches: float
    """The size of a cell of one piece."""
    width: float
    height: float
    named: bool
    """True if labels fit beside the cells."""


def _measured(found: AttentionWeights, chosen: list[tuple[int, int]]) -> _Grid:
    """Lay out a grid with a row for each layer, or for four cells if layers have one head."""
    queries, keys = found.weights.shape[2:]
    heads = len({head for _, head in chosen})
    columns = heads if 1 < heads < len(chosen) else min(len(chosen), 4)
    rows = -(-len(chosen) // columns)
    most = max(columns * keys, rows * queries)
    named = len(chosen) == 1 or most * SMALL <= LARGEST_GRID
    room = min(WIDE_PICTURE / most, LARGE)
    inches = max(room, SMALL) if named else room
    width, height = max(keys * inches, 1.2), max(queries * inches, 0.5 if heads > 1 else 1.2)
    return _Grid(rows, columns, inches, width, height, named)


def _draw_maps(found: AttentionWeights, chosen: list[tuple[int, int]], scale: Scale) -> Any:
    """Draw a grid of heads, with labels on the outer axes, or one head with its values."""
    for side, pieces in (("queries", found.queries), ("keys", found.keys)):
        if len(pieces) > MOST_DRAWN:
            raise DataError(
                f"{len(pieces):,} {side} are too many to draw (at most {MOST_DRAWN} a side); "
                "shorten the text"
            )
    layers, heads, queries, keys = found.weights.shape
    grid, labels = _measured(found, chosen), labels_of(found.queries, found.keys)
    size = min(10.0, grid.inches * 72 * 0.75) if grid.named else 7.0
    width = grid.columns * (grid.width + 0.1)
    height = grid.rows * (grid.height + 0.3)
    figure = _figure(labels, size, width, height)
    cells = figure.subplots(grid.rows, grid.columns, squeeze=False).flatten().tolist()
    aspect = (grid.height / queries) / (grid.width / keys)
    kind = title = NAMES[found.kind].capitalize()
    for place, ((layer, head), axes) in enumerate(zip(chosen, cells, strict=False)):
        weights = found.weights[layer - 1, head - 1].numpy()
        image = _heat_map(axes, weights, scale, aspect)
        left, below = place % grid.columns == 0, place + grid.columns >= len(chosen)
        if grid.named:
            _name_pieces(axes, labels, size)
        else:
            _count_pieces(axes, size)
        axes.tick_params(length=1.5, pad=1.5, left=left, labelleft=left)
        axes.tick_params(bottom=below, labelbottom=below)
        is_taught = found.supervised is not None and found.supervised[1:] == (layer, head)
        if len(chosen) > 1:
            name = f"layer {layer}" if heads == 1 else f"layer {layer}, head {head}"
            axes.set_title(name + TAUGHT * is_taught, fontsize=8, pad=3)
            continue
        title = f"{kind}, layer {layer} of {layers}"
        title += f", head {head} of {heads}" if heads > 1 else ""
        title += TAUGHT * is_taught
        if grid.inches >= WRITTEN:
            _write_values(axes, weights.tolist())
    for axes in cells[len(chosen) :]:
        axes.remove()
    vertical, horizontal = _axis_names(found, labels.note if grid.named else COUNTED)
    figure.suptitle(title)
    figure.supylabel(vertical, fontsize=10)
    figure.supxlabel(horizontal, fontsize=10)
    _add_colour_bar(figure, image, height, LEGENDS[scale])
    return figure


def _figure(labels: Labels, size: float, width: float, height: float) -> Any:
    """Return a figure with room for heat maps, their labels and a colour bar.

    `size` is the font size of the labels; `width` and `height` are inches of the heat maps.
    """
    left, below = (max(map(len, side)) * size / 72 * 0.65 for side in labels[:2])
    # The title needs some width.
    return new_figure(
        layout="compressed", figsize=(max(5.4, width + left + 1.4), height + below + 1.0)
    )


def _heat_map(axes: Any, weights: np.ndarray, scale: Scale, aspect: float) -> Any:
    """Draw the heat map of one head and return it."""
    axes.set_facecolor(UNSEEN)
    largest = weights.max(1 if scale == "row" else None, keepdims=True)
    seen = np.ma.masked_equal(weights / (1 if scale == "one" else np.maximum(largest, 1e-30)), 0)
    return axes.imshow(seen, cmap="Blues", vmin=0, vmax=1, interpolation="nearest", aspect=aspect)


def _axis_names(found: AttentionWeights, note: str) -> tuple[str, str]:
    """Return the names of the vertical and the horizontal axis, with a note below."""
    if found.kind == "cross":
        return "target piece (predicted)", f"source piece (attended to)\n{note}".rstrip()
    return "piece that attends", f"piece attended to\n{note}".rstrip()


def _add_colour_bar(figure: Any, image: Any, height: float, legend: str) -> None:
    """Add a colour bar for heat maps with a total height in inches."""
    figure.colorbar(
        image, ax=figure.axes, label=legend, pad=0.02, shrink=min(1, 6 / height),
        aspect=max(10, min(6, height) * 4), fraction=0.25 / figure.get_figwidth(),
    )  # fmt: skip


def _name_pieces(axes: Any, labels: Labels, size: float) -> None:
    """Label the pieces on both axes."""
    options = {"fontsize": size, **labels.options}
    axes.set_yticks(range(len(labels.queries)), labels.queries, **options)
    axes.set_xticks(range(len(labels.keys)), labels.keys, rotation=90, **options)


def _count_pieces(axes: Any, size: float) -> None:
    """Show the numbers of the pieces on both axes."""
    from matplotlib.ticker import MaxNLocator

    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(nbins=5, integer=True))
        axis.set_major_formatter(lambda place, _: f"{place + 1:.0f}")
    axes.tick_params(labelsize=size)


def _write_values(axes: Any, weights: list[list[float]]) -> None:
    """Write each weight into its cell, unless it rounds to zero."""
    for row, values in enumerate(weights):
        for column, value in enumerate(values):
            if value >= 0.005:
                colour = "white" if value > 0.6 else "black"
                axes.text(
                    column, row, f"{value:.2f}", ha="center", va="center", fontsize=7, color=colour
                )
