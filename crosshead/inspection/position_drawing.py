"""Draw positional encodings: vectors of positions or distances, rotations, and biases."""

from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from crosshead.attention.positions import SinusoidalPositions
from crosshead.attention.relative import Biased, ShawKeys
from crosshead.errors import ConfigError
from crosshead.inspection.drawing import save
from crosshead.inspection.record import module_of
from crosshead.layers.embeddings import Embeddings, LearnedPositions
from crosshead.models.base import Model
from crosshead.system.plotting import drawing, new_figure
from crosshead.tasks.pipeline import Pipeline

DISTANCE = "place of the key after the query"


class _Encoding(NamedTuple):
    """Numbers to draw, the names of both axes, and the first number on each axis."""

    numbers: Float[Tensor, "R C"]
    down: str = "position"
    across: str = "dimension"
    top: int = 0
    left: int = 0


@drawing()
def draw_positions(
    positions: Pipeline | nn.Module | Float[Tensor, "T D"],
    *,
    length: int = 100,
    path: Path | str | None = None,
) -> Any:
    """Draw a positional encoding: a row for each position, and a column for each dimension.

    Of a model, the picture shows its first positions: the vectors that are added to embeddings, the
    sines and cosines that rotate queries and keys, the vectors that are added to keys by distance,
    or the bias of each head by distance.

    Args:
        positions: The pipeline that `crosshead.load` returns, a model, a module of positions, or
            vectors, "T D".
        length: The number of positions, or the largest distance. A shorter table is drawn whole.
        path: The file of the picture, with the suffix .png, .pdf or .svg; None writes none.

    Returns:
        The figure, a `matplotlib.figure.Figure`.

    Raises:
        ConfigError: If the model has no positions, or the path has another suffix.
        UserError: If matplotlib is missing or fails, or the file cannot be written.
    """
    if isinstance(positions, Tensor):
        found = _Encoding(positions)
    else:
        found = _found(module_of(positions, nn.Module), length)
    numbers = found.numbers.detach().float().cpu().numpy()
    rows, columns = numbers.shape
    left, top = found.left - 0.5, found.top - 0.5
    figure = new_figure(figsize=(7, 4.5))
    axes = figure.subplots()
    image = axes.imshow(
        numbers, cmap="RdBu_r", aspect="auto", interpolation="nearest",
        extent=(left, left + columns, top + rows, top),
        vmax=(most := max(float(abs(numbers).max()), 1e-9)), vmin=-most,
    )  # fmt: skip
    axes.set(xlabel=found.across, ylabel=found.down)
    for axis in (axes.xaxis, axes.yaxis):
        axis.get_major_locator().set_params(integer=True)
    figure.colorbar(image)
    return save(path, figure)


@torch.no_grad()
def _found(module: nn.Module, length: int) -> _Encoding:
    """Return the first positions that a module has or is."""
    for part in module.modules():
        if isinstance(part, Biased):
            device = next(iter(part.parameters()), torch.empty(0)).device
            bias = part.bias(torch.arange(length, -length - 1, -1, device=device))
            return _Encoding(bias, "head", DISTANCE, 1, -length)
        if isinstance(part, ShawKeys):
            vectors = part.vectors
            return _Encoding(vectors.table, DISTANCE, top=-vectors.furthest)
        if isinstance(part, Embeddings) and part.positions is not None:
            part = part.positions
        elif not isinstance(part, SinusoidalPositions | LearnedPositions):
            continue
        if isinstance(part, LearnedPositions):
            return _Encoding(part.table[:length])
        return _Encoding(part(0, length), across=_order(part))
    if isinstance(module, Model):
        raise ConfigError("this model has no positions that can be drawn; choose another model")
    return _Encoding(module(0, length))


def _order(positions: nn.Module) -> str:
    """Return the name of the columns of vectors."""
    halves = isinstance(positions, SinusoidalPositions) and positions.pairing == "halves"
    return "dimension (sines, then cosines)" if halves else "dimension"
