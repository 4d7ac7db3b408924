"""Time of recurrence and attention by width, batch and length: layers alone, and whole models.

Self-attention alone has one head, and stands beside an LSTM of the same width. A layer alone is an
encoder layer whose feed-forward network is twice as wide as the model, beside an LSTM of the same
width: both have 8 d^2 weights. A whole model is a Transformer of two layers a side, beside an LSTM
encoder-decoder with Luong's attention and as many weights. Each is measured forwards, and forwards
and backwards. No optimiser takes part; it would cost both the same.
"""

import statistics
from collections.abc import Callable, Mapping
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor, nn

from crosshead.addons.studies import measuring
from crosshead.addons.studies.charts import Sheet, Table, number, spread
from crosshead.addons.studies.fitting import FIRST, Stack, as_large, transformer, weights
from crosshead.addons.studies.study import Band, Result, Study, Trial, Value
from crosshead.layers.layer_types import RecurrentLayer, SelfAttention
from crosshead.models.registry import AnyTokenConfig, build_model
from crosshead.system.devices import choose_device
from crosshead.system.progress import counted
from crosshead.tasks.token_loss import LabelSmoothing, token_loss
from crosshead.text.batching import Batch, collate

VOCABULARY, HEADS = 1000, 4
ATTENTION, RECURRENCE = "attention", "recurrence"
SELF, LAYER, MODEL = "self-attention alone", "layer alone", "whole model"
LEVELS = SELF, LAYER, MODEL


class TimingSizes(NamedTuple):
    """The sizes that are measured."""

    widths: tuple[int, ...]
    batches: tuple[int, ...]
    lengths: tuple[int, ...]


class TimingCase(NamedTuple):
    """One comparison."""

    level: str
    width: int
    sentences: int
    length: int
    direction: str


Ratios = Mapping[TimingCase, list[float]]
"""The recurrence's time over attention's, in every round."""

FULL = TimingSizes((256, 512, 1024), (1, 4, 16), (16, 64, 256))
QUICK = TimingSizes((32, 64), (1, 2), (4, 8))

ONE = "layer alone, width {}, one sentence of 256: time of recurrence over that of attention"
SIXTEEN = "layer alone, width 512, 16 sentences of 256: that ratio"
GROWTH = "layer alone, width 512, one sentence: that ratio at 256 tokens over the same at 16"
BELOW = f"{SELF}, one sentence, n < d: share of sizes at which it is faster in every round"
WHOLE = "whole model, width 512, one sentence of 256: time of recurrence over that of attention"

BANDS = (
    Band(
        ONE.format(512), 2, 10,
        "Half of an LSTM's products have one row: two operations for each 4 bytes of weights. At "
        "30 to 50 GB/s they run at a quarter to an eighth of the speed of large products, so the "
        "ratio is 2.5 to 4.5; other costs of 256 steps raise it, up to twofold.",
    ),
    Band(ONE.format(1024), 2.5, 15, "As above, but the 16 MiB of a step exceed a core's caches."),
    Band(
        SIXTEEN, 1, 4,
        "Sixteen rows share each weight that is read: a half to all of the speed of large "
        "products. Attention's n^2 d operations are a quarter more.",
    ),
    Band(GROWTH, 1.3, 6, "At 16 tokens attention's products have few rows, too."),
    Band(BELOW, 1, 1, "The claim. Self-attention has at most 0.75 of the operations there."),
    Band(WHOLE, 1.5, 6, "As for layers, but half of the work is the same in both models."),
)  # fmt: skip

LONGEST = TimingCase(LAYER, 512, 1, FULL.lengths[-1], measuring.TRAINING)

WANTED = {
    ONE.format(512): LONGEST,
    ONE.format(1024): LONGEST._replace(width=1024),
    SIXTEEN: LONGEST._replace(sentences=16),
    WHOLE: LONGEST._replace(level=MODEL),
}


def run(trial: Trial) -> Result:
    """Measure both kinds in turns, round after round, at each size."""
    how = sizes_of(trial)
    device, generator = choose_device("auto"), Generator().manual_seed(trial.seed)
    found: dict[TimingCase, list[float]] = {}
    rows = [["what", "width", "sentences x tokens", "direction", ATTENTION, RECURRENCE, "ratio"]]
    for level, width in product(LEVELS, how.widths):
        pair = {name: each.to(device) for name, each in pair_of(level, width).items()}
        for sentences, length in product(how.batches, how.lengths):
            given = inputs(level, sentences, length, width, generator).to(device)
            for direction in (measuring.FORWARD, measuring.TRAINING):
                calls = {name: call(each, given, direction) for name, each in pair.items()}
                times = measuring.in_turns(trial, calls)
                over = measuring.ratios(times[RECURRENCE], times[ATTENTION])
                found[TimingCase(level, width, sentences, length, direction)] = over
                shown = (f"{number(measuring.milliseconds(each))} ms" for each in times.values())
                where, ratio = f"{sentences} x {length}", spread(over)
                rows.append([level, f"{width}", where, direction, *shown, ratio])
        trial.say(f"{level}, width {width}: {ratio} at {where} tokens, {measuring.TRAINING}")
    where = f"{device}, {torch.get_num_threads()} threads"
    table = Table(f"Least times, and ratios with their range over rounds, on {where}", rows)
    return Result(measured(found), sheets(found, how), [table])


def sizes_of(trial: Trial) -> TimingSizes:
    """Return the sizes that fit the effort: large batches take most of the time, and go first."""
    if trial.quick:
        return QUICK
    return FULL._replace(batches=FULL.batches[: trial.amount(1, len(FULL.batches))])


def pair_of(level: str, width: int) -> dict[str, nn.Module]:
    """Return attention and recurrence; layers and whole models have as many weights."""
    if level == MODEL:
        shapes = shapes_of(width).items()
        return {name: build_model(shape, VOCABULARY, VOCABULARY) for name, shape in shapes}
    alone = level == SELF
    attention = SelfAttention(width, 1) if alone else Stack(1, width, HEADS, 2 * width)
    return {ATTENTION: attention, RECURRENCE: RecurrentLayer(width, nn.LSTM)}


def shapes_of(width: int) -> dict[str, AnyTokenConfig]:
    """Return a Transformer of this width, and a recurrent model with as many weights."""
    # Two layers a side, each one call of PyTorch's; nothing is a loop in Python.
    recurrent = {"architecture": "recurrent", "attention": "luong-general", "dropout": 0.0}
    attending = transformer(width, 4 * width, HEADS, 2)
    wanted = weights(attending, VOCABULARY)
    return {ATTENTION: attending, RECURRENCE: as_large(recurrent, VOCABULARY, wanted)}


def inputs(
    level: str, sentences: int, length: int, width: int, generator: Generator
) -> Tensor | Batch:
    """Return random vectors "B T D" for a layer, or random sentences with ends for a model."""
    if level != MODEL:
        return torch.randn(sentences, length, width, generator=generator)
    shape = (sentences, 2, length - 1)
    drawn = torch.randint(FIRST, VOCABULARY, shape, generator=generator).tolist()
    return collate([(source, target) for source, target in drawn], range(sentences))


def call(module: nn.Module, given: Tensor | Batch, direction: str) -> Callable[[], None]:
    """Return the computation of a layer on vectors, or of a model's mean loss on sentences."""
    if isinstance(given, Tensor):
        return measuring.of_layer(module, given, direction)
    return partial(measuring.compute, module, partial(_mean_loss, module, given), direction)


def _mean_loss(model: Any, batch: Batch) -> Tensor:
    found = token_loss(model, batch, LabelSmoothing(0.1))
    return found.sums["loss"] / found.count


def measured(found: Ratios) -> dict[str, Value]:
    """Return the quantities of the bands whose sizes were measured."""
    middle = {case: statistics.median(each) for case, each in found.items()}
    values: dict[str, Value] = {n: middle[case] for n, case in WANTED.items() if case in middle}
    if LONGEST in middle:
        values[GROWTH] = middle[LONGEST] / middle[LONGEST._replace(length=FULL.lengths[0])]
    narrow = [
        min(over) > 1
        for case, over in found.items()
        if case.level == SELF and case.sentences == 1 and case.length < case.width
        if case.direction == measuring.TRAINING
    ]
    if narrow:
        values[BELOW] = statistics.mean(narrow)
    return values


def sheets(found: Ratios, how: TimingSizes) -> list[Sheet]:
    """Show ratios by width for each number of sentences, at the largest number of tokens."""
    length = how.lengths[-1]

    def rows(level: str) -> dict[str, dict[int, list[float]]]:
        return {
            counted(each, "sentence"): {
                width: found[TimingCase(level, width, each, length, measuring.TRAINING)]
                for width in how.widths
            }
            for each in how.batches
        }

    return [
        Sheet(
            f"Recurrence over attention, {length} tokens, and backwards: {level}", rows(level),
            "width", log="xy", level=1, ranges=True,
        )
        for level in LEVELS
    ]  # fmt: skip


PARALLELISM = Study(
    "parallelism",
    "Recurrence is sequential within a sentence, and attention is not",
    "This inherently sequential nature precludes parallelization within training examples, which "
    "becomes critical at longer sequence lengths, as memory constraints limit batching across "
    "examples. [...] self-attention layers are faster than recurrent layers when the sequence "
    "length n is smaller than the representation dimensionality d.",
    "Vaswani et al. 2017, sections 1 and 4",
    BANDS,
    run,
    seconds=800,  # estimated: recorded without self-attention alone, 574
)
