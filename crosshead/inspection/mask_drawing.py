"""Draw masks as text and as pictures."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor

from crosshead.attention.masks import Mask, allowed
from crosshead.errors import DataError
from crosshead.inspection.drawing import MOST_DRAWN, UNSEEN, save
from crosshead.inspection.labels import labels_of
from crosshead.system.plotting import drawing, new_figure

MAY, MAY_NOT = "■", "·"
"""The signs for allowed and masked pairs."""


def draw_mask(
    mask: Mask | Bool[Tensor, "Q K"],
    queries: int | Sequence[str],
    keys: int | Sequence[str],
    path: Path | str | None = None,
) -> str:
    """Return a mask as text, for the first sentence and head: one line per query, one sign per key.

    Position 0 is the first line and the first sign. The last line explains the signs.

    Args:
        mask: The mask, or a boolean matrix, "Q K".
        queries: The number of queries, or their pieces, which name them in the picture.
        keys: The number of keys, or their pieces.
        path: A PNG, SVG or PDF file to draw the mask to; None writes none.

    Raises:
        ConfigError: If the path has another suffix.
        DataError: If a side of the picture has more than `MOST_DRAWN` positions.
        UserError: If matplotlib is missing or fails, or the file cannot be written.
        ValueError: If a matrix is not boolean or has another shape.
    """
    count = tuple(each if isinstance(each, int) else len(each) for each in (queries, keys))
    if isinstance(mask, Tensor):
        if mask.dtype != torch.bool or mask.shape != count:
            shape = " x ".join(map(str, mask.shape))
            raise ValueError(
                f"expected a mask, or a matrix of {count[0]} x {count[1]} booleans, found a tensor "
                f"of {shape}, {mask.dtype}"
            )
        mask = allowed(mask)
    pairs = mask.dense(*count)[0, 0].expand(count)
    if path is not None:
        _plot_mask(Path(path), pairs, queries, keys)
    lines = ["".join(MAY if pair else MAY_NOT for pair in row) for row in pairs.tolist()]
    legend = f"{MAY} the query (line) may attend to the key (column)  {MAY_NOT} it may not"
    return "\n".join([*lines, legend])


@drawing()
def _plot_mask(
    path: Path,
    allowed: Bool[Tensor, "Q K"],
    queries: int | Sequence[str],
    keys: int | Sequence[str],
) -> None:
    """Draw a mask as coloured cells with a legend."""
    count = allowed.shape
    if max(count) > MOST_DRAWN:
        raise DataError(
            f"a mask of {count[0]:,} queries and {count[1]:,} keys is too large to draw (at most "
            f"{MOST_DRAWN} a side)"
        )
    figure = new_figure(figsize=(5.0, 5.4))
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    axes = figure.subplots()
    colours = [UNSEEN, "#2166ac"]
    axes.imshow(allowed.numpy(), cmap=ListedColormap(colours), vmin=0, vmax=1)
    # Lines between positions, thinner if there are more positions.
    axes.set_xticks([n + 0.5 for n in range(count[1] - 1)], minor=True)
    axes.set_yticks([n + 0.5 for n in range(count[0] - 1)], minor=True)
    axes.grid(which="minor", color="white", linewidth=min(1.5, 24 / max(count)))
    axes.tick_params(which="minor", length=0)
    labels = labels_of(*([] if isinstance(each, int) else each for each in (queries, keys)))
    _name_axis(axes.xaxis, labels.keys, labels.options, "key", rotation=90)
    _name_axis(axes.yaxis, labels.queries, labels.options, "query")
    patches = [
        Patch(facecolor=colour, edgecolor="grey", label=label)
        for colour, label in zip(colours, ("may not attend", "may attend"), strict=True)
    ]
    figure.legend(handles=patches, loc="outside lower center", ncols=2, frameon=False)
    save(path, figure)


def _name_axis(
    axis: Any, pieces: list[str], options: dict[str, object], noun: str, **more: object
) -> None:
    """Name the positions of an axis by their pieces, or count them from 0."""
    if pieces:
        axis.set_ticks(range(len(pieces)), pieces, **options, **more)
    else:
        axis.get_major_locator().set_params(integer=True)
    axis.set_label_text(noun if pieces else f"{noun} position")
