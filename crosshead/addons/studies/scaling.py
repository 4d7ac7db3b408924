"""Effects of dividing dot products by sqrt(d_k): on the softmax, and on training."""

import math
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor

from crosshead.addons.studies.charts import COLORS
from crosshead.addons.studies.effort import Effort, Times, seeds_of
from crosshead.addons.studies.fitting import FIRST, Reader, Stack, accuracy, drawn_from, updates
from crosshead.addons.studies.formats import number
from crosshead.addons.studies.study import Band, Result, Say, Study, Table, Value
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
        "Of n normal scores with deviation s the largest leads by about s / sqrt(2 ln n) = 11. The "
        "entropy is then pi^2/6 over that lead: 0.15 nats of 4.16.",
    ),
    Band(
        TYPICAL, 0, 0.05,
        "If one key leads, the Jacobian of the softmax has the Frobenius norm 2 exp(-lead). Half "
        "of the leads are above 0.7 x 11.",
    ),
    Band(
        DECAY, -0.55, -0.3,
        "The mean comes from the few queries whose two best keys are close. Their share falls with "
        "1/sqrt(d_k), and more slowly where several keys are still close.",
    ),
    Band(
        SLOWER.format(16, "scaled"), 0.5, 2.0,
        "Products of deviation 4 leave a softmax that is still soft.",
    ),
    Band(
        SLOWER.format(256, "scaled"), 2.0, math.inf,
        "“Extremely small gradients”: it takes longer, or never ends. The bound is the factor of 2 "
        "that counts as similar at d_k 16; seeds differ by less.",
    ),
    Band(
        SLOWER.format(16, "additive"), 0.5, 2.0,
        "“For small values of d_k the two [...] perform similarly.”",
    ),
    Band(
        SLOWER.format(256, "additive"), 2.0, math.inf,
        "“Additive attention outperforms dot product attention without scaling”: by more than the "
        "factor that counts as similar at d_k 16.",
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


def run(effort: Effort, seed: int, say: Say) -> Result:
    """Measure random vectors first, then train a layer with each score."""
    rows = [["d_k", "variance / d_k", "score", "entropy", "mean gradient", "median gradient"]]
    ratios, found = [], {}
    for d_key in STATISTICS:
        ratios.append(variance_ratio(d_key))
        for name, build in SCORES.items():
            soft = softness(build(d_key), d_key, 128 if effort.quick else 1024)
            found[name, d_key] = soft
            rows.append([str(d_key), number(ratios[-1]), name, *map(number, soft)])
    say("random vectors are measured; training")
    learned: Learned = {}
    budget = effort.amount(30, BUDGET)
    updates_rows = [["d_k", "score", "updates"]]
    for d_key in (16,) if effort.quick else TRAINED:
        for name, build in SCORES.items():
            runs = [learning(build, d_key, budget, each) for each in seeds_of(effort, seed, 3)]
            learned[name, d_key], taken = runs, ", ".join(map(str, runs))
            updates_rows.append([str(d_key), name, taken])
            say(f"d_k {d_key}, {name}: updates until learned, by seed: {taken}")
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
    for name in ("scaled", "additive"):
        measured |= {SLOWER.format(d, name): slower(learned, name, d) for d in (16, 256)}
    title = (
        f"Updates, by seed, until {ENOUGH:.0%} of the letters are right (or how many were in the "
        f"end, after {budget:,})"
    )
    tables = [Table(f"Random vectors, {KEYS} keys", rows), Table(title, updates_rows)]
    return Result(measured, tables, partial(draw, found, learned, budget))


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


def draw(
    found: dict[tuple[str, int], Softness], learned: Learned, budget: int, figure: Any
) -> None:
    """Draw entropy, gradients and updates by d_k; a cross marks a budget without success."""
    soft, gradients, training = figure.subplots(1, 3)
    for name, color in zip(SCORES, COLORS, strict=True):
        measured = [found[name, d_key] for d_key in STATISTICS]
        soft.plot(STATISTICS, [each.entropy for each in measured], "o-", color=color, label=name)
        for style, of, values in (
            ("o-", "mean", [each.gradient for each in measured]),
            ("o:", "median", [each.typical for each in measured]),
        ):
            gradients.plot(STATISTICS, values, style, color=color, label=f"{name}, {of}")
        taken = {d: _median(learned, name, d) for each, d in learned if each == name}
        heights = [min(reached, budget) for reached in taken.values()]
        training.plot(list(taken), heights, "-", color=color, label=name)
        for (d_key, reached), height in zip(taken.items(), heights, strict=True):
            training.plot(d_key, height, "x" if reached == math.inf else "o", color=color)
    soft.set(xscale="log", title="entropy (nats)")
    gradients.set(xscale="log", yscale="log", title="gradient of the softmax")
    training.set(xscale="log", title="updates to learn (median)", ylim=(0, 1.05 * budget))
    training.set_xticks(TRAINED, map(str, TRAINED))
    training.minorticks_off()
    for axes in (soft, gradients, training):
        axes.set_xlabel("d_k")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7)


def _median(learned: Learned, name: str, d_key: int) -> float:
    return median(run.updates for run in learned[name, d_key])


def slower(learned: Learned, name: str, d_key: int) -> Value:
    """Return the updates of the unscaled score over those of another."""
    if (name, d_key) not in learned:
        return f"the quick form does not train with d_k {d_key}"
    unscaled, other = (_median(learned, each, d_key) for each in ("unscaled", name))
    if unscaled == other == math.inf:
        return f"neither score learned the task with d_k {d_key}"
    return unscaled / other


SCALING = Study(
    "scaling",
    "Dot products grow with d_k and harden the softmax; 1/sqrt(d_k) undoes it",
    "While for small values of d_k the two mechanisms perform similarly, additive attention "
    "outperforms dot product attention without scaling for larger values of d_k. We suspect that "
    "for large values of d_k, the dot products grow large in magnitude, pushing the softmax "
    "function into regions where it has extremely small gradients. To counteract this effect, we "
    "scale the dot products by 1/√d_k.",
    "Vaswani et al. 2017, section 3.2.1",
    BANDS,
    run,
    Times(quick=7, full=185),
)
