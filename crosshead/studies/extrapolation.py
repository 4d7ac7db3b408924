"""Sequences longer than those of training: how far each kind of positions carries what was learned.

The task needs order at all lengths and nothing far away, as most of what text needs does: each
token assigns a value to a key, and each is to be told the value that its key had before. No
position sees a later one, so that a sequence four times as long shows accuracy at every length.
"""

import math
from functools import partial
from typing import Any

import torch
from torch import Generator, Tensor

from crosshead.data.batching import Batch
from crosshead.errors import UserError
from crosshead.models.language import LanguageConfig, TransformerLanguageModel
from crosshead.models.stack import Positions
from crosshead.studies.fitting import FIRST, drawn_from, updates
from crosshead.studies.study import Band, Result, Say, Study, Table
from crosshead.vocabulary import PAD

KEYS, VALUES, TIMES = 8, 8, 4
KINDS: tuple[Positions, ...] = ("sinusoidal", "learned", "rotary", "shaw", "t5", "alibi", "none")

KEPT = "{}: share of the accuracy above chance that is kept beyond twice the length"
READ = "learned: longest sequence that is read, over the length of training"
LEARNED = "least accuracy within the length of training"

BANDS = (
    Band(
        KEPT.format("sinusoidal"), -0.2, 0.8,
        "Vectors that were never seen are added to the embeddings; in Press et al. 2022, figure 1, "
        "perplexity grows soon after the training length.",
    ),
    Band(READ, 1, 1, "There is no vector for the next position: the model refuses."),
    Band(
        KEPT.format("rotary"), 0.2, 0.95,
        "Better than sinusoids and not good (figure 1 there): distances beyond the training length "
        "turn the slow pairs by angles that were never seen.",
    ),
    Band(
        KEPT.format("shaw"), 0.9, 1.05,
        "Distances beyond 16 are alike, so that none is new; weights spread over more keys.",
    ),
    Band(
        KEPT.format("t5"), 0.9, 1.05,
        "The last bucket holds all distances beyond 113 and was trained; good in figure 1 there.",
    ),
    Band(
        KEPT.format("alibi"), 0.97, 1.05,
        "What is further away weighs less, at any distance: perplexity stays in figure 1 there.",
    ),
    Band(
        KEPT.format("none"), 0.2, 0.95,
        "The causal mask lets layers count, but counts beyond the training length are new, and "
        "there are more former values among which to find the last.",
    ),
    Band(LEARNED, 0.85, 1, "All can learn the task, else nothing is said of the rest."),
)  # fmt: skip


def run(quick: bool, seed: int, say: Say) -> Result:
    """Train with each kind of positions at one length and look at sequences `TIMES` as long."""
    length, most = (16, 5) if quick else (128, 800)
    measured: dict[str, float] = {}
    curves: dict[str, Tensor] = {}
    within, rows = [], []
    for kind in KINDS:
        with drawn_from(seed) as generator:
            model = build(kind, length)
            test = latest(TIMES * length, generator, rows=8 if quick else 64)
        for _ in updates(model, partial(latest, length), generator, most=most, rate=3e-3):
            pass
        longest = longest_read(model, length)
        correct = right(model, test, longest)
        parts = [correct[:, length // 2 : length], *correct.split(length, dim=1)[1:]]
        accuracies = [float(part.nanmean()) for part in parts]  # NaN where nothing is read
        within.append(accuracies[0])
        if kind == "learned":
            measured[READ] = longest / length
        else:
            beyond = float(correct[:, 2 * length :].nanmean())
            measured[KEPT.format(kind)] = share_kept(accuracies[0], beyond)
        curves[kind] = correct.unflatten(1, (-1, length // 4)).nanmean(dim=(0, 2))
        rows.append([kind, *("refused" if math.isnan(a) else f"{a:.1%}" for a in accuracies)])
        say(f"positions {kind}: {', '.join(rows[-1][1:])}")
    measured[LEARNED] = min(within)
    ends = [f"to {times * length}" for times in range(2, TIMES + 1)]
    heads = ["positions", f"{length // 2} to {length}", *ends]
    title = f"Accuracy by place in the sequence, trained on {length} positions"
    return Result(measured, [Table(title, [heads, *rows])], partial(draw, curves, length))


def build(kind: Positions, length: int) -> TransformerLanguageModel:
    """Two decoder-only layers."""
    shape = {"layers": 2, "d_model": 64, "d_ff": 128, "heads": 8, "dropout": 0.0}
    most = {"max_length": length} if kind == "learned" else {}
    config = LanguageConfig.model_validate({**shape, "positions": kind, **most})
    return TransformerLanguageModel(config, FIRST + KEYS * VALUES)


def latest(length: int, generator: Generator, rows: int = 16) -> Batch:
    """Tokens that each give one of `KEYS` a value; labels are the value that it had before.

    The first token of a key has no label.
    """
    drawn = torch.randint(KEYS * VALUES, (rows, length), generator=generator)
    keys, values = drawn // VALUES, drawn % VALUES + FIRST
    labels = torch.empty_like(drawn)
    held = torch.full((rows, KEYS), PAD)
    for position in range(length):
        key = keys[:, position : position + 1]
        labels[:, position : position + 1] = held.gather(1, key)
        held.scatter_(1, key, values[:, position : position + 1])
    return Batch((drawn + FIRST,), labels)


@torch.no_grad()
def longest_read(model: TransformerLanguageModel, length: int) -> int:
    """The longest that is not refused, of `length`, one more, and so many times that."""
    longest = 0
    for tokens in (length, length + 1, *(times * length for times in range(2, TIMES + 1))):
        try:
            model.features(torch.full((1, tokens), FIRST))
        except UserError:
            break
        longest = tokens
    return longest


@torch.no_grad()
def right(model: TransformerLanguageModel, batch: Batch, longest: int) -> Tensor:
    """Whether each label `B T` is found: 1 or 0, and NaN where there is none or nothing is read."""
    found = torch.full(batch.target_output.shape, torch.nan)
    tokens = batch.inputs[0][:, :longest]
    labels = batch.target_output[:, :longest]
    hits = (model(tokens).argmax(dim=-1) == labels).float()
    found[:, :longest] = hits.masked_fill(labels == PAD, torch.nan)
    return found


def share_kept(within: float, beyond: float) -> float:
    """What is left of an accuracy above that of guessing; NaN where there was none above it."""
    chance = 1 / VALUES
    return (beyond - chance) / (within - chance) if within > chance else math.nan


def draw(curves: dict[str, Tensor], length: int, figure: Any) -> None:
    """Accuracy by place, a line for each kind."""
    axes = figure.subplots()
    for kind, curve in curves.items():
        places = (torch.arange(len(curve)) + 0.5) / len(curve) * TIMES * length
        axes.plot(places, curve, "o-", ms=3, label=kind)
    axes.axvline(length, color="gray", ls=":")
    axes.set(ylim=(0, 1.02), xlabel="place in the sequence", ylabel="accuracy")
    axes.grid(alpha=0.3)
    axes.legend(title="positions", loc="center left", bbox_to_anchor=(1, 0.5))


EXTRAPOLATION = Study(
    "extrapolation",
    "Positions decide whether sequences longer than those of training can be read",
    "We first show that extrapolation can be enabled by simply changing the position "
    "representation method, though we find that current methods do not allow for efficient "
    "extrapolation.",
    "Press et al. 2022, abstract; Vaswani et al. 2017, section 3.5, chose sinusoids because these "
    "“may allow the model to extrapolate to sequence lengths longer than the ones encountered "
    "during training”",
    BANDS,
    run,
)
