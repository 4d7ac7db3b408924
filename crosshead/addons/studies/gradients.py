"""Reach of gradients: through a recurrence, past it through attention, and without one."""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import torch
from torch import Generator, Tensor, nn

from crosshead.addons.studies.charts import Line, Panel
from crosshead.addons.studies.fitting import (
    FIRST,
    LEARNED,
    Reader,
    Stack,
    accuracy,
    drawn_from,
    labelled_at,
    train,
)
from crosshead.addons.studies.formats import joined, number
from crosshead.addons.studies.study import Band, Result, Study, Table, Trial, Value, at_any_size
from crosshead.attention.masks import causal
from crosshead.attention.multihead import MultiHeadAttention
from crosshead.layers.layer_types import RecurrentLayer
from crosshead.text.batching import Batch

WIDTH, LETTERS, NEAREST = 64, 16, 8
"""`NEAREST` is the distance from which the decay is fitted: nearer inputs have other paths too."""

DECAY = "{}: factor of the gradient a position, at the start"
RECALL = "{}: accuracy of recalling the first token, after training"
PLAIN, LOOKING, TRANSFORMER = "LSTM", "LSTM with attention", "Transformer"

BANDS = (
    *at_any_size(
        Band(
            DECAY.format(PLAIN), 0.4, 0.8,
            "A forget gate begins near 1/2, and the other gates' paths add something.",
        ),
        Band(DECAY.format(LOOKING), 0.98, 1.02, "A step of attention reaches every state alike."),
        Band(DECAY.format(TRANSFORMER), 0.98, 1.02, "The path is as long as the stack is deep."),
    ),
    Band(
        RECALL.format(PLAIN), 0, 0.5,
        "1e-10 of the last token's gradient reaches the first. Chance is 6 %, and below one half "
        "the task is not learned.",
    ),
    Band(RECALL.format(LOOKING), 0.95, 1, "The shorter these paths, the easier it is to learn."),
    Band(RECALL.format(TRANSFORMER), 0.95, 1, "As above."),
)  # fmt: skip


class AttendingLSTM(RecurrentLayer):
    """PyTorch's LSTM, where each state also attends to itself and those before it."""

    def __init__(self) -> None:
        super().__init__(WIDTH, nn.LSTM)
        self.attention = MultiHeadAttention(WIDTH, 1, d_key=WIDTH, d_value=WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """Return the sum of the states and the outputs of attention."""
        states = super().forward(x)
        mask = causal.dense(x.shape[1], x.shape[1])
        gathered: Tensor = self.attention(states, self.attention.project(states), mask)
        return states + gathered


BODIES: dict[str, Callable[[], nn.Module]] = {
    PLAIN: lambda: RecurrentLayer(WIDTH, nn.LSTM),
    LOOKING: AttendingLSTM,
    TRANSFORMER: lambda: Stack(2, WIDTH, 4, 2 * WIDTH, causal),
}


def run(trial: Trial) -> Result:
    """Measure each model at its start and after training on a task of long distance."""
    length, most = 24 if trial.quick else 64, trial.amount(10, 600)
    decay: dict[str, float] = {}
    recalled: dict[str, float] = {}
    curves: tuple[list[Line], list[Line]] = [], []
    heads = ["model", "factor at start", "after", "first over last at start", "after"]
    rows = [[*heads, "recalled by seed"]]
    for name, build in BODIES.items():
        runs = [trained(build, length, most, each) for each in trial.seeds()]
        *norms, right = zip(*runs, strict=True)
        start, end = (np.mean(each, axis=0) for each in norms)
        decay[name], recalled[name] = factor(start), float(np.mean(right))
        shown = joined(right, ".1%")
        trial.say(f"{name}: {shown} recalled after {most} updates")
        shares = [float(each[-1] / each[0]) for each in (start, end)]
        rows.append([name, *map(number, (factor(start), factor(end), *shares)), shown])
        for lines, found in zip(curves, (start, end), strict=True):
            lines.append(Line(range(length), found, name, "-"))
    title = f"Gradient of the last output by input, {length} positions, {most} updates"
    panels = [
        Panel(f"gradient norm {when}", lines, "distance of the input", log="y")
        for when, lines in zip(("at the start", "after training"), curves, strict=True)
    ]
    return Result(judged(decay, recalled), [Table(title, rows)], panels)


def trained(
    build: Callable[[], nn.Module], length: int, most: int, seed: int
) -> tuple[np.ndarray, np.ndarray, float]:
    """Train; return gradient norms by distance before and after, and the share recalled."""
    with drawn_from(seed) as generator:
        model = Reader(FIRST + LETTERS + 1, WIDTH, build())
        test = recall(length, generator, 256)
    start = gradient_by_distance(model, test.inputs[0])
    train(model, partial(recall, length), generator, most=most, rate=2e-3)
    return start, gradient_by_distance(model, test.inputs[0]), accuracy(model, test)


def judged(decay: Mapping[str, float], recalled: Mapping[str, float]) -> dict[str, Value]:
    """Return the quantities; failing to recall counts if a model with attention learns the task."""
    found: dict[str, Value] = {}
    for name in (PLAIN, LOOKING, TRANSFORMER):
        found |= {DECAY.format(name): decay[name], RECALL.format(name): recalled[name]}
    if max(recalled[LOOKING], recalled[TRANSFORMER]) < LEARNED:
        found[RECALL.format(PLAIN)] = "no model with attention has learned it either"
    return found


def gradient_by_distance(model: Reader, tokens: Tensor) -> np.ndarray:
    """Return norms of the last output's gradient to the inputs, by distance, as means over rows.

    The output is weighted at random.
    """
    x = model.embeddings(tokens).detach().requires_grad_()
    last = model.body(x)[:, -1]
    [gradient] = torch.autograd.grad((last * torch.randn_like(last)).sum(), x)
    norms: np.ndarray = gradient.norm(dim=2).mean(dim=0).flip(0).double().numpy()
    return norms


def factor(norms: np.ndarray) -> float:
    """Return the gradient's change per position: a line fit of its logarithm from `NEAREST`."""
    distances = np.arange(NEAREST, len(norms))
    return float(np.exp(np.polyfit(distances, np.log(norms[NEAREST:]), 1)[0]))


def recall(length: int, generator: Generator, rows: int = 64) -> Batch:
    """Return random letters and a question mark, whose label is the first letter."""
    tokens = torch.randint(FIRST, FIRST + LETTERS, (rows, length), generator=generator)
    tokens[:, -1] = FIRST + LETTERS
    return labelled_at(tokens, torch.full((rows,), length - 1), tokens[:, 0])


GRADIENTS = Study(
    "gradients",
    "Gradients fade along a recurrence, and not along attention",
    "The shorter these paths between any combination of positions in the input and output "
    "sequences, the easier it is to learn long-range dependencies.",
    "Vaswani et al. 2017, section 4",
    BANDS,
    run,
    seconds=96,  # recorded with one seed: 48
)
