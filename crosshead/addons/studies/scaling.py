"""Effects of dividing dot products by sqrt(d_k): on the softmax, and on training."""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from statistics import median
from typing import NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor

from crosshead.addons.studies.charts import Sheet, cells, single
from crosshead.addons.studies.fitting import FIRST, Reader, Stack, accuracy, drawn_from, updates
from crosshead.addons.studies.runs import results
from crosshead.addons.studies.study import Band, Result, Study, Trial, Value
from crosshead.attention.attend import attend
from crosshead.attention.scores import Additive, Dot, ScaledDot, Score
from crosshead.text.batching import Batch

SCORES: dict[str, Callable[[int], Score]] = {
    "unscaled": lambda d_key: Dot(),
    "scaled": lambda d_key: ScaledDot(),
    "additive": lambda d_key: Additive(1, d_key, d_key, d_key),
}
"""The compared score functions; each is built for a d_k."""

KEYS = 64
STATISTICS = (4, 16, 64, 256, 1024)
TRAINED = (16, 64, 256)
"""The d_k of the random vectors, and the d_k of the trained layers."""

LENGTH, LETTERS, ENOUGH, BUDGET = 16, 8, 0.95, 1000
"""The task is to read a sequence backwards. Training ends when this share of its letters is right,
or after BUDGET updates."""

VARIANCE = "variance of q.k over d_k: furthest from 1"
SPREAD = "scaled: entropy at the largest d_k over that at the smallest"
SPIKE = "unscaled: entropy at the largest d_k, as a share of ln n"
TYPICAL = "median gradient at the largest d_k: unscaled over scaled"
DECAY = "unscaled: exponent of the mean gradient in d_k, from 64"
SLOWER = "updates to learn at d_k {}: unscaled over {}"

BANDS = (
    Band(VARIANCE, 0.95, 1.05, "Footnote 4: a sum of d_k products of variance 1."),
    Band(SPREAD, 0.97, 1.03, "Scores have variance 1 at every d_k: about ln n - 1/2 nats."),
    Band(
        SPIKE, 0, 0.1,
        "Of n normal scores with deviation s the largest leads by about s / sqrt(2 ln n) = 11. "
        "The entropy is then pi^2/6 over that lead: 0.15 nats of 4.16.",
    ),
    Band(
        TYPICAL, 0, 0.05,
        "If one key leads, the Jacobian of the softmax has the norm 2 exp(-lead). Half of the "
        "leads are above 0.7 x 11.",
    ),
    Band(
        DECAY, -0.55, -0.3,
        "The mean comes from the few queries whose two best keys are close. Their share falls "
        "with 1/sqrt(d_k), and more slowly where several keys are still close.",
    ),
    Band(
        SLOWER.format(16, "scaled"), 0.5, 2.0,
        "Products of deviation 4 leave a softmax that is still soft.",
    ),
    Band(
        SLOWER.format(256, "scaled"), 2.0, math.inf,
        "“Extremely small gradients”: by more than the factor that counts as similar at d_k 16.",
    ),
    Band(
        SLOWER.format(16, "additive"), 0.5, 2.0,
        "“For small values of d_k the two [...] perform similarly.”",
    ),
    Band(
        SLOWER.format(256, "additive"), 2.0, math.inf,
        "“Additive attention outperforms dot product attention without scaling”: as above.",
    ),
)  # fmt: skip


class LearnedAfter(NamedTuple):
    """The updates until the accuracy was high enough, or infinity; and the accuracy at the end."""

    updates: float
    accuracy: float


class Softness(NamedTuple):
    """A softmax over `KEYS` random keys: mean entropy in nats, mean and median of its gradient.

    The gradient is the Frobenius norm of the Jacobian of weights by scores.
    """

    entropy: float
    gradient: float
    typical: float


Learned = Mapping[tuple[str, int], Sequence[LearnedAfter]]
"""By score and d_k, an entry for each seed."""


def run(trial: Trial) -> Result:
    """Measure random vectors first, then train a layer with each score."""
    queries, budget = trial.amount(128, 1024), trial.amount(30, BUDGET)
    variance: dict[int, float] = {}
    soft: dict[tuple[str, int], Softness] = {}
    for d_key in STATISTICS:
        variance[d_key] = variance_ratio(d_key)
        for name, build in SCORES.items():
            soft[name, d_key] = softness(build(d_key), d_key, queries)
    trial.say("random vectors are measured; training")
    learned = results(
        trial, product(SCORES, TRAINED[:1] if trial.quick else TRAINED),
        lambda of, seed: (*of, budget, seed), learning, seeds=3,
    )  # fmt: skip
    first, last = STATISTICS[0], STATISTICS[-1]
    far = [d_key for d_key in STATISTICS if d_key >= 64]
    means = [soft["unscaled", d_key].gradient for d_key in far]
    measured: dict[str, Value] = {
        VARIANCE: max(variance.values(), key=lambda ratio: abs(ratio - 1)),
        SPREAD: soft["scaled", last].entropy / soft["scaled", first].entropy,
        SPIKE: soft["unscaled", last].entropy / math.log(KEYS),
        TYPICAL: soft["unscaled", last].typical / soft["scaled", last].typical,
        DECAY: float(np.polyfit(np.log(far), np.log(means), 1)[0]),
    }
    for name, d_key in learned:
        if name != "unscaled" and d_key in (16, 256):
            measured[SLOWER.format(d_key, name)] = slower(learned, name, d_key)
    enough = f"Updates until {ENOUGH:.0%} are right, at most {budget:,}"
    entropy = cells(soft, lambda of: [of.entropy])
    gradient = cells(soft, lambda of: [of.gradient])
    typical = cells(soft, lambda of: [of.typical])
    taken = cells(learned, lambda of: [min(each.updates, budget) for each in of])
    right = cells(learned, lambda of: [each.accuracy for each in of])
    sheets = [
        Sheet("Variance of q.k over d_k", single({"": variance}), "d_k", drawn=False),
        Sheet(f"Entropy in nats, {KEYS} keys", entropy, "d_k", log="x"),
        Sheet("Mean gradient of the softmax", gradient, "d_k", drawn=False),
        Sheet("Median gradient of the softmax", typical, "d_k", log="xy"),
        Sheet(enough, taken, "d_k", log="x", level=budget),
        Sheet("Letters right in the end", right, "d_k", ".0%", drawn=False),
    ]
    return Result(measured, sheets)


def variance_ratio(d_key: int) -> float:
    """Return the variance of q.k over d_k, for components of variance 1, to about 1 %."""
    query, key = torch.randn(2, min(2**24 // d_key, 2**18), d_key)
    return float((query * key).sum(dim=1).var() / d_key)


@torch.no_grad()
def softness(score: Score, d_key: int, queries: int) -> Softness:
    """Measure the softmax of attention on random queries and keys."""
    kept: list[Tensor] = []
    for _ in range(queries // 64):
        query = torch.randn(64, 1, 1, d_key)
        key = torch.randn(64, 1, KEYS, d_key)
        attend(query, key, key[..., :1], score=score, observe=kept.append)
    weights = torch.cat(kept)[:, 0, 0].double()
    entropy = -torch.xlogy(weights, weights).sum(dim=1)
    # The Jacobian is diag(p) - p p^T: its diagonal, and the entries beside it.
    square = weights**2
    beside = (square * (square.sum(dim=1, keepdim=True) - square)).sum(dim=1)
    norms = ((square * (1 - weights) ** 2).sum(dim=1) + beside).sqrt()
    return Softness(float(entropy.mean()), float(norms.mean()), float(norms.median()))


def backwards(generator: Generator, rows: int = 32) -> Batch:
    """Return sequences to be read backwards: the label of a position is the letter opposite."""
    tokens = torch.randint(FIRST, FIRST + LETTERS, (rows, LENGTH), generator=generator)
    return Batch((tokens,), tokens.flip(1))


def learning(run: tuple[str, int, int, int]) -> LearnedAfter:
    """Train a layer of one head to read backwards, by its score, d_k, most updates and seed.

    Its width is d_k: Glorot's projections of normalised vectors then start with queries and keys of
    unit variance, as in the paper's footnote.
    """
    name, d_key, most, seed = run
    with drawn_from(seed) as generator:
        body = Stack(1, d_key, 1, d_key, score=SCORES[name](d_key))
        model = Reader(FIRST + LETTERS, d_key, body)
        test = backwards(generator, 256)
    # The paper's rates fall with the root of the width (Eq. 3).
    rate, right = 0.016 * d_key**-0.5, 0.0
    for update, _ in enumerate(updates(model, backwards, generator, most=most, rate=rate), 1):
        if update % 10 == 0:
            right = accuracy(model, test)
            if right >= ENOUGH:
                return LearnedAfter(update, right)
    return LearnedAfter(math.inf, right)


def slower(learned: Learned, name: str, d_key: int) -> Value:
    """Return the updates of the unscaled score over those of another, as medians over seeds."""
    unscaled, other = (
        median(run.updates for run in learned[each, d_key]) for each in ("unscaled", name)
    )
    if unscaled == other == math.inf:
        return f"neither score learned the task with d_k {d_key}"
    return unscaled / other


SCALING = Study(
    "scaling",
    "Dot products grow with d_k and harden the softmax; 1/sqrt(d_k) undoes it",
    "We suspect that for large values of d_k, the dot products grow large in magnitude, pushing "
    "the softmax function into regions where it has extremely small gradients. To counteract this "
    "effect, we scale the dot products by 1/√d_k.",
    "Vaswani et al. 2017, section 3.2.1",
    BANDS,
    run,
    seconds=185,
)
