"""A look inside attention: who may look at whom, and how much a model does."""

import contextlib
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from crosshead.attention.attend import Attention, explicit
from crosshead.attention.masks import Mask, allowed
from crosshead.data.batching import collate
from crosshead.errors import ConfigError, DataError, UserError
from crosshead.files import atomic_write
from crosshead.filler import Filler
from crosshead.pictures import drawing, new_figure, rendered
from crosshead.pipelines import Translator
from crosshead.vocabulary import EOS
from crosshead.writer import Writer

MOST_DRAWN = 500
"""Pieces on an axis: each takes a third of an inch, and a picture has its bounds."""

_BYTE = re.compile("<0x([0-9A-F]{2})>")


@dataclass(frozen=True)
class CrossAttention:
    """How much each target piece looks at each source piece, in every layer and head.

    Row t of a head's weights belongs to the position that predicts `target[t]`; each row sums to 1,
    but for a recurrent model's local attention, whose Gaussian leaves less (`LocalWindow`). The
    last piece of both sides is the end of the sentence.
    """

    source: list[str]
    target: list[str]
    weights: Float[Tensor, "L H T S"]


@contextlib.contextmanager
def record_attention(model: nn.Module) -> Iterator[dict[str, list[Tensor]]]:
    """Record the attention weights of every call inside the block, by the name of the module.

    Gives a dictionary that fills up as the model is called: one tensor `B H Q K` a call. (In beam
    search the rows of a sentence query its memory together: `Q` then counts rows.) Meanwhile
    every attention is computed by the explicit backend, the one that has weights to show; after
    the block the modules are as before.
    """
    recorded: dict[str, list[Tensor]] = {}
    before = [
        (name, module, module.observe, module.backend)
        for name, module in model.named_modules()
        if isinstance(module, Attention)
    ]
    try:
        for name, module, _, _ in before:
            recorded[name] = []
            module.observe = _keeper(recorded[name])
            module.backend = explicit
        yield recorded
    finally:
        for _, module, observe, backend in before:
            module.observe, module.backend = observe, backend


def cross_attention(
    translator: Translator | Writer | Filler, source: str, target: str | None = None
) -> CrossAttention:
    """The cross-attention of a translation: of `target`, or of the model's own where none is given.

    The target is fed as a whole, as in training; decoding step by step gives the same weights. The
    model sees no white space around the two lines, as in translation. Raises `UserError` for a
    model without a source, or without attention to it, and what `Translator.examples` raises.
    """
    if not isinstance(translator, Translator):
        raise UserError(
            f"this model {translator.does}: it has no source to attend to; `record_attention` "
            "records the attention weights of any model"
        )
    bundle = translator.bundle
    if target is None:
        target = translator.translate([source])[0][0].text
    examples = translator.examples([source], [target])
    [(source_ids, target_ids)] = examples
    batch = collate(examples, [0], bundle.config.model.start_token)
    batch = batch.to(translator.device)
    with torch.inference_mode(), record_attention(bundle.model) as recorded:
        bundle.model.features(batch.source, batch.target_input)
    layers = [
        torch.cat(calls, dim=2)[0]  # a decoder that goes step by step looks as often
        for name, calls in recorded.items()
        if name.endswith("cross_attention")
    ]
    if not layers:
        raise UserError("this model has no attention to its source: there is none to show")
    return CrossAttention(
        source=bundle.source_tokenizer.pieces([*source_ids, EOS]),
        target=bundle.target_tokenizer.pieces([*target_ids, EOS]),
        weights=torch.stack(layers).cpu(),
    )


@drawing()
def plot_cross_attention(path: Path | str, attention: CrossAttention, layer: int = -1) -> None:
    """Draw one layer's cross-attention, the mean over its heads, as a heat map (PNG, SVG or PDF).

    Source pieces stand on the horizontal axis, target pieces on the vertical; U+2423 is a piece's
    space, and a character that is spelled in bytes stands at the last of them. `layer` counts as a
    list does: -1 is the last. Raises `UserError` where matplotlib is missing or fails or the file
    cannot be written, `ConfigError` for a layer or a kind of file that there is not, and
    `DataError` where a side has more than `MOST_DRAWN` pieces.
    """
    path = Path(path)
    layers = attention.weights.shape[0]
    if not -layers <= layer < layers:
        raise ConfigError(f"layer {layer}: the decoder has layers 0 to {layers - 1}")
    _check_kind(path)
    weights = attention.weights[layer].mean(0)
    rows, columns = weights.shape
    if max(rows, columns) > MOST_DRAWN:
        raise DataError(
            f"{rows:,} target and {columns:,} source pieces are too many to draw (at most "
            f"{MOST_DRAWN} a side); draw a sentence at a time"
        )
    size = (max(4.0, 2.2 + 0.32 * columns), max(3.0, 1.6 + 0.32 * rows))
    figure = new_figure(figsize=size)
    axes = figure.subplots()
    image = axes.imshow(weights.numpy(), cmap="Blues", vmin=0, vmax=1)
    # A piece with two dollar signs is no formula.
    axes.set_xticks(
        range(columns), _visible(attention.source), rotation=60, ha="right", rotation_mode="anchor",
        parse_math=False,
    )  # fmt: skip
    axes.set_yticks(range(rows), _visible(attention.target), parse_math=False)
    axes.set_xlabel("source")
    axes.set_ylabel("target")
    axes.set_title(f"Cross-attention, layer {layer % layers + 1} of {layers}, mean over heads")
    figure.colorbar(image, ax=axes, label="weight", shrink=0.8)
    _save(path, figure)


MAY, MAY_NOT = "■", "·"
"""A pair of a drawn mask."""


def draw_mask(
    mask: Mask | Bool[Tensor, "Q K"], queries: int, keys: int, path: Path | str | None = None
) -> str:
    """Who may attend to whom, in the first sentence and head: a line a query, a character a key.

    Position 0 is the first line, and the first character; the last line says what they mean. With
    a `path` (PNG, SVG or PDF) it is drawn as a picture too. Raises what `plot_cross_attention`
    raises, for sides of more than `MOST_DRAWN` positions as for more pieces, and `ValueError` for a
    matrix that is not one of booleans of these sides.
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
    """The squares of a mask, and what their colours mean."""
    _check_kind(path)
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
    # Lines between positions, as fine as there are many.
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
    _save(path, figure)


def _check_kind(path: Path) -> None:
    """Raise `ConfigError` for a kind of picture that there is not."""
    if path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise ConfigError(f"{path}: expected a picture's name to end in .png, .svg or .pdf")


def _save(path: Path, figure: Any) -> None:
    """Write a figure to a file of the kind that its name says."""
    with warnings.catch_warnings():
        # The font lacks some scripts, and draws a box for what it lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        picture = rendered(figure, path.suffix.lower().removeprefix("."), dpi=150)
    atomic_write(path, picture)


def _visible(pieces: list[str]) -> list[str]:
    """The pieces with their spaces to be seen: of characters and words, a space is a piece.

    Where pieces are the bytes of a character that can be printed, it stands in place of the last.
    """
    labels = list(pieces)
    for first in range(len(pieces)):
        for last in range(first, min(first + 4, len(pieces))):
            character = _character(pieces[first : last + 1])
            if character is not None:
                labels[last] = character
    return [label.replace(" ", "␣") for label in labels]


def _character(pieces: list[str]) -> str | None:
    """The character, if it can be printed, that pieces spell in bytes of UTF-8."""
    spelled = [_BYTE.fullmatch(piece) for piece in pieces]
    try:
        text = bytes(int(byte[1], 16) for byte in spelled if byte).decode()
    except UnicodeDecodeError:
        return None
    return text if all(spelled) and len(text) == 1 and text.isprintable() else None


def _keeper(calls: list[Tensor]) -> Callable[[Tensor], None]:
    return lambda weights: calls.append(weights.detach())
