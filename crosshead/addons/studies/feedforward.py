"""A test of the feed-forward network: attention averages; a sum is no function of two inputs."""

from functools import partial
from itertools import product

import torch
from torch import Generator, Tensor, nn

from crosshead.addons.studies import fitting
from crosshead.addons.studies.charts import Sheet, by_seed
from crosshead.addons.studies.runs import means, results
from crosshead.addons.studies.study import Band, Result, Study, Trial, Value
from crosshead.attention.multihead import MultiHeadAttention
from crosshead.layers.feedforward import FeedForward
from crosshead.system.progress import counted
from crosshead.text.batching import Batch

WIDTH = 64

ARMS = ((2, 1, False), (17, 1, False), (17, 4, False), (17, 4, True))
"""The compared models, each with and without feed-forward: modulus, heads, and whether there are
norms. The two in the middle have no band; they separate the effects of heads and norms."""

Arm = tuple[int, int, bool, bool]
"""Modulus, heads, whether there are norms, and whether there is a feed-forward network."""

PARITY_WITHOUT = "parity, one head, without feed-forward: accuracy"
PARITY_WITH = "parity, one head, with feed-forward: accuracy"
SUM_WITH = "sum modulo 17, a normalised layer of four heads, with feed-forward: accuracy"
SUM_GAP = "sum modulo 17, the same layer: what feed-forward adds to the accuracy"

BANDS = (
    Band(
        PARITY_WITHOUT, 0, 0.75,
        "A head's average times its denominator is g(a) + h(b) + c. No threshold on such a sum is "
        "right in more than three of four cases. This is a proof.",
    ),
    Band(PARITY_WITH, 1, 1, "One hidden layer computes the parity of two bits."),
    Band(SUM_WITH, 0.99, 1, "There are several times as many weights as pairs to tell apart."),
    Band(
        SUM_GAP, 0.25, 1,
        "If attention only averages, more attention is no substitute: it loses as much as one head "
        "loses at parity. (The proof does not reach here: each head has its own denominator.)",
    ),
)  # fmt: skip


class SumLayer(nn.Module):
    """A pre-norm layer "B T D" to "B T D", with a feed-forward network or with a wider attention.

    Either way it has 12 D^2 weights, apart from biases. Without `normed` there are no norms.
    """

    def __init__(self, heads: int, *, feedforward: bool, normed: bool) -> None:
        super().__init__()
        width = (1 if feedforward else 3) * WIDTH // heads
        self.attention = MultiHeadAttention(WIDTH, heads, d_key=width, d_value=width)
        self.feedforward = FeedForward(WIDTH, 4 * WIDTH) if feedforward else None
        kind = partial(nn.LayerNorm, WIDTH) if normed else nn.Identity
        self.before, self.last = kind(), kind()
        self.between = kind() if feedforward else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Compute one layer, and the norm at the end of a stack."""
        y = self.before(x)
        x = x + self.attention(y, self.attention.project(y))
        if self.feedforward is not None:
            x = x + self.feedforward(self.between(x))
        states: Tensor = self.last(x)
        return states


def run(trial: Trial) -> Result:
    """Train each task with and without, at equal weights, and test on all pairs."""
    most = trial.amount(20, 1500)
    arms = [(*arm, feedforward) for arm, feedforward in product(ARMS, (False, True))]
    found = results(trial, arms, lambda arm, seed: (arm, most, seed), learn)
    title = f"Accuracy on all pairs after {most:,} updates, by the modulus of the sum"
    sheet = Sheet(title, by_seed({described(*arm): of for arm, of in found.items()}), form=".1%")
    return Result(accuracies(means(found)), [sheet])


def accuracies(mean: dict[Arm, float]) -> dict[str, Value]:
    """Return the quantities; failing without feed-forward counts if others learn the task."""
    parity, total = mean[2, 1, False, True], mean[17, 4, True, True]
    found: dict[str, Value] = {
        PARITY_WITHOUT: mean[2, 1, False, False],
        PARITY_WITH: parity,
        SUM_WITH: total,
        SUM_GAP: total - mean[17, 4, True, False],
    }
    for name, right in ((PARITY_WITHOUT, parity), (SUM_GAP, total)):
        if right < fitting.LEARNED:
            found[name] = f"with feed-forward only {right:.0%} were right either"
    return found


def learn(run: tuple[Arm, int, int]) -> float:
    """Train a model of one layer on sums, for some updates from a seed; test it on all pairs."""
    (modulus, heads, normed, feedforward), most, seed = run
    with fitting.drawn_from(seed) as generator:
        layer = SumLayer(heads, feedforward=feedforward, normed=normed)
        model = fitting.Reader(fitting.FIRST + modulus + 1, WIDTH, layer)
    fitting.train(model, partial(random_sums, modulus), generator, most=most, rate=2e-3)
    pairs = torch.cartesian_prod(torch.arange(modulus), torch.arange(modulus))
    return fitting.accuracy(model, sums(pairs, modulus))


def random_sums(modulus: int, generator: Generator, rows: int = 256) -> Batch:
    """Return pairs drawn at random, with their sums."""
    return sums(torch.randint(modulus, (rows, 2), generator=generator), modulus)


def sums(pairs: Tensor, modulus: int) -> Batch:
    """Return pairs "B 2" as the tokens a, b and `=`, with the sum as label at `=`."""
    equals = torch.full((len(pairs), 1), modulus)
    tokens = torch.cat([pairs, equals], dim=1) + fitting.FIRST
    last = torch.full((len(pairs),), 2)
    return fitting.labelled_at(tokens, last, pairs.sum(dim=1) % modulus + fitting.FIRST)


def described(modulus: int, heads: int, normed: bool, feedforward: bool) -> str:
    """Describe a model in words."""
    layer = f"{counted(heads, 'head')}, {'normalised' if normed else 'no norms'}"
    return f"mod {modulus}, {layer}, {'feed-forward' if feedforward else 'wider attention'}"


FEEDFORWARD = Study(
    "feedforward",
    "Attention averages; functions of what it gathers need the feed-forward network",
    "The output is computed as a weighted sum of the values. [...] In addition to attention "
    "sub-layers, each of the layers in our encoder and decoder contains a fully connected "
    "feed-forward network.",
    "Vaswani et al. 2017, sections 3.2 and 3.3",
    BANDS,
    run,
    seconds=463,
)
