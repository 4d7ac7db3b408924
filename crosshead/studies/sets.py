"""Without positions, attention sees a set: permutation equivariance, and a task about order."""

import statistics
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Generator, Tensor, nn

from crosshead.attention.attend import attend
from crosshead.attention.masks import causal
from crosshead.attention.multihead import MultiHeadAttention
from crosshead.attention.positions import sinusoidal
from crosshead.data.batching import Batch
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

LENGTH, LETTERS, WIDTH = 16, 32, 64
LEARNED = 0.95
"""The accuracy from which on a task counts as learned: a guess is right in half of the cases."""

A, B = FIRST, FIRST + 1
NO, YES = FIRST + LETTERS, FIRST + LETTERS + 1

ALONE = "attention without parameters: error of equivariance"
LAYERS = "four encoder layers without positions: error of equivariance"
PLACED = "four encoder layers with positions: error of equivariance"
WITHOUT = "is A before B, without positions: accuracy"
WITH = "is A before B, with positions: accuracy"
CAUSAL = "is A before B, without positions but with a causal mask: accuracy"

BANDS = (
    Band(ALONE, 0, 1e-5, "A sum over keys does not know their order, but for rounding."),
    Band(LAYERS, 0, 1e-5, "All else in a layer is done at each position by itself."),
    Band(
        PLACED, 0.8, float("inf"),
        "Sinusoids have half the variance of the embeddings. Permuting before or after differs by "
        "two of them, 0.8 of the sum's root mean square, which residual connections hand on; the "
        "largest difference is no less than that.",
    ),
    Band(WITHOUT, 0.45, 0.55, "Both orders of A and B are one set: chance."),
    Band(WITH, 0.99, 1, "Where A and B stand decides, and each position says where it is."),
    Band(
        CAUSAL, 0.99, 1,
        "The sentence is about attention to everything: a causal mask is order enough, since A has "
        "B among its keys or has not (Haviv et al. 2022).",
    ),
)  # fmt: skip


def run(effort: Effort, seed: int, say: Say) -> Result:
    """Measure errors of equivariance, and how well each model learns the task."""
    errors = {
        ALONE: equivariance_error(attention_alone),
        LAYERS: equivariance_error(layers(4)),
        PLACED: equivariance_error(_after_positions(layers(4))),
    }
    most = effort.amount(20, 800)
    learned: dict[str, list[float]] = {}
    arms = {WITHOUT: (False, None), WITH: (True, None), CAUSAL: (False, causal)}
    for name, (positions, mask) in arms.items():
        for each in seeds_of(effort, seed):
            with drawn_from(each) as generator:
                model = Reader(YES + 1, WIDTH, layers(2, mask), positions=positions)
                test = which_is_first(generator, 1000)
            for _ in updates(model, which_is_first, generator, most=most, rate=2e-3):
                pass
            learned.setdefault(name, []).append(accuracy(model, test))
        say(f"{name} {', '.join(map(number, learned[name]))}")
    equivariance = [[name.partition(":")[0], number(error)] for name, error in errors.items()]
    order = [
        [name.removesuffix(": accuracy"), ", ".join(f"{a:.1%}" for a in each)]
        for name, each in learned.items()
    ]
    tables = [
        Table(
            "Largest difference between permuting before and after, over the root mean square",
            [["of", "error"], *equivariance],
        ),
        Table(
            f"Accuracy on 1,000 new sequences after {most} updates",
            [["model", "accuracy by seed"], *order],
        ),
    ]
    means = {name: statistics.mean(each) for name, each in learned.items()}
    return Result({**errors, **accuracies(means, effort)}, tables, partial(draw, errors, means))


def accuracies(means: Mapping[str, float], effort: Effort) -> dict[str, Value]:
    """Return the accuracies that the bands are about.

    Failing without positions tells something where the same layers learn the task with them.
    """
    found = {name: after_training(effort, mean) for name, mean in means.items()}
    if not effort.quick and means[WITH] < LEARNED:
        found[WITHOUT] = Unmeasured(f"with positions only {means[WITH]:.0%} were right either")
    return found


def attention_alone(x: Tensor) -> Tensor:
    """y_i = sum_j softmax_j(x_i . x_j / sqrt(D)) x_j: `B T D` to `B T D`."""
    heads = x.unsqueeze(1)
    return attend(heads, heads, heads).squeeze(1)


def layers(number_of: int, mask: Any = None) -> Stack:
    """Encoder layers as the paper's, small."""
    attention = partial(MultiHeadAttention, WIDTH, 4, d_key=WIDTH // 4, d_value=WIDTH // 4)
    return Stack(number_of, attention, 2 * WIDTH, mask)


@torch.no_grad()
def equivariance_error(function: Callable[[Tensor], Tensor] | nn.Module) -> float:
    """Return the largest difference of f(P x) and P f(x), over the root mean square of f(x)."""
    x, order = torch.randn(8, LENGTH, WIDTH), torch.randperm(LENGTH)
    expected = function(x)[:, order]
    difference = function(x[:, order]) - expected
    return float(difference.abs().max() / expected.square().mean().sqrt())


def which_is_first(generator: Generator, rows: int = 64) -> Batch:
    """Sequences of different letters, A and B among them: at A, whether B comes later."""
    others = torch.rand(rows, LETTERS - 2, generator=generator).argsort(dim=1)[:, : LENGTH - 2]
    both = torch.tensor([A, B]).expand(rows, 2)
    tokens = torch.cat([both, others + B + 1], dim=1)
    order = torch.rand(rows, LENGTH, generator=generator).argsort(dim=1)
    tokens = tokens.gather(1, order)
    where_a, where_b = ((tokens == letter).int().argmax(dim=1) for letter in (A, B))
    return labelled_at(tokens, where_a, torch.where(where_a < where_b, YES, NO))


def draw(errors: dict[str, float], learned: dict[str, float], figure: Any) -> None:
    """Errors on a logarithmic axis, accuracies beside them."""
    left, right = figure.subplots(1, 2)
    left.plot(list(errors.values()), ["no parameters", "4 layers", "4 layers,\npositions"], "o")
    left.set(xscale="log", xlim=(1e-8, 10), ylim=(-0.5, 2.5), title="error of equivariance")
    left.grid(alpha=0.3)
    right.barh(["no positions", "positions", "no positions,\ncausal mask"], list(learned.values()))
    right.axvline(0.5, color="gray", ls=":")
    right.set(xlim=(0, 1), title="is A before B: accuracy")
    for axes in (left, right):
        axes.invert_yaxis()


def _after_positions(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    return lambda x: function(x + sinusoidal(x.shape[1], x.shape[2]))


SETS = Study(
    "sets",
    "Without positions, attention sees a set",
    "Since our model contains no recurrence and no convolution, in order for the model to make use "
    "of the order of the sequence, we must inject some information about the relative or absolute "
    "position of the tokens in the sequence.",
    "Vaswani et al. 2017, section 3.5",
    BANDS,
    run,
    TIMES["sets"],
)
