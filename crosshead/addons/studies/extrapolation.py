"""Sequences longer than in training: how much of the accuracy each kind of positions keeps.

The task needs order at all lengths and nothing far away, like most of what text needs. Each token
assigns a value to a key and asks for the value that this key had before. No position sees a later
one, so a sequence four times as long shows the accuracy at every length.
"""

from functools import partial
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from crosshead.addons.studies.charts import Line, Panel, Table, joined
from crosshead.addons.studies.fitting import FIRST, drawn_from, train
from crosshead.addons.studies.runs import results
from crosshead.addons.studies.study import Band, Result, Study, Trial, Value, reported
from crosshead.errors import UserError
from crosshead.models.language import LanguageConfig, TransformerLanguageModel
from crosshead.text.batching import Batch
from crosshead.vocabulary import PAD

KEYS, VALUES, TIMES_AS_LONG = 8, 8, 4
KINDS: tuple[str, ...] = ("sinusoidal", "learned", "rotary", "shaw", "t5", "alibi", "none")

LEARNED = 0.8
"""The accuracy within the training length from which on the task counts as learned. The share kept
of a lower accuracy says nothing about positions."""

KEPT = "{}: share of the accuracy above chance that is kept beyond twice the length"
READ = "learned: longest sequence that is read, over the length of training"

BANDS = (
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


def run(trial: Trial) -> Result:
    """Train with each kind of positions at one length, and test on longer sequences."""
    length, most = 16 if trial.quick else 128, trial.amount(5, 800)
    tests = 8 if trial.quick else 64
    found = results(
        trial, KINDS, lambda kind, seed: (kind, length, most, seed, tests), learned,
        lambda reading: joined(by_part(reading.correct, length), ".1%"),
    )  # fmt: skip
    measured: dict[str, Value] = {READ: found["learned"][0].longest / length}
    lines = []
    ends = [f"to {times * length}" for times in range(2, TIMES_AS_LONG + 1)]
    rows = [["positions", f"{length // 2} to {length}", *ends]]
    for kind, readings in found.items():
        correct = torch.cat([each.correct for each in readings])
        if kind != "learned":
            within = by_part(correct, length)[0]
            beyond = float(correct[:, 2 * length :].nanmean())
            measured[KEPT.format(kind)] = share_kept(within, beyond)
        curve = correct.unflatten(1, (-1, length // 4)).nanmean(dim=(0, 2)).tolist()
        places = [(each + 0.5) * (length // 4) for each in range(len(curve))]
        lines.append(Line(places, curve, kind))
        by_seed = zip(*(by_part(each.correct, length) for each in readings), strict=True)
        rows.append([kind, *(joined(part, ".1%").replace("nan%", "refused") for part in by_seed)])
    title = f"Accuracy by place and seed, trained on {length} positions in {most} updates"
    panel = Panel("accuracy by place in the sequence", lines, "place", at=length)
    return Result(measured, tables=[Table(title, rows)], panels=[panel])


def learned(run: tuple[str, int, int, int, int]) -> Reading:
    """Train a model by the kind of positions, length, updates and seed; test it on some rows."""
    kind, length, most, seed, rows = run
    with drawn_from(seed) as generator:
        model = build(kind, length)
        test = latest(TIMES_AS_LONG * length, generator, rows=rows)
    train(model, partial(latest, length), generator, most=most, rate=3e-3)
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
    return TransformerLanguageModel(config, FIRST + KEYS * VALUES)


def latest(length: int, generator: Generator, rows: int = 16) -> Batch:
    """Return tokens that each give one of `KEYS` a value, with the key's earlier value as label.

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
    """Return the longest sequence that the model reads: `length`, one more, or its multiples."""
    longest = 0
    for tokens in (length, length + 1, *(times * length for times in range(2, TIMES_AS_LONG + 1))):
        try:
            model.features(torch.full((1, tokens), FIRST))
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
    if within < LEARNED:
        return f"the task was not learned: {within:.0%} right within its length"
    return (beyond - chance) / (within - chance)


EXTRAPOLATION = Study(
    "extrapolation",
    "Positions decide whether sequences longer than those of training can be read",
    "We first show that extrapolation can be enabled by simply changing the position "
    "representation method, though we find that current methods do not allow for efficient "
    "extrapolation.",
    "Press et al. 2022, abstract; Vaswani et al. 2017, section 3.5, hoped for it from sinusoids",
    BANDS,
    run,
    seconds=890,  # recorded with one seed: 446
)
