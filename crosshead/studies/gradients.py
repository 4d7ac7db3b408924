"""Reach of gradients: through a recurrence, past it through attention, and without one."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor, nn

from crosshead.attention.masks import causal
from crosshead.attention.multihead import MultiHeadAttention
from crosshead.data.batching import Batch
from crosshead.layers.layer_types import Recurrent
from crosshead.layers.rnn import RecurrentStack
from crosshead.studies.effort import Effort, seeds_of
from crosshead.studies.fitting import (
    FIRST,
    Reader,
    Stack,
    accuracy,
    drawn_from,
    labelled_at,
    updates,
)
from crosshead.studies.study import (
    Band,
    Result,
    Say,
    Study,
    Table,
    Unmeasured,
    Value,
    after_training,
    number,
)
from crosshead.studies.times import TIMES

WIDTH, LETTERS, NEAREST = 64, 16, 8
"""`NEAREST` is the distance from which the decay is fitted: nearer ones have paths of their own."""

LEARNED = 0.95
"""The accuracy from which on the task counts as learned."""

DECAY = "{}: factor of the gradient a position, at the start"
RECALL = "{}: accuracy of recalling the first token, after training"
PLAIN, LOOKING, TRANSFORMER = "LSTM", "LSTM with attention", "Transformer"
OPEN = "LSTM, forget gates open"
"""Beside the claim, without a band: how a recurrent encoder-decoder begins here."""

BANDS = (
    Band(
        DECAY.format(PLAIN), 0.4, 0.8,
        "A forget gate begins near 1/2, and the way through the gates adds something.",
    ),
    Band(DECAY.format(LOOKING), 0.98, 1.02, "One step of attention reaches every state alike."),
    Band(DECAY.format(TRANSFORMER), 0.98, 1.02, "As above: the path has the length of the stack."),
    Band(
        RECALL.format(PLAIN), 0, 0.5,
        "What reaches the first token is 1e-10 of what reaches the last; chance is 6 %, and "
        "below one half the task is not learned.",
    ),
    Band(RECALL.format(LOOKING), 0.95, 1, "The shorter these paths, the easier it is to learn."),
    Band(RECALL.format(TRANSFORMER), 0.95, 1, "As above."),
)  # fmt: skip


class RecurrentOpen(nn.Module):
    """A layer of `RecurrentStack`, whose forget gates begin open: `B T D` to `B T D`."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = RecurrentStack("lstm", 1, WIDTH, WIDTH, dropout=0.0)

    def forward(self, x: Tensor) -> Tensor:
        """Its states, of which the first remembers nothing."""
        nothing = x.new_zeros(1, len(x), WIDTH)
        states: Tensor = self.stack(x, (nothing, nothing))[0]
        return states


class RecurrentLooking(Recurrent):
    """PyTorch's LSTM, where each state also attends to itself and those before it."""

    def __init__(self) -> None:
        super().__init__(WIDTH, nn.LSTM)
        self.attention = MultiHeadAttention(WIDTH, 1, d_key=WIDTH, d_value=WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """States, and what they attend to, added."""
        states = super().forward(x)
        mask = causal.dense(x.shape[1], x.shape[1])
        gathered: Tensor = self.attention(states, self.attention.project(states), mask)
        return states + gathered


def transformer() -> Stack:
    """Two causal layers of four heads."""
    attention = partial(MultiHeadAttention, WIDTH, 4, d_key=WIDTH // 4, d_value=WIDTH // 4)
    return Stack(2, attention, 2 * WIDTH, causal)


BODIES: dict[str, Callable[[], nn.Module]] = {
    PLAIN: lambda: Recurrent(WIDTH, nn.LSTM),
    OPEN: RecurrentOpen,
    LOOKING: RecurrentLooking,
    TRANSFORMER: transformer,
}


def run(effort: Effort, seed: int, say: Say) -> Result:
    """Measure each model at its start and after training on a task of long distance."""
    length, most = 24 if effort.quick else 64, effort.amount(10, 600)
    decay: dict[str, float] = {}
    recalled: dict[str, float] = {}
    rows, curves = [], {}
    for name, build in BODIES.items():
        runs = [trained(build, length, most, each) for each in seeds_of(effort, seed)]
        start = np.mean([run.start for run in runs], axis=0)
        end = np.mean([run.end for run in runs], axis=0)
        right = [run.right for run in runs]
        decay[name], recalled[name] = factor(start), float(np.mean(right))
        shown = ", ".join(f"{each:.1%}" for each in right)
        say(f"{name}: {shown} recalled after {most} updates")
        shares = [float(each[-1] / each[0]) for each in (start, end)]
        rows.append([name, *map(number, (factor(start), factor(end), *shares)), shown])
        curves[name] = start, end
    heads = [
        "model", "factor at start", "after", "first over last at start", "after",
        "recalled by seed",
    ]  # fmt: skip
    title = f"Gradient of the last output by input, {length} positions, {most} updates"
    table = Table(title, [heads, *rows])
    return Result(judged(decay, recalled, effort), [table], partial(draw, curves))


class Trained(NamedTuple):
    """Gradient norms by distance before and after training, and the share recalled."""

    start: np.ndarray
    end: np.ndarray
    right: float


def trained(build: Callable[[], nn.Module], length: int, most: int, seed: int) -> Trained:
    """Train a model from a seed."""
    with drawn_from(seed) as generator:
        model = Reader(FIRST + LETTERS + 1, WIDTH, build())
        test = recall(length, generator, 256)
    start = gradient_by_distance(model, test.inputs[0])
    for _ in updates(model, partial(recall, length), generator, most=most, rate=2e-3):
        pass
    end = gradient_by_distance(model, test.inputs[0])
    return Trained(start, end, accuracy(model, test))


def judged(decay: dict[str, float], recalled: dict[str, float], effort: Effort) -> dict[str, Value]:
    """Return the quantities of the bands.

    A recurrence that recalls nothing tells something where a model with attention has learned to.
    """
    names = (PLAIN, LOOKING, TRANSFORMER)
    found: dict[str, Value] = {DECAY.format(name): decay[name] for name in names}
    found |= {RECALL.format(name): after_training(effort, recalled[name]) for name in names}
    if not effort.quick and max(recalled[LOOKING], recalled[TRANSFORMER]) < LEARNED:
        found[RECALL.format(PLAIN)] = Unmeasured("no model with attention has learned it either")
    return found


def gradient_by_distance(model: Reader, tokens: Tensor) -> np.ndarray:
    """Norms of the gradient of the last output to the vector that entered so far before it.

    The output is weighted at random; the mean over rows.
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
    """Random letters and a question mark, where the first letter is to be said."""
    tokens = torch.randint(FIRST, FIRST + LETTERS, (rows, length), generator=generator)
    tokens[:, -1] = FIRST + LETTERS
    return labelled_at(tokens, torch.full((rows,), length - 1), tokens[:, 0])


def draw(curves: dict[str, tuple[np.ndarray, np.ndarray]], figure: Any) -> None:
    """Norms by distance, at the start and after training."""
    panels = figure.subplots(1, 2, sharey=True)
    for name, both in curves.items():
        for axes, norms in zip(panels, both, strict=True):
            axes.plot(norms, label=name)
    for axes, title in zip(panels, ("at the start", "after training"), strict=True):
        axes.set(yscale="log", xlabel="distance of the input", title=title)
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("gradient norm")
    panels[0].legend()


GRADIENTS = Study(
    "gradients",
    "Gradients fade along a recurrence, and not along attention",
    "One key factor affecting the ability to learn such dependencies is the length of the paths "
    "forward and backward signals have to traverse in the network. The shorter these paths between "
    "any combination of positions in the input and output sequences, the easier it is to learn "
    "long-range dependencies.",
    "Vaswani et al. 2017, section 4",
    BANDS,
    run,
    TIMES["gradients"],
)
