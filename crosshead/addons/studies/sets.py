"""Without positions, attention sees a set: permutation equivariance, and a task about order."""

import math
import statistics
from collections.abc import Callable, Mapping

import torch
from torch import Generator, Tensor, nn

from crosshead.addons.studies.charts import Panel, points
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
from crosshead.attention.attend import attend
from crosshead.attention.masks import Mask, causal
from crosshead.attention.positions import sinusoidal
from crosshead.text.batching import Batch

LENGTH, LETTERS, WIDTH = 16, 32, 64
A, B = FIRST, FIRST + 1
NO, YES = FIRST + LETTERS, FIRST + LETTERS + 1

ALONE = "attention without parameters: error of equivariance"
LAYERS = "four encoder layers without positions: error of equivariance"
PLACED = "four encoder layers with positions: error of equivariance"
WITHOUT = "is A before B, without positions: accuracy"
WITH = "is A before B, with positions: accuracy"
CAUSAL = "is A before B, without positions but with a causal mask: accuracy"

BANDS = (
    *at_any_size(
        Band(ALONE, 0, 1e-5, "A sum over keys does not depend on their order, but for rounding."),
        Band(LAYERS, 0, 1e-5, "The rest of a layer treats each position by itself."),
        Band(
            PLACED, 0.8, math.inf,
            "Permuting before or after adding sinusoids differs by two of them: 0.8 of the sum's "
            "root mean square, and residual connections pass this on.",
        ),
    ),
    Band(WITHOUT, 0.45, 0.55, "Both orders of A and B are the same set: chance."),
    Band(WITH, 0.99, 1, "The places of A and B decide, and each position tells its place."),
    Band(
        CAUSAL, 0.99, 1,
        "A causal mask gives order enough: A has B among its keys, or not (Haviv et al. 2022).",
    ),
)  # fmt: skip


def run(trial: Trial) -> Result:
    """Measure errors of equivariance, and how well each model learns the task."""
    errors = {ALONE: equivariance_error(attention_alone), LAYERS: equivariance_error(layers(4))}
    stack = layers(4)
    errors[PLACED] = equivariance_error(lambda x: stack(x + sinusoidal(x.shape[1], x.shape[2])))
    most = trial.amount(20, 800)
    learned: dict[str, list[float]] = {}
    arms = {WITHOUT: (False, None), WITH: (True, None), CAUSAL: (False, causal)}
    for name, (positions, mask) in arms.items():
        learned[name] = []
        for each in trial.seeds():
            with drawn_from(each) as generator:
                model = Reader(YES + 1, WIDTH, layers(2, mask), positions=positions)
                test = which_is_first(generator, 1000)
            train(model, which_is_first, generator, most=most, rate=2e-3)
            learned[name].append(accuracy(model, test))
        trial.say(f"{name} {', '.join(map(number, learned[name]))}")
    equivariance = [[n.partition(":")[0], number(error)] for n, error in errors.items()]
    order = [[n.removesuffix(": accuracy"), joined(each, ".1%")] for n, each in learned.items()]
    distance = "Largest difference between permuting before and after, over the root mean square"
    accuracy_of = f"Accuracy on 1,000 new sequences after {most} updates"
    tables = [
        Table(distance, [["of", "error"], *equivariance]),
        Table(accuracy_of, [["model", "accuracy by seed"], *order]),
    ]
    means = {name: statistics.mean(each) for name, each in learned.items()}
    panels = [
        Panel("error of equivariance", [points({n: [e] for n, e in errors.items()})], log="x"),
        Panel("accuracy", [points(learned)], at=0.5),
    ]
    return Result({**errors, **accuracies(means)}, tables, panels)


def accuracies(means: Mapping[str, float]) -> dict[str, Value]:
    """Return the accuracies; failing without positions counts if others learn the task."""
    failed = {WITHOUT: f"with positions only {means[WITH]:.0%} were right either"}
    return {**means, **(failed if means[WITH] < LEARNED else {})}


def attention_alone(x: Tensor) -> Tensor:
    """Return y_i = sum_j softmax_j(x_i . x_j / sqrt(D)) x_j: "B T D" to "B T D"."""
    heads = x.unsqueeze(1)
    return attend(heads, heads, heads).squeeze(1)


def layers(number_of: int, mask: Mask | None = None) -> Stack:
    """Return small encoder layers of the paper's kind."""
    return Stack(number_of, WIDTH, 4, 2 * WIDTH, mask)


@torch.no_grad()
def equivariance_error(function: Callable[[Tensor], Tensor] | nn.Module) -> float:
    """Return the largest difference of f(P x) and P f(x), over the root mean square of f(x)."""
    x, order = torch.randn(8, LENGTH, WIDTH), torch.randperm(LENGTH)
    expected = function(x)[:, order]
    difference = function(x[:, order]) - expected
    return float(difference.abs().max() / expected.square().mean().sqrt())


def which_is_first(generator: Generator, rows: int = 64) -> Batch:
    """Return sequences of different letters with A and B.

    The label at A says whether B comes later.
    """
    others = torch.rand(rows, LETTERS - 2, generator=generator).argsort(dim=1)[:, : LENGTH - 2]
    both = torch.tensor([A, B]).expand(rows, 2)
    tokens = torch.cat([both, others + B + 1], dim=1)
    order = torch.rand(rows, LENGTH, generator=generator).argsort(dim=1)
    tokens = tokens.gather(1, order)
    where_a, where_b = ((tokens == letter).int().argmax(dim=1) for letter in (A, B))
    return labelled_at(tokens, where_a, torch.where(where_a < where_b, YES, NO))


SETS = Study(
    "sets",
    "Without positions, attention sees a set",
    "Since our model contains no recurrence and no convolution, in order for the model to make use "
    "of the order of the sequence, we must inject some information about the relative or absolute "
    "position of the tokens in the sequence.",
    "Vaswani et al. 2017, section 3.5",
    BANDS,
    run,
    seconds=135,  # recorded with one seed: 67
)
