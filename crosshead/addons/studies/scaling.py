"""Effects of dividing dot products by sqrt(d_k): on the softmax, and on training."""

import math
from collections.abc import Callable
from statistics import median
from typing import NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor

from crosshead.addons.studies.charts import Line, Panel
from crosshead.addons.studies.fitting import FIRST, Reader, Stack, accuracy, drawn_from, updates
from crosshead.addons.studies.formats import number
from crosshead.addons.studies.study import Band, Result, Study, Table, Trial, Value, at_any_size
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
    *at_any_size(
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

    def __str__(self) -> str:
        if self.updates == math.inf:
            return f"not reached ({self.accuracy:.0%})"
        return number(self.updates)


class Softness(NamedTuple):
    """A softmax over `KEYS` random keys: mean entropy in nats, mean and median of its gradient.

    The gradient is the Frobenius norm of the Jacobian of weights by scores.
    """

    entropy: float
    gradient: float
    typical: float


Learned = dict[tuple[str, int], list[LearnedAfter]]
"""By score and d_k, an entry for each seed."""


def run(trial: Trial) -> Result:
    """Measure random vectors first, then train a layer with each score."""
    rows = [["d_k", "variance / d_k", "score", "entropy", "mean gradient", "median gradient"]]
    ratios, found = [], {}
    for d_key in STATISTICS:
        ratios.append(variance_ratio(d_key))
        for name, build in SCORES.items():
            soft = found[name, d_key] = softness(build(d_key), d_key, trial.amount(128, 1024))
            rows.append([str(d_key), number(ratios[-1]), name, *map(number, soft)])
    trial.say("random vectors are measured; training")
    learned: Learned = {}
    budget = trial.amount(30, BUDGET)
    updates_rows = [["d_k", "score", "updates"]]
    for d_key in TRAINED[:1] if trial.quick else TRAINED:
        for name, build in SCORES.items():
            seeds = trial.seeds(3)
            learned[name, d_key] = [learning(build, d_key, budget, each) for each in seeds]
            taken = ", ".join(map(str, learned[name, d_key]))
            updates_rows.append([str(d_key), name, taken])
            trial.say(f"d_k {d_key}, {name}: updates until learned, by seed: {taken}")
    first, last = STATISTICS[0], STATISTICS[-1]
    far = [d_key for d_key in STATISTICS if d_key >= 64]
    means = [found["unscaled", d_key].gradient for d_key in far]
    measured: dict[str, Value] = {
        VARIANCE: max(ratios, key=lambda ratio: abs(ratio - 1)),
        SPREAD: found["scaled", last].entropy / found["scaled", first].entropy,
        SPIKE: found["unscaled", last].entropy / math.log(KEYS),
        TYPICAL: found["unscaled", last].typical / found["scaled", last].typical,
        DECAY: float(np.polyfit(np.log(far), np.log(means), 1)[0]),
    }
    for name, d_key in learned:
        if name != "unscaled" and d_key in (16, 256):
            measured[SLOWER.format(d_key, name)] = slower(learned, name, d_key)
    title = (
        f"Updates, by seed, until {ENOUGH:.0%} of the letters are right (or how many were in the "
        f"end, after {budget:,})"
    )
    tables = [Table(f"Random vectors, {KEYS} keys", rows), Table(title, updates_rows)]
    return Result(measured, tables, panels(found, learned, budget))


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


def learning(build: Callable[[int], Score], d_key: int, most: int, seed: int) -> LearnedAfter:
    """Train a layer of one head to read backwards.

    Its width is d_k: Glorot's projections of normalised vectors then start with queries and keys of
    unit variance, as in the paper's footnote.
    """
    with drawn_from(seed) as generator:
        body = Stack(1, d_key, 1, d_key, score=build(d_key))
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


def panels(found: dict[tuple[str, int], Softness], learned: Learned, budget: int) -> list[Panel]:
    """Show entropy, gradients and updates by d_k."""
    soft, gradients, training = [], [], []
    for name in SCORES:
        measured = [found[name, d_key] for d_key in STATISTICS]
        soft.append(Line(STATISTICS, [each.entropy for each in measured], name))
        means, medians = zip(*((each.gradient, each.typical) for each in measured), strict=True)
        gradients += [
            Line(STATISTICS, means, f"{name}, mean"),
            Line(STATISTICS, medians, f"{name}, median", "s:"),
        ]
        places = [d_key for each, d_key in learned if each == name]
        heights = [min(_median(learned, name, d_key), budget) for d_key in places]
        training.append(Line(places, heights, name))
    return [
        Panel("entropy (nats)", soft, "d_k", log="x"),
        Panel("gradient of the softmax", gradients, "d_k", log="xy"),
        Panel("median updates to learn, if learned", training, "d_k", log="x", level=budget),
    ]


def _median(learned: Learned, name: str, d_key: int) -> float:
    return median(run.updates for run in learned[name, d_key])


def slower(learned: Learned, name: str, d_key: int) -> Value:
    """Return the updates of the unscaled score over those of another."""
    unscaled, other = (_median(learned, each, d_key) for each in ("unscaled", name))
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
