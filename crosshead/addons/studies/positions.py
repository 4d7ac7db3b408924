"""Positions: without them attention sees a set; sinusoids of equal distance are one linear map."""

import math
from collections.abc import Callable, Mapping

import torch
from torch import Generator, Tensor, nn

from crosshead.addons.studies import fitting
from crosshead.addons.studies.charts import Sheet, by_seed, single
from crosshead.addons.studies.runs import means, results
from crosshead.addons.studies.study import Band, Result, Study, Trial, Value
from crosshead.attention.attend import attend
from crosshead.attention.masks import Mask, causal
from crosshead.attention.positions import shift, sinusoidal
from crosshead.text.batching import Batch

LENGTH, LETTERS, WIDTH = 16, 32, 64
A, B = fitting.FIRST, fitting.FIRST + 1
NO, YES = fitting.FIRST + LETTERS, fitting.FIRST + LETTERS + 1

ALONE = "attention without parameters: error of equivariance"
LAYERS = "four encoder layers without positions: error of equivariance"
PLACED = "four encoder layers with positions: error of equivariance"
WITHOUT = "is A before B, without positions: accuracy"
WITH = "is A before B, with positions: accuracy"
CAUSAL = "is A before B, without positions but with a causal mask: accuracy"

SET_BANDS = (
    Band(ALONE, 0, 1e-5, "A sum over keys does not depend on their order, but for rounding."),
    Band(LAYERS, 0, 1e-5, "The rest of a layer treats each position by itself."),
    Band(
        PLACED, 0.8, math.inf,
        "Permuting before or after adding sinusoids differs by two of them: 0.8 of the sum's "
        "root mean square, and residual connections pass this on.",
    ),
    Band(WITHOUT, 0.45, 0.55, "Both orders of A and B are the same set: chance."),
    Band(WITH, 0.99, 1, "The places of A and B decide, and each position tells its place."),
    Band(
        CAUSAL, 0.99, 1,
        "A causal mask gives order enough: A has B among its keys, or not (Haviv et al. 2022).",
    ),
)  # fmt: skip

ARMS: dict[str, tuple[bool, Mask | None]] = {
    WITHOUT: (False, None),
    WITH: (True, None),
    CAUSAL: (False, causal),
}
"""The models that learn the task: whether there are positions, and the mask."""


def run_sets(trial: Trial) -> Result:
    """Measure errors of equivariance, and how well each model learns the task."""
    errors = {ALONE: equivariance_error(attention_alone), LAYERS: equivariance_error(layers(4))}
    stack = layers(4)
    errors[PLACED] = equivariance_error(lambda x: stack(x + sinusoidal(x.shape[1], x.shape[2])))
    most = trial.amount(20, 800)
    learned = results(
        trial, ARMS, lambda name, seed: (name, most, seed), learn, lambda right: f"{right:.1%}"
    )
    sheets = [
        Sheet(
            "Largest difference between permuting before and after",
            single({n.partition(":")[0]: {"root mean squares": e} for n, e in errors.items()}),
            log="x",
        ),
        Sheet(
            f"Accuracy on 1,000 new sequences after {most} updates",
            by_seed({name.removesuffix(": accuracy"): of for name, of in learned.items()}),
            form=".1%", at=0.5,
        ),
    ]  # fmt: skip
    return Result({**errors, **accuracies(means(learned))}, sheets)


def learn(run: tuple[str, int, int]) -> float:
    """Train a model of `ARMS` for some updates from a seed; return its accuracy."""
    name, most, seed = run
    positions, mask = ARMS[name]
    with fitting.drawn_from(seed) as generator:
        model = fitting.Reader(YES + 1, WIDTH, layers(2, mask), positions=positions)
        test = which_is_first(generator, 1000)
    fitting.train(model, which_is_first, generator, most=most, rate=2e-3)
    return fitting.accuracy(model, test)


def accuracies(mean: Mapping[str, float]) -> dict[str, Value]:
    """Return the accuracies; failing without positions counts if others learn the task."""
    failed = {WITHOUT: f"with positions only {mean[WITH]:.0%} were right either"}
    return {**mean, **(failed if mean[WITH] < fitting.LEARNED else {})}


def attention_alone(x: Tensor) -> Tensor:
    """Return y_i = sum_j softmax_j(x_i . x_j / sqrt(D)) x_j: "B T D" to "B T D"."""
    heads = x.unsqueeze(1)
    return attend(heads, heads, heads).squeeze(1)


def layers(number_of: int, mask: Mask | None = None) -> fitting.Stack:
    """Return small encoder layers of the paper's kind."""
    return fitting.Stack(number_of, WIDTH, 4, 2 * WIDTH, mask)


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
    return fitting.labelled_at(tokens, where_a, torch.where(where_a < where_b, YES, NO))


SETS = Study(
    "sets",
    "Without positions, attention sees a set",
    "Since our model contains no recurrence and no convolution, in order for the model to make use "
    "of the order of the sequence, we must inject some information about the relative or absolute "
    "position of the tokens in the sequence.",
    "Vaswani et al. 2017, section 3.5",
    SET_BANDS,
    run_sets,
    seconds=135,  # recorded with one seed: 67
)

CLOSED = "closed form: largest error"
FITTED = "least squares: largest error at other positions"
RANDOM = "least squares on a table of random vectors: error at other positions"

SINUSOID_BANDS = (
    Band(
        CLOSED, 0, 1e-6,
        "sin and cos of a sum are a rotation of sin and cos: exact, apart from the rounding of "
        "float32 (6e-8 a number; a sum has three numbers).",
    ),
    Band(
        FITTED, 0, 1e-4,
        "All positions share one map, so a map fitted on even positions serves odd ones. The slow "
        "sinusoids are nearly collinear, which costs the fit some digits.",
    ),
    Band(
        RANDOM, 0.9, math.inf,
        "The error is a share of the vectors' length. Vectors drawn one by one are unrelated: at "
        "new positions no map is better than zero, whose error is 1.",
    ),
)  # fmt: skip


def fitted_errors(table: Tensor, offset: int) -> Tensor:
    """Return the residuals of the best linear map from row p to row p + offset.

    The map is fitted by least squares on every second position and measured on the remaining ones.
    """
    here, there = table[:-offset].double(), table[offset:].double()
    found: Tensor = torch.linalg.lstsq(here[::2], there[::2], driver="gelsd").solution
    return here[1::2] @ found - there[1::2]


def run_sinusoids(trial: Trial) -> Result:
    """Measure the error of the map by offset and width, in closed form and by least squares."""
    widths = (16, 64) if trial.quick else (32, 128, 512)
    offsets = (1, 8, 64) if trial.quick else (1, 4, 16, 64, 256)
    found: dict[str, dict[int, list[float]]] = {
        name: {offset: [] for offset in offsets} for name in (CLOSED, FITTED, RANDOM)
    }
    for d_model in widths:
        trial.say(f"d_model {d_model}")
        length = 8 * d_model + max(offsets)
        table = sinusoidal(length, d_model)
        vectors = torch.randn(length, d_model) * d_model**-0.5
        for offset in offsets:
            exact = table[:-offset].double() @ shift(offset, d_model).T - table[offset:]
            random = fitted_errors(vectors, offset).norm() / vectors[offset + 1 :: 2].norm()
            found[CLOSED][offset].append(float(exact.abs().max()))
            found[FITTED][offset].append(float(fitted_errors(table, offset).abs().max()))
            found[RANDOM][offset].append(float(random))
    every = {name: [e for errors in row.values() for e in errors] for name, row in found.items()}
    measured = {CLOSED: max(every[CLOSED]), FITTED: max(every[FITTED]), RANDOM: min(every[RANDOM])}
    title = f"Error of the map, d_model {', '.join(map(str, widths))}"
    return Result(measured, [Sheet(title, found, "offset k", log="xy")])


SINUSOIDS = Study(
    "sinusoids",
    "A sinusoidal position is a linear map of any other at the same offset",
    "We hypothesized it would allow the model to easily learn to attend by relative positions, "
    "since for any fixed offset k, PE_{pos+k} can be represented as a linear function of PE_{pos}.",
    "Vaswani et al. 2017, section 3.5",
    SINUSOID_BANDS,
    run_sinusoids,
    seconds=6,
)
