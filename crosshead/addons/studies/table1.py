"""Table 1: operations, sequential products and longest paths of each layer type.

Operations are the products of matrices that PyTorch's counter sees, two a multiply-add. They are
split by module, so that the attention of a layer and its projections are two terms, each with its
own powers. Everything is found on the layers as they run, with random weights and in float64: an
LSTM then consists of products that the counter sees. In float32 one kernel of a CPU may hide them.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from crosshead.addons.studies import measuring
from crosshead.addons.studies.charts import Sheet, Table, single
from crosshead.addons.studies.study import Band, Result, Study, Trial, Value
from crosshead.attention.masks import window
from crosshead.layers.layer_types import (
    Convolution,
    RecurrentLayer,
    SelfAttention,
    SeparableConvolution,
)


class LayerSize(NamedTuple):
    """Positions, width, and the reach of a layer: a kernel's size k, or a radius r."""

    n: int
    d: int
    reach: int = 1


FULL, NEAR, RECURRENT = "self-attention", "self-attention, restricted", "recurrent"
CONTIGUOUS, DILATED, SEPARABLE = (
    "convolution, contiguous", "convolution, dilated", "convolution, separable",
)  # fmt: skip


class LayerType(NamedTuple):
    """A row of Table 1: how the layer is built, and its operations.

    Each term of the operations has an expression, and its powers of n, d, and k or r.
    """

    build: Callable[[LayerSize], nn.Module]
    terms: Mapping[str, tuple[str, tuple[int, ...]]]
    reaching: bool = True
    """True if the layer has a reach."""


LAYERS = {
    FULL: LayerType(
        lambda size: SelfAttention(size.d, 1),
        {"attention": ("n^2 d", (2, 1)), "projections": ("n d^2", (1, 2))}, reaching=False,
    ),
    NEAR: LayerType(
        lambda size: SelfAttention(size.d, 1, window(size.reach).blocked(size.n)),
        {"attention": ("n d r", (1, 1, 1)), "projections": ("n d^2", (1, 2, 0))},
    ),
    RECURRENT: LayerType(
        lambda size: RecurrentLayer(size.d, nn.LSTM), {"products": ("n d^2", (1, 2))},
        reaching=False,
    ),
    CONTIGUOUS: LayerType(
        lambda size: Convolution(size.d, size.reach), {"products": ("n d^2 k", (1, 2, 1))}
    ),
    DILATED: LayerType(
        lambda size: Convolution(size.d, size.reach, dilation=2),
        {"products": ("n d^2 k", (1, 2, 1))},
    ),
    SEPARABLE: LayerType(
        lambda size: SeparableConvolution(size.d, size.reach),
        {"depthwise": ("n d k", (1, 1, 1)), "pointwise": ("n d^2", (1, 2, 0))},
    ),
}  # fmt: skip


def _steps(n: int, reach: int) -> int:
    return math.ceil(2 * (n - 1) / (reach - 1))


LONGEST: dict[str, tuple[str, Callable[[int, int], int]]] = {
    FULL: ("1", lambda n, reach: 1),
    NEAR: ("(n - 1) / r", lambda n, reach: math.ceil((n - 1) / reach)),
    CONTIGUOUS: ("2 (n - 1) / (k - 1)", _steps),
    DILATED: ("log_k n", lambda n, reach: next(i for i in range(n) if reach**i >= n)),
    SEPARABLE: ("2 (n - 1) / (k - 1)", _steps),
}
"""The longest path between two positions in whole layers, by n and k or r: the table's O with its
constants. A centred kernel reaches (k - 1) / 2 positions to each side. The path of a recurrence is
inside one layer: its products in sequence."""

POWERS = "{}, {}: furthest of the powers from {}"
CHEAPER = "operations of self-attention over those of recurrent at n = d"
STATES = "recurrent: products in sequence that a position adds"
OTHERS = "all others: products in sequence that a position adds at most"
PATHS = "{}: longest path, cases that differ from {}"


def _power_band(layer: str, term: str, in_table: str) -> Band:
    furthest, why = 0.01, "As in the table, which counts the same products."
    if term == "projections":
        why = "The table leaves them out: four matrices, d by d, at each position."
    elif layer == NEAR:
        furthest, why = 0.2, "Blocks score up to 64 keys beside those within the radius."
    return Band(POWERS.format(layer, term, in_table), 0, furthest, why)


BANDS = (
    *(
        _power_band(name, term, expression)
        for name, layer in LAYERS.items()
        for term, (expression, _) in layer.terms.items()
    ),
    Band(
        CHEAPER, 0.74, 0.76,
        "4 n^2 d, and 8 n d^2 for the projections, against 16 n d^2 for the four gates of an "
        "LSTM, which have two matrices each: 0.75.",
    ),
    Band(STATES, 1, 1, "Each state waits for the one before, so the longest path is n."),
    Band(OTHERS, 0, 0, "All positions are computed at once."),
    *(
        Band(PATHS.format(name, path), 0, 0, "Layers until the gradient is not zero.")
        for name, (path, _) in LONGEST.items()
    ),
)  # fmt: skip


def operations(name: str, layer: nn.Module, x: Tensor) -> dict[str, int]:
    """Return the floating-point operations of a layer by term, as PyTorch counts them."""
    total, by_module = measuring.operations(layer, x)
    if name in (FULL, NEAR):
        parts = ("query", "key_value", "output")
        projections = sum(by_module[f"SelfAttention.attention.{each}"] for each in parts)
        return {"attention": total - projections, "projections": projections}
    if name == SEPARABLE:
        return {
            "depthwise": measuring.operations(partial(depthwise, layer), x)[0],
            "pointwise": total,
        }
    return {"products": total}


def depthwise(layer: nn.Module, x: Tensor) -> Tensor:
    """Apply a separable layer's filters to "B T D" as one convolution, which can be counted."""
    filters = layer.get_parameter("filters")
    kernel, channels = filters.shape
    found = F.conv1d(x.transpose(1, 2), filters.T[:, None], padding=kernel // 2, groups=channels)
    return found.transpose(1, 2)


def stacked(layer: str, size: LayerSize, x: Tensor) -> Iterator[Tensor]:
    """Give the outputs of a stack after each of its layers.

    Dilations are the powers of the kernel and look back only, so that no position is read twice. A
    counted layer has dilation 2; neither difference changes its operations.
    """
    for depth in range(x.shape[1]):
        block = LAYERS[layer].build(size)
        if layer == DILATED:
            dilation = size.reach**depth
            block = Convolution(size.d, size.reach, dilation=dilation, causal=True)
        x = block.double()(x)
        yield x


def longest_path(layer: str, size: LayerSize) -> int:
    """Return the layers of a stack until its last position depends on the first."""
    x = _input(size).requires_grad_()
    return measuring.layers_until_reached(stacked(layer, size, x), x)


def sizes_of(layer: str, quick: bool) -> list[LayerSize]:
    """Return the sizes at which a layer is counted."""
    lengths, widths = (64, 128) if quick else (128, 256, 512), (8, 16) if quick else (32, 64, 128)
    reaches: Sequence[int] = (3, 5) if quick else (3, 7, 15)
    if layer == NEAR:
        lengths = (256, 512) if quick else (1024, 2048, 4096)
        reaches = (32, 64) if quick else (128, 256, 512)
    elif not LAYERS[layer].reaching:
        reaches = (1,)
    return [LayerSize(*each) for each in product(lengths, widths, reaches)]


def run(trial: Trial) -> Result:
    """Count operations and their powers, sequence and paths."""
    measured, counted, powers_table = _count(trial.quick)
    trial.say("operations counted")
    waiting, depths = _sequence(32 if trial.quick else 128)
    paths, longest = _paths((9, 16) if trial.quick else (9, 16, 27, 64, 81))
    return Result({**measured, **waiting, **paths}, [counted, longest, depths], [powers_table])


def _count(quick: bool) -> tuple[dict[str, Value], Sheet, Table]:
    """Return the quantities of operations, the operations around n = d, and their powers."""
    measured: dict[str, Value] = {}
    rows = [["layer", "term", "of n", "of d", "of k or r"]]

    def at(layer: str, size: LayerSize) -> dict[str, int]:
        return operations(layer, LAYERS[layer].build(size).double(), _input(size))

    for layer, row in LAYERS.items():
        found = {size: at(layer, size) for size in sizes_of(layer, quick)}
        for term, (in_table, expected) in row.terms.items():
            sizes = [size[: len(expected)] for size in found]
            fitted = measuring.powers(sizes, [terms[term] for terms in found.values()])
            furthest = max(abs(e.value - p) for e, p in zip(fitted, expected, strict=True))
            measured[POWERS.format(layer, term, in_table)] = furthest
            rows.append([layer, term, *map(str, fitted), *[""] * (3 - len(fitted))])
    attention, recurrent = (sum(at(name, LayerSize(64, 64)).values()) for name in (FULL, RECURRENT))
    measured[CHEAPER] = attention / recurrent
    d = 8 if quick else 64
    around = {
        _named(layer, 3): {
            n: sum(at(layer, LayerSize(n, d, 3)).values())
            for n in (d // 4, d // 2, d, 2 * d, 4 * d)
        }
        for layer in LAYERS
        if layer != NEAR  # its blocks are for long sequences
    }
    title = f"Operations at d = {d} (dotted: n = d)"
    sheet = Sheet(title, single(around), "positions n", ",.0f", log="xy", at=d)
    return measured, sheet, Table("Powers of the operations, with standard errors", rows)


def _sequence(n: int) -> tuple[dict[str, float], Sheet]:
    """Measure the growth of the longest chain per position, from `n` to `2 n` positions."""
    depths = {
        layer: {
            length: measuring.products_in_sequence(row.build(size).double()(_input(size)))
            for length in (n, 2 * n)
            for size in [LayerSize(length, 8, 5)]
        }
        for layer, row in LAYERS.items()
    }
    added = {layer: (depth[2 * n] - depth[n]) / n for layer, depth in depths.items()}
    measured = {STATES: added.pop(RECURRENT), OTHERS: max(added.values())}
    title = "Longest chain of matrix products"
    return measured, Sheet(title, single(depths), "positions n", drawn=False)


def _paths(lengths: Sequence[int]) -> tuple[dict[str, float], Sheet]:
    """Compare path lengths with the expected ones; return the mismatches, and both lengths."""
    measured: dict[str, float] = {}
    rows: dict[str, dict[int, list[float]]] = {}
    for layer, (path, longest) in LONGEST.items():
        name = PATHS.format(layer, path)
        measured[name] = 0
        for reach in (3, 5) if LAYERS[layer].reaching else (1,):
            found = {n: longest_path(layer, LayerSize(n, 4, reach)) for n in lengths}
            expected = {n: longest(n, reach) for n in lengths}
            rows[_named(layer, reach)] = {n: [found[n], expected[n]] for n in lengths}
            measured[name] += sum(found[n] != expected[n] for n in lengths)
    title = "Layers until the last position depends on the first, found and expected"
    return measured, Sheet(title, rows, "positions n", log="xy")


def _input(size: LayerSize) -> Tensor:
    return torch.randn(1, size.n, size.d, dtype=torch.float64)


def _named(layer: str, reach: int) -> str:
    return f"{layer} ({reach})" if LAYERS[layer].reaching else layer


TABLE1 = Study(
    "table1",
    "Self-attention connects all positions at once; what it costs depends on the length",
    "A self-attention layer connects all positions with a constant number of sequentially executed "
    "operations, whereas a recurrent layer requires O(n) sequential operations.",
    "Vaswani et al. 2017, section 4",
    BANDS,
    run,
    seconds=20,  # estimated: recorded with times, 70
)
