"""The causal mask, by the example "attention is cool": no weight on the future, and no gradient."""

import math
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crosshead.addons.studies.effort import Effort, Times
from crosshead.addons.studies.fitting import Stack
from crosshead.addons.studies.study import Band, Result, Say, Study, Table
from crosshead.attention.attend import attend
from crosshead.attention.masks import causal

WORDS = ("attention", "is", "cool")

FIRST_ROW = "first row: largest distance from 1, 0, 0"
ROWS = "rows: largest distance of a sum from 1"
FUTURE = "largest weight on a later token"
LEAK = "largest gradient of an output to a later token"
HEARD = "smallest gradient of an output to itself or an earlier token"

BANDS = (
    Band(FIRST_ROW, 0, 0, "It may attend to itself only, and a softmax over one key is 1."),
    Band(ROWS, 0, 1e-6, "A softmax sums to 1, apart from the rounding of float32."),
    Band(FUTURE, 0, 0, "The exponential of minus infinity is 0, exactly."),
    Band(LEAK, 0, 0, "A token without weight in any layer has no part in the output, exactly."),
    Band(
        HEARD, 1e-4, math.inf,
        "The mask hides nothing else: these tokens have a part in the output, and it is more than "
        "rounding. Gradients are of order 1, and float32 rounds them at 1e-7: a thousand times "
        "that.",
    ),
)  # fmt: skip


def run(effort: Effort, seed: int, say: Say) -> Result:
    """Measure attention weights without parameters, and gradients through a stack of layers."""
    width, layers = (16, 2) if effort.quick else (64, 6)
    # The words are narrow: wide ones attend to little but themselves.
    words = torch.randn(1, 1, len(WORDS), 4)
    seen: list[Tensor] = []
    mask = causal.dense(len(WORDS), len(WORDS))
    attend(words, words, words, mask=mask, observe=seen.append)
    weights = seen[0][0, 0]

    say(f"gradients through {layers} layers of width {width}")
    stack = Stack(layers, width, 4, 4 * width, causal)
    norms = gradient_norms(stack, torch.randn(1, len(WORDS), width))
    later = torch.ones_like(norms, dtype=torch.bool).triu(1)
    measured = {
        FIRST_ROW: float((weights[0] - torch.tensor([1.0, 0.0, 0.0])).abs().max()),
        ROWS: float((weights.sum(dim=-1) - 1).abs().max()),
        FUTURE: float(weights[later].max()),
        LEAK: float(norms[later].max()),
        HEARD: float(norms[~later].min()),
    }
    tables = [
        _table("Weights of attention without parameters", weights),
        _table(f"Gradient norms of outputs after {layers} layers, by input", norms),
    ]
    return Result(measured, tables, partial(draw, weights, norms))


def _table(title: str, matrix: Tensor) -> Table:
    rows = zip(WORDS, matrix.tolist(), strict=True)
    return Table(title, [["", *WORDS], *([word, *(f"{v:.4f}" for v in row)] for word, row in rows)])


def gradient_norms(body: torch.nn.Module, x: Tensor) -> Tensor:
    """Return gradient norms of outputs, weighted at random, by input: "1 T D" to "T T"."""
    x = x.clone().requires_grad_()
    rows = [
        torch.autograd.grad((y * torch.randn_like(y)).sum(), x, retain_graph=True)[0][0].norm(dim=1)
        for y in body(x)[0]
    ]
    return torch.stack(rows).detach()


def draw(weights: Tensor, norms: Tensor, figure: Any) -> None:
    """Draw both matrices with their numbers."""
    titles = "weights", "gradient norms"
    for axes, matrix, title in zip(figure.subplots(1, 2), (weights, norms), titles, strict=True):
        axes.imshow(matrix.numpy(), cmap="Blues", vmin=0)
        axes.set_xticks(range(len(WORDS)), WORDS)
        axes.set_yticks(range(len(WORDS)), WORDS)
        axes.set(title=title, xlabel="key, or input", ylabel="query, or output")
        for (i, j), value in np.ndenumerate(matrix.numpy()):
            color = "white" if value > 0.6 * matrix.max() else "black"
            axes.text(j, i, f"{value:.2f}", ha="center", va="center", color=color)


MASKS = Study(
    "masks",
    "A causal mask leaves the future no weight and no gradient",
    "We need to prevent leftward information flow in the decoder to preserve the auto-regressive "
    "property. We implement this inside of scaled dot-product attention by masking out (setting to "
    "−∞) all values in the input of the softmax which correspond to illegal connections.",
    "Vaswani et al. 2017, section 3.2.3",
    BANDS,
    run,
    Times(quick=1, full=1),
)
