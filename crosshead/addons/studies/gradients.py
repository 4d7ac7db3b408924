"""Reach of gradients: through a recurrence, and through attention."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor, nn

from crosshead.addons.studies import fitting
from crosshead.addons.studies.charts import Sheet, single
from crosshead.addons.studies.runs import means, results
from crosshead.addons.studies.study import Band, Result, Study, Trial, Value
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
    Band(
        DECAY.format(PLAIN), 0.4, 0.8,
        "A forget gate begins near 1/2, and the other gates' paths add something.",
    ),
    Band(DECAY.format(LOOKING), 0.98, 1.02, "A step of attention reaches every state alike."),
    Band(DECAY.format(TRANSFORMER), 0.98, 1.02, "The path is as long as the stack is deep."),
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
    TRANSFORMER: lambda: fitting.Stack(2, WIDTH, 4, 2 * WIDTH, causal),
}


class Reach(NamedTuple):
    """Gradient norms by distance before and after training, and the share recalled."""

    start: np.ndarray
    end: np.ndarray
    recalled: float


def run(trial: Trial) -> Result:
    """Measure each model at its start and after training on a task of long distance."""
    length, most = 24 if trial.quick else 64, trial.amount(10, 600)
    found = results(trial, BODIES, lambda name, seed: (name, length, most, seed), trained)
    recalled = {name: [each.recalled for each in of] for name, of in found.items()}
    start = {name: np.mean([each.start for each in of], axis=0) for name, of in found.items()}
    end = {name: np.mean([each.end for each in of], axis=0) for name, of in found.items()}
    rows = {
        name: {
            "factor at the start": [factor(start[name])],
            "factor after training": [factor(end[name])],
            "first over last at the start": [float(start[name][-1] / start[name][0])],
            "first over last after training": [float(end[name][-1] / end[name][0])],
            "recalled": recalled[name],
        }
        for name in BODIES
    }
    decay = {name: factor(norms) for name, norms in start.items()}
    title = f"Gradient of the last output by input, {length} positions, {most} updates"
    sheets = [
        Sheet(title, rows, drawn=False),
        *(
            Sheet(
                f"gradient norm {when}",
                single({name: dict(enumerate(each)) for name, each in norms.items()}),
                "distance of the input", log="y", listed=False,
            )
            for when, norms in (("at the start", start), ("after training", end))
        ),
    ]  # fmt: skip
    return Result(judged(decay, means(recalled)), sheets)


def trained(run: tuple[str, int, int, int]) -> Reach:
    """Train a model by name, length, updates and seed; measure it before and after."""
    name, length, most, seed = run
    with fitting.drawn_from(seed) as generator:
        model = fitting.Reader(fitting.FIRST + LETTERS + 1, WIDTH, BODIES[name]())
        test = recall(length, generator, 256)
        start = gradient_by_distance(model, test.inputs[0])
        fitting.train(model, partial(recall, length), generator, most=most, rate=2e-3)
        end = gradient_by_distance(model, test.inputs[0])
    return Reach(start, end, fitting.accuracy(model, test))


def judged(decay: Mapping[str, float], recalled: Mapping[str, float]) -> dict[str, Value]:
    """Return the quantities; failing to recall counts if a model with attention learns the task."""
    found: dict[str, Value] = {}
    for name in (PLAIN, LOOKING, TRANSFORMER):
        found |= {DECAY.format(name): decay[name], RECALL.format(name): recalled[name]}
    if max(recalled[LOOKING], recalled[TRANSFORMER]) < fitting.LEARNED:
        found[RECALL.format(PLAIN)] = "no model with attention has learned it either"
    return found


def gradient_by_distance(model: fitting.Reader, tokens: Tensor) -> np.ndarray:
    """Return norms of the last output's gradient to the inputs, by distance, as means over rows.

    The output is weighted at random.
    """
    return norms_by_distance(model.body, model.embeddings(tokens).detach())


def norms_by_distance(body: nn.Module, x: Tensor) -> np.ndarray:
    """Return norms of the last output's gradient to the inputs of a body, by distance."""
    x = x.requires_grad_()
    last = body(x)[:, -1]
    [gradient] = torch.autograd.grad((last * torch.randn_like(last)).sum(), x)
    norms: np.ndarray = gradient.norm(dim=2).mean(dim=0).flip(0).double().numpy()
    return norms


def factor(norms: np.ndarray) -> float:
    """Return the gradient's change per position: a line fit of its logarithm from `NEAREST`."""
    distances = np.arange(NEAREST, len(norms))
    return float(np.exp(np.polyfit(distances, np.log(norms[NEAREST:]), 1)[0]))


def recall(length: int, generator: Generator, rows: int = 64) -> Batch:
    """Return random letters and a question mark, whose label is the first letter."""
    tokens = torch.randint(
        fitting.FIRST, fitting.FIRST + LETTERS, (rows, length), generator=generator
    )
    tokens[:, -1] = fitting.FIRST + LETTERS
    return fitting.labelled_at(tokens, torch.full((rows,), length - 1), tokens[:, 0])


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
