"""Draw masks as text and as pictures."""

from pathlib import Path

import torch
from jaxtyping import Bool
from torch import Tensor

from crosshead.attention.masks import Mask, allowed
from crosshead.errors import DataError
from crosshead.inspection.drawing import MOST_DRAWN, save
from crosshead.system.plotting import drawing, new_figure

MAY, MAY_NOT = "■", "·"
"""The signs for allowed and masked pairs."""


def draw_mask(
    mask: Mask | Bool[Tensor, "Q K"], queries: int, keys: int, path: Path | str | None = None
) -> str:
    """Return a mask as text, for the first sentence and head: one line per query, one sign per key.

    Position 0 is the first line and the first sign. The last line explains the signs.

    Args:
        mask: The mask, or a boolean matrix, "Q K".
        queries: The number of queries.
        keys: The number of keys.
        path: A PNG, SVG or PDF file to draw the mask to; None writes none.

    Raises:
        ConfigError: If the path has another suffix.
        DataError: If a side of the picture has more than `MOST_DRAWN` positions.
        UserError: If matplotlib is missing or fails, or the file cannot be written.
        ValueError: If a matrix is not boolean or has another shape.
    """
    if isinstance(mask, Tensor):
        if mask.dtype != torch.bool or mask.shape != (queries, keys):
            shape = " x ".join(map(str, mask.shape))
            raise ValueError(
                f"expected a mask, or a matrix of {queries} x {keys} booleans, found a tensor of "
                f"{shape}, {mask.dtype}"
            )
        mask = allowed(mask)
    pairs = mask.dense(queries, keys)[0, 0].expand(queries, keys)
    if path is not None:
        _plot_mask(Path(path), pairs)
    lines = ["".join(MAY if pair else MAY_NOT for pair in row) for row in pairs.tolist()]
    legend = f"{MAY} the query (line) may attend to the key (column)  {MAY_NOT} it may not"
    return "\n".join([*lines, legend])


@drawing()
def _plot_mask(path: Path, allowed: Bool[Tensor, "Q K"]) -> None:
    """Draw a mask as coloured cells with a legend."""
    queries, keys = allowed.shape
    if max(queries, keys) > MOST_DRAWN:
        raise DataError(
            f"a mask of {queries:,} queries and {keys:,} keys is too large to draw (at most "
            f"{MOST_DRAWN} a side)"
        )
    figure = new_figure(figsize=(5.0, 5.4))
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    axes = figure.subplots()
    colours = ["#f0f0f0", "#2166ac"]
    axes.imshow(allowed.numpy(), cmap=ListedColormap(colours), vmin=0, vmax=1)
    # Lines between positions, thinner if there are more positions.
    axes.set_xticks([n + 0.5 for n in range(keys - 1)], minor=True)
    axes.set_yticks([n + 0.5 for n in range(queries - 1)], minor=True)
    axes.grid(which="minor", color="white", linewidth=min(1.5, 24 / max(queries, keys)))
    axes.tick_params(which="minor", length=0)
    axes.set_xlabel("key position")
    axes.set_ylabel("query position")
    patches = [
        Patch(facecolor=colour, edgecolor="grey", label=label)
        for colour, label in zip(colours, ("may not attend", "may attend"), strict=True)
    ]
    figure.legend(handles=patches, loc="outside lower center", ncols=2, frameon=False)
    save(path, figure)
