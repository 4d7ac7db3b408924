"""The causal mask, by the example "attention is cool": no weight on the future, and no gradient."""

import math

import torch
from torch import Tensor

from crosshead.addons.studies.charts import Line, Panel
from crosshead.addons.studies.fitting import Stack
from crosshead.addons.studies.study import Band, Result, Study, Table, Trial, at_any_size
from crosshead.attention.attend import attend
from crosshead.attention.masks import causal

WORDS = ("attention", "is", "cool")

FIRST_ROW = "first row: largest distance from 1, 0, 0"
ROWS = "rows: largest distance of a sum from 1"
FUTURE = "largest weight on a later token"
LEAK = "largest gradient of an output to a later token"
HEARD = "smallest gradient of an output to itself or an earlier token"

BANDS = at_any_size(
    Band(FIRST_ROW, 0, 0, "It may attend to itself only, and a softmax over one key is 1."),
    Band(ROWS, 0, 1e-6, "A softmax sums to 1, apart from the rounding of float32."),
    Band(FUTURE, 0, 0, "The exponential of minus infinity is 0, exactly."),
    Band(LEAK, 0, 0, "A token without weight in any layer has no part in the output, exactly."),
    Band(HEARD, 1e-4, math.inf, "The mask hides nothing else: this is far above rounding."),
)


def run(trial: Trial) -> Result:
    """Measure attention weights without parameters, and gradients through a stack of layers."""
    width, layers = (16, 2) if trial.quick else (64, 6)
    # The words are narrow: wide ones attend to little but themselves.
    words = torch.randn(1, 1, len(WORDS), 4)
    seen: list[Tensor] = []
    mask = causal.dense(len(WORDS), len(WORDS))
    attend(words, words, words, mask=mask, observe=seen.append)
    weights = seen[0][0, 0]

    trial.say(f"gradients through {layers} layers of width {width}")
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
    panels = [
        Panel("weights of queries", _lines(weights), "key"),
        Panel("gradient norms of outputs", _lines(norms), "input"),
    ]
    return Result(measured, tables, panels)


def _table(title: str, matrix: Tensor) -> Table:
    rows = zip(WORDS, matrix.tolist(), strict=True)
    return Table(title, [["", *WORDS], *([word, *(f"{v:.4f}" for v in row)] for word, row in rows)])


def _lines(matrix: Tensor) -> list[Line]:
    return [Line(WORDS, row, word) for word, row in zip(WORDS, matrix.tolist(), strict=True)]


def gradient_norms(body: torch.nn.Module, x: Tensor) -> Tensor:
    """Return gradient norms of outputs, weighted at random, by input: "1 T D" to "T T"."""
    x = x.clone().requires_grad_()
    rows = [
        torch.autograd.grad((y * torch.randn_like(y)).sum(), x, retain_graph=True)[0][0].norm(dim=1)
        for y in body(x)[0]
    ]
    return torch.stack(rows).detach()


MASKS = Study(
    "masks",
    "A causal mask leaves the future no weight and no gradient",
    "We need to prevent leftward information flow [...] by masking out (setting to −∞) all values "
    "in the input of the softmax which correspond to illegal connections.",
    "Vaswani et al. 2017, section 3.2.3",
    BANDS,
    run,
    seconds=1,
)
