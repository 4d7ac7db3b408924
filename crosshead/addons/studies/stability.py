"""Numerical stability over length: gradients of plain recurrent units, and of attention."""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import torch
from torch import nn

from crosshead.addons.studies import fitting
from crosshead.addons.studies.charts import Sheet
from crosshead.addons.studies.gradients import LETTERS, WIDTH, factor, norms_by_distance, recall
from crosshead.addons.studies.runs import means, results
from crosshead.addons.studies.study import Band, Result, Study, Trial, Value
from crosshead.attention.masks import causal
from crosshead.layers.layer_types import RecurrentLayer

LENGTHS = (10, 20, 50, 100, 200, 500)
NEAR, FAR = 10, 100
"""The lengths of the task that is learned."""

SHRINKING, GROWING = "RNN, singular values 0.9", "RNN, Gaussian matrix of gain 2"
USUAL, LOOKING = "RNN, as PyTorch makes it", "Transformer"

FACTOR = "{}: factor of the gradient a position"
LOST = f"{USUAL}: gradient to the first of 500 inputs, float32"
REACH = f"{LOOKING}: gradient to the first of 500 inputs over that to the last"
RECALL = "{}: accuracy of recalling the first of {} letters"

BANDS = (
    Band(
        FACTOR.format(SHRINKING), 0, 0.9,
        "The singular values of a step are at most 0.9: the derivative of tanh is at most 1.",
    ),
    Band(
        FACTOR.format(GROWING), 1.05, 2,
        "Near states of such a network part exponentially (Sompolinsky et al. 1988), and so do "
        "gradients; 2 is the factor without tanh.",
    ),
    Band(
        LOST, 0, 0,
        "The largest eigenvalue of weights drawn evenly from -1/8 to 1/8 is about 0.58, and "
        "0.58 to the power of 499 is far below the smallest number of float32.",
    ),
    Band(REACH, 0.1, 10, "The path is as long as the stack is deep, at every length."),
    Band(RECALL.format(USUAL, NEAR), 0.95, 1, "Ten steps keep a hundredth of the gradient."),
    Band(
        RECALL.format(USUAL, FAR), 0, 0.5,
        "The first letter has 1e-23 of the last one's gradient. Chance is 6 %.",
    ),
    Band(RECALL.format(LOOKING, FAR), 0.95, 1, "The first letter is one step away."),
)  # fmt: skip


def body(name: str) -> nn.Module:
    """Return a plain recurrent layer with tanh, or two layers of causal attention."""
    if name == LOOKING:
        return fitting.Stack(2, WIDTH, 4, 2 * WIDTH, causal)
    layer = RecurrentLayer(WIDTH, nn.RNN)
    matrix = layer.cell.get_parameter("weight_hh_l0")
    if name == SHRINKING:
        matrix.data = 0.9 * nn.init.orthogonal_(torch.empty(WIDTH, WIDTH))
    elif name == GROWING:
        matrix.data = 2 / WIDTH**0.5 * torch.randn(WIDTH, WIDTH)
    return layer


def by_distance(name: str, length: int, seed: int, dtype: torch.dtype) -> np.ndarray:
    """Return norms of the last output's gradient to the inputs, by distance.

    The inputs are small: large ones drive tanh to where its derivative is 0.
    """
    with fitting.drawn_from(seed) as generator:
        model = body(name).to(dtype)
        x = (0.1 * torch.randn(8, length, WIDTH, generator=generator)).to(dtype)
        return norms_by_distance(model, x)


def learned(run: tuple[str, int, int, int]) -> float:
    """Return the accuracy of a model, by name, length, updates and seed, after training."""
    name, length, most, seed = run
    with fitting.drawn_from(seed) as generator:
        model = fitting.Reader(fitting.FIRST + LETTERS + 1, WIDTH, body(name))
        test = recall(length, generator, 256)
        fitting.train(model, partial(recall, length), generator, most=most, rate=2e-3)
    return fitting.accuracy(model, test)


def run(trial: Trial) -> Result:
    """Measure gradients at the start by length, and what is learned."""
    names, seeds = (SHRINKING, GROWING, USUAL, LOOKING), trial.seeds()
    longest, most = (LENGTHS[1] if trial.quick else LENGTHS[-1]), trial.amount(10, 600)
    lengths = [each for each in LENGTHS if each <= longest]
    exact = {
        name: [by_distance(name, longest, seed, torch.float64) for seed in seeds] for name in names
    }
    single = {
        name: [by_distance(name, longest, seed, torch.float32) for seed in seeds] for name in names
    }
    tasks = {
        RECALL.format(name, each): (name, each)
        for name, each in ((USUAL, NEAR), (USUAL, FAR), (LOOKING, FAR))
    }
    found = results(trial, tasks, lambda task, seed: (*tasks[task], most, seed), learned)
    rows = {
        name: {each: [float(norms[each - 1] / norms[0]) for norms in of] for each in lengths}
        for name, of in exact.items()
    }
    sheets = [
        Sheet("gradient to the first input over that to the last", rows, "length", log="xy"),
        Sheet(
            f"accuracy after {most} updates",
            {each: {"": of} for each, of in found.items()},
            drawn=False,
        ),
    ]
    return Result(judged(exact, single, means(found)), sheets)


def judged(
    exact: Mapping[str, Sequence[np.ndarray]],
    single: Mapping[str, Sequence[np.ndarray]],
    recalled: Mapping[str, float],
) -> dict[str, Value]:
    """Return the quantities: means over seeds, and the largest gradient that is left in float32."""
    reach = [norms[-1] / norms[0] for norms in single[LOOKING]]
    return {
        FACTOR.format(SHRINKING): float(np.mean([factor(each) for each in exact[SHRINKING]])),
        FACTOR.format(GROWING): float(np.mean([factor(each) for each in exact[GROWING]])),
        LOST: max(float(norms[-1]) for norms in single[USUAL]),
        REACH: float(np.exp(np.mean(np.log(reach)))),
        **recalled,
    }


STABILITY = Study(
    "stability",
    "Plain recurrences are numerically unstable over length, and attention is not",
    "There are two widely known issues with properly training recurrent neural networks, the "
    "vanishing and the exploding gradient problems.",
    "Pascanu et al. 2013, abstract",
    BANDS,
    run,
    seconds=300,
)
