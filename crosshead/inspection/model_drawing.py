"""Draw a Transformer as in Figure 1 of the paper, with the sizes of this model."""

from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

from crosshead.errors import ConfigError
from crosshead.inspection.drawing import save
from crosshead.inspection.record import module_of
from crosshead.models.attention_kinds import POSITIONS
from crosshead.models.base import Model
from crosshead.system.plotting import drawing, new_figure
from crosshead.tasks.pipeline import Pipeline

DRAWN = ("transformer", "language", "encoder")
"""The architectures that have a picture."""

WIDTH, LINE, GAP, ROOM = 2.4, 0.16, 0.24, 4.2
"""Inches: the width of a box, the height of a line of text, the room between two boxes, and the
width of a tower."""

EMBEDDING, ATTENTION, FEEDFORWARD, NORM, LINEAR, SOFTMAX = (
    "#fce0e1", "#ffe2bb", "#c2e8f7", "#f3f6c1", "#dcdfef", "#cbe7cf",
)  # fmt: skip
"""The colours of the boxes, as in the paper."""

TEXT = {"ha": "center", "va": "center", "fontsize": 8}


class _Tower(NamedTuple):
    """An encoder or a decoder: what it reads, its modules, and the attention of a layer by name."""

    reads: str
    embeddings: Any
    stack: Any
    attentions: list[str]


@drawing()
def draw_model(model: Pipeline | Model, *, path: Path | str | None = None) -> Any:
    """Draw a Transformer as in Figure 1 of the paper, with the sizes of this model.

    Args:
        model: The pipeline that `crosshead.load` returns, or a model. Its architecture is
            `transformer`, `language` or `encoder`.
        path: The file of the picture, with the suffix .png, .pdf or .svg; None writes none.

    Returns:
        The figure, a `matplotlib.figure.Figure`.

    Raises:
        ConfigError: If the model has another architecture, or the path another suffix.
        UserError: If matplotlib is missing or fails, or the file cannot be written.

    Reference:
        Vaswani et al. 2017, Figure 1.
    """
    whole: Any = module_of(model, Model)
    config, towers = whole.config, _towers(whole)
    figure = new_figure(layout=None)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    memory: tuple[float, float] | None = None
    for number, tower in enumerate(towers):
        memory = _draw_tower(axes, tower, config, number, memory)
    assert memory is not None
    x, y = memory
    y = _box(axes, x, y, f"Linear\n{config.d_model:,} → {whole.projection.out_features:,}", LINEAR)
    y = _box(axes, x, y, "Softmax", SOFTMAX)
    _arrow(axes, (x, y), (x, y + GAP))
    place = "masked" if config.architecture == "encoder" else "next"
    axes.text(x, y + GAP + 0.1, f"probabilities of the {place} piece", **TEXT)
    width, height = ROOM * len(towers), y + GAP + 0.9
    weights = sum(each.numel() for each in whole.parameters())
    title = [f"{config.architecture}: {config.shape()}", f"{weights:,} weights{_shared(whole)}"]
    lines = "\n".join(fill(line, int(14 * width)) for line in title)
    axes.text(width / 2, height - 0.3, lines, **TEXT)
    axes.set(xlim=(0, width), ylim=(0, height))
    figure.set_size_inches(width, height)
    return save(path, figure)


def _towers(model: Any) -> list[_Tower]:
    """Return the encoder and the decoder of a model, or its only stack."""
    name = model.config.architecture
    if name not in DRAWN:
        raise ConfigError(
            f"the architecture {name} has no picture; choose a model of the architecture "
            "transformer, language or encoder"
        )
    plain, masked = "Multi-head attention", "Masked multi-head attention"
    if name != "transformer":
        seen = plain if name == "encoder" else masked
        return [_Tower("pieces", model.embeddings, model.stack, [seen])]
    return [
        _Tower("source pieces", model.source_embeddings, model.encoder, [plain]),
        _Tower(
            "target pieces, shifted right", model.target_embeddings, model.decoder,
            [masked, "Multi-head cross-attention"],
        ),
    ]  # fmt: skip


def _shared(model: Any) -> str:
    """Return the names of the parts that share the matrix of the output projection, as a clause."""
    parts = [name for name, part in model.named_children() if hasattr(part, "weight")]
    shared = [name for name in parts if getattr(model, name).weight is model.projection.weight]
    names = ", ".join(name.replace("_", " ") for name in shared)
    return f"; one matrix for {names}" if len(shared) > 1 else ""


def _draw_tower(
    axes: Any, tower: _Tower, config: Any, number: int, memory: tuple[float, float] | None
) -> tuple[float, float]:
    """Draw a tower, and return the place where it ends. `memory` is where the encoder ends."""
    x, side = ROOM * (number + 0.5), 1 if number else -1
    axes.text(x, 0.2, tower.reads, **TEXT)
    vocabulary, width = tower.embeddings.weight.shape
    y = _box(axes, x, 0.3, f"Embedding\n{vocabulary:,} × {width:,}", EMBEDDING)
    if tower.embeddings.positions is not None:
        y = _box(axes, x, y, "+", "white", 0.26)
        axes.text(x + side, y - 0.13, f"{config.positions}\npositions", **TEXT)
        _arrow(axes, (x + side * 0.6, y - 0.13), (x + side * 0.13, y - 0.13))
    bottom = y
    heads = f"{config.heads} heads, d_k {config.key_width}, d_v {config.value_width}"
    if config.kv_heads:
        heads += f", kv_heads {config.kv_heads}"
    for name in tower.attentions:
        crossing = name.endswith("cross-attention")
        detail = heads
        if not crossing and POSITIONS[config.positions].attention:
            detail += f"\n{config.positions} positions"
        if not crossing and config.pattern != "full":
            detail += f"\npattern {config.pattern}"
        middle, y = _sublayer(axes, x, y, side, f"{name}\n{detail}", ATTENTION, config.norm)
        if crossing and memory is not None:
            (start, end), between = memory, x - ROOM / 2
            turn = end + GAP / 2
            ends = (start, end), (start, turn), (between, turn), (between, middle)
            _arrow(axes, *ends, (x - WIDTH / 2, middle))
    network = f"Feed-forward\n{width:,} → {config.d_ff:,} → {width:,}, {config.activation}"
    _, y = _sublayer(axes, x, y, side, network, FEEDFORWARD, config.norm)
    _frame(axes, x, bottom + GAP / 6, y + 0.08, side, f"{len(tower.stack.layers)} ×")
    if config.norm == "pre":
        y = _box(axes, x, y, "Norm", NORM)
    return x, y


def _sublayer(
    axes: Any, x: float, y: float, side: int, text: str, colour: str, norm: str
) -> tuple[float, float]:
    """Draw a sublayer above `y` in its residual connection; return its middle and its end."""
    branch = y + GAP / 2
    top = _box(axes, x, y, "Norm", NORM) if norm == "pre" else y
    end = _box(axes, x, top, text, colour)
    y = _box(axes, x, end, "Add" if norm == "pre" else "Add & norm", NORM)
    edge, far, height = x + side * WIDTH / 2, x + side * (WIDTH / 2 + 0.18), y - LINE / 2 - 0.05
    _arrow(axes, (x, branch), (far, branch), (far, height), (edge, height))
    return (top + GAP + end) / 2, y


def _box(axes: Any, x: float, y: float, text: str, colour: str, width: float = WIDTH) -> float:
    """Draw an arrow up from `y` into a box with a text, and return the top of the box."""
    from matplotlib.patches import FancyBboxPatch

    height = LINE * (1 + text.count("\n")) + 0.1
    style = f"round,pad=0,rounding_size={0.13 if width < 1 else 0.06}"
    axes.add_patch(
        FancyBboxPatch(
            (x - width / 2, y + GAP), width, height, boxstyle=style, facecolor=colour, linewidth=0.8
        )
    )
    axes.text(x, y + GAP + height / 2, text, **TEXT)
    _arrow(axes, (x, y), (x, y + GAP))
    return y + GAP + height


def _frame(axes: Any, x: float, bottom: float, top: float, side: int, label: str) -> None:
    """Draw the frame around a layer, with the number of layers beside it."""
    from matplotlib.patches import FancyBboxPatch

    axes.add_patch(
        FancyBboxPatch(
            (x - WIDTH / 2 - 0.28, bottom), WIDTH + 0.56, top - bottom, zorder=0,
            boxstyle="round,pad=0,rounding_size=0.15", facecolor="#f3f3f4", edgecolor="gray",
        )
    )  # fmt: skip
    axes.text(x + side * (WIDTH / 2 + 0.5), (bottom + top) / 2, label, **{**TEXT, "fontsize": 11})


def _arrow(axes: Any, *points: tuple[float, float]) -> None:
    """Draw an arrow along points."""
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path as Line

    axes.add_patch(
        FancyArrowPatch(
            path=Line(points), arrowstyle="-|>", mutation_scale=7, linewidth=0.8, color="black",
            shrinkA=0, shrinkB=0,
        )
    )  # fmt: skip
