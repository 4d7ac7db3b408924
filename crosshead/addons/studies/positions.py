"""Positions: what attention is without them, and what longer sequences need.

The task of longer sequences needs order at all lengths and nothing far away, like most of what text
needs. Each token assigns a value to a key and asks for the value that this key had before. No
position sees a later one, so a sequence four times as long shows the accuracy at every length.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import torch
from torch import Generator, Tensor, nn

from crosshead.addons.studies import fitting
from crosshead.addons.studies.charts import Sheet, by_seed, single
from crosshead.addons.studies.runs import means, results
from crosshead.addons.studies.study import Band, Result, Study, Trial, Value, reported
from crosshead.attention.attend import attend
from crosshead.attention.masks import Mask, causal
from crosshead.attention.positions import sinusoidal
from crosshead.errors import UserError
from crosshead.models.language import LanguageConfig, TransformerLanguageModel
from crosshead.text.batching import Batch
from crosshead.vocabulary import PAD

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
    learned = results(trial, ARMS, lambda name, seed: (name, most, seed), learn)
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

KEYS, VALUES, TIMES_AS_LONG = 8, 8, 4
KINDS: tuple[str, ...] = ("sinusoidal", "learned", "rotary", "shaw", "t5", "alibi", "none")

KNOWN = 0.8
"""The accuracy within the training length from which on the task counts as learned. The share kept
of a lower accuracy says nothing about positions."""

KEPT = "{}: share of the accuracy above chance that is kept beyond twice the length"
READ = "learned: longest sequence that is read, over the length of training"

EXTRAPOLATION_BANDS = (
    Band(READ, 1, 1, "There is no vector for the next position."),
    Band(KEPT.format("shaw"), 0.9, 1.05, "Distances beyond 16 share one vector: none is new."),
    Band(KEPT.format("t5"), 0.9, 1.05, "The bucket of all distances beyond 113 was trained."),
    Band(KEPT.format("alibi"), 0.97, 1.05, "Keys further away weigh less, at any distance."),
    *(
        reported(KEPT.format(kind), "No share of this accuracy follows from a source.")
        for kind in ("sinusoidal", "rotary", "none")
    ),
)  # fmt: skip


class Reading(NamedTuple):
    """Which labels "B T" a model finds (see `right`), and how far it reads."""

    correct: Tensor
    longest: int


def run_extrapolation(trial: Trial) -> Result:
    """Train with each kind of positions at one length, and test on longer sequences."""
    length, most = 16 if trial.quick else 128, trial.amount(5, 800)
    tests = 8 if trial.quick else 64
    found = results(trial, KINDS, lambda kind, seed: (kind, length, most, seed, tests), reading)
    measured: dict[str, Value] = {READ: found["learned"][0].longest / length}
    ends = [times * length for times in range(1, TIMES_AS_LONG + 1)]
    rows: dict[str, dict[int, list[float]]] = {}
    for kind, readings in found.items():
        parts = zip(*(by_part(each.correct, length) for each in readings), strict=True)
        # A part that is not read is an empty cell.
        rows[kind] = {
            end: [right for right in part if not math.isnan(right)]
            for end, part in zip(ends, parts, strict=True)
        }
        if kind != "learned":
            correct = torch.cat([each.correct for each in readings])
            within = by_part(correct, length)[0]
            beyond = float(correct[:, 2 * length :].nanmean())
            measured[KEPT.format(kind)] = share_kept(within, beyond)
    title = f"Accuracy up to a place, by seed, trained on {length} positions in {most} updates"
    return Result(measured, [Sheet(title, rows, "place", ".1%", at=length)])


def reading(run: tuple[str, int, int, int, int]) -> Reading:
    """Train a model by the kind of positions, length, updates and seed; test it on some rows."""
    kind, length, most, seed, rows = run
    with fitting.drawn_from(seed) as generator:
        model = build(kind, length)
        test = latest(TIMES_AS_LONG * length, generator, rows=rows)
    fitting.train(model, partial(latest, length), generator, most=most, rate=3e-3)
    longest = longest_read(model, length)
    return Reading(right(model, test, longest), longest)


def by_part(correct: Tensor, length: int) -> list[float]:
    """Return the accuracy in the second half of the training length and in each length beyond."""
    parts = [correct[:, length // 2 : length], *correct.split(length, dim=1)[1:]]
    return [float(part.nanmean()) for part in parts]  # NaN for a part that is not read


def build(kind: str, length: int) -> TransformerLanguageModel:
    """Return two decoder-only layers."""
    shape = {"layers": 2, "d_model": 64, "d_ff": 128, "heads": 8, "dropout": 0.0, "positions": kind}
    most = {"max_length": length} if kind == "learned" else {}
    config = LanguageConfig.model_validate(shape | most)
    return TransformerLanguageModel(config, fitting.FIRST + KEYS * VALUES)


def latest(length: int, generator: Generator, rows: int = 16) -> Batch:
    """Return tokens that each give one of `KEYS` a value, with the key's earlier value as label.

    The first token of a key has no label.
    """
    drawn = torch.randint(KEYS * VALUES, (rows, length), generator=generator)
    keys, values = drawn // VALUES, drawn % VALUES + fitting.FIRST
    labels = torch.empty_like(drawn)
    held = torch.full((rows, KEYS), PAD)
    for position in range(length):
        key = keys[:, position : position + 1]
        labels[:, position : position + 1] = held.gather(1, key)
        held.scatter_(1, key, values[:, position : position + 1])
    return Batch((drawn + fitting.FIRST,), labels)


@torch.no_grad()
def longest_read(model: TransformerLanguageModel, length: int) -> int:
    """Return the longest sequence that the model reads: `length`, one more, or its multiples."""
    longest = 0
    for tokens in (length, length + 1, *(times * length for times in range(2, TIMES_AS_LONG + 1))):
        try:
            model.features(torch.full((1, tokens), fitting.FIRST))
        except UserError:
            break
        longest = tokens
    return longest


@torch.no_grad()
def right(model: TransformerLanguageModel, batch: Batch, longest: int) -> Tensor:
    """Score each label "B T": 1 if predicted, else 0; NaN without a label or beyond `longest`."""
    found = torch.full(batch.target_output.shape, torch.nan)
    labels = batch.target_output[:, :longest]
    hits = (model(batch.inputs[0][:, :longest]).argmax(dim=-1) == labels).float()
    found[:, :longest] = hits.masked_fill(labels == PAD, torch.nan)
    return found


def share_kept(within: float, beyond: float) -> Value:
    """Return the share of an accuracy above guessing that is kept beyond the training length."""
    chance = 1 / VALUES
    if within < KNOWN:
        return f"the task was not learned: {within:.0%} right within its length"
    return (beyond - chance) / (within - chance)


EXTRAPOLATION = Study(
    "extrapolation",
    "Positions decide whether sequences longer than those of training can be read",
    "We first show that extrapolation can be enabled by simply changing the position "
    "representation method, though we find that current methods do not allow for efficient "
    "extrapolation.",
    "Press et al. 2022, abstract; Vaswani et al. 2017, section 3.5, hoped for it from sinusoids",
    EXTRAPOLATION_BANDS,
    run_extrapolation,
    seconds=890,  # recorded with one seed: 446
)
