"""Time of recurrence and attention by width, batch and length: layers alone, and whole models.

A layer alone is an encoder layer whose feed-forward network is twice as wide as the model, beside
an LSTM of the same width: both have 8 d^2 weights. A whole model is a Transformer of two layers a
side, beside an LSTM encoder-decoder with Luong's attention and as many weights. Each is measured
forwards, and forwards and backwards. No optimiser takes part; it would cost both the same.
"""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor, nn

from crosshead.addons.studies import equal
from crosshead.addons.studies.charts import logarithmic, name_powers
from crosshead.addons.studies.effort import Effort, Times
from crosshead.addons.studies.fitting import FIRST, Stack
from crosshead.addons.studies.study import Band, Result, Say, Study, Table, Value, reported
from crosshead.addons.studies.turns import FORWARD, TRAINING, Ratio, compute, of_layer, timed
from crosshead.layers.layer_types import RecurrentLayer
from crosshead.models.recurrent import RecurrentConfig
from crosshead.models.registry import AnyTokenConfig, build_model
from crosshead.system.devices import choose_device
from crosshead.system.progress import counted
from crosshead.tasks.token_loss import LabelSmoothing, token_loss
from crosshead.text.batching import Batch, collate

VOCABULARY, HEADS = 1000, 4
ATTENTION, RECURRENCE = "attention", "recurrence"
LAYER, MODEL = "layer alone", "whole model"


class TimingSizes(NamedTuple):
    """The sizes that are measured, for rounds and seconds each."""

    widths: tuple[int, ...]
    batches: tuple[int, ...]
    lengths: tuple[int, ...]
    rounds: int
    seconds: float


class TimingCase(NamedTuple):
    """One comparison."""

    level: str
    width: int
    sentences: int
    length: int
    direction: str


Ratios = Mapping[TimingCase, Ratio]
"""The recurrence's time over attention's."""

FULL = TimingSizes((256, 512, 1024), (1, 4, 16), (16, 64, 256), 5, 0.3)
QUICK = TimingSizes((32, 64), (1, 2), (4, 8), 2, 0.0)

ONE = "layer alone, width {}, one sentence of 256: time of recurrence over that of attention"
SIXTEEN = "layer alone, width 512, 16 sentences of 256: that ratio"
GROWTH = "layer alone, width 512, one sentence: that ratio at 256 tokens over the same at 16"
WHOLE = "whole model, width {}, one sentence of 256: time of recurrence over that of attention"

BANDS = (
    Band(
        ONE.format(512), 2, 10,
        "Half of an LSTM's products read states and have one row: two operations for each 4 bytes "
        "of weights. A core that reads 30 to 50 GB/s computes them at a quarter to an eighth of "
        "the speed of large products, so the ratio is 2.5 to 4.5. The other costs of 256 steps "
        "raise it, up to twofold.",
    ),
    Band(
        ONE.format(1024), 2.5, 15,
        "As above, but each step reads 16 MiB, which exceed the caches of a core.",
    ),
    Band(
        SIXTEEN, 1, 4,
        "Sixteen rows share each weight that is read. A product of sixteen rows reaches a half to "
        "all of the speed of large ones. Attention's n^2 d operations are a quarter more.",
    ),
    Band(
        GROWTH, 1.3, 6,
        "At 16 tokens the products of attention have few rows themselves, at about half of their "
        "full speed, and calls cost both the same.",
    ),
    Band(
        WHOLE.format(512), 1.5, 6,
        "As for layers alone, but about half of the work is the same in both models: embeddings, "
        "the output projection and attention to the source. Another machine of two cores had 2.4.",
    ),
    reported(
        ONE.format(256),
        "The weights of a layer, 2 MiB, about fill the cache of a core. Other ratios follow on "
        "either side of its size.",
    ),
    reported(WHOLE.format(256), "An earlier form of this study found 1.02 here, with optimiser."),
    reported(WHOLE.format(1024), "No source and no estimate has a number for this."),
)  # fmt: skip

LONGEST = TimingCase(LAYER, 512, 1, FULL.lengths[-1], TRAINING)

WANTED = {
    **{ONE.format(width): LONGEST._replace(width=width) for width in FULL.widths},
    **{WHOLE.format(w): LONGEST._replace(level=MODEL, width=w) for w in FULL.widths},
    SIXTEEN: LONGEST._replace(sentences=16),
}


def run(effort: Effort, seed: int, say: Say) -> Result:
    """Measure both kinds in turns, round after round, at each size."""
    how = sizes_of(effort)
    device, generator = choose_device("auto"), Generator().manual_seed(seed)
    found: dict[TimingCase, Ratio] = {}
    rows = [["what", "width", "sentences x tokens", "direction", ATTENTION, RECURRENCE, "ratio"]]
    for level, width in product((LAYER, MODEL), how.widths):
        pair = {name: each.to(device) for name, each in pair_of(level, width).items()}
        for sentences, length in product(how.batches, how.lengths):
            given = inputs(level, sentences, length, width, generator).to(device)
            for direction in (FORWARD, TRAINING):
                calls = {name: call(each, given, direction) for name, each in pair.items()}
                times = timed(calls, lambda name: ATTENTION, how.rounds, how.seconds)
                case = TimingCase(level, width, sentences, length, direction)
                ratio = found[case] = times[RECURRENCE].ratio
                shown, where = (each.shown for each in times.values()), f"{sentences} x {length}"
                rows.append([level, f"{width}", where, direction, *shown, str(ratio)])
        say(f"{level}, width {width}: {ratio} at {where} tokens, {TRAINING}")
    where = f"{device}, {torch.get_num_threads()} threads, {how.rounds} rounds"
    tables = [
        beginnings(found, how),
        Table(f"Least times, and ratios with their range over rounds, on {where}", rows),
    ]
    said = "" if effort.quick else conclusion(found, how)
    return Result(measured(found), tables, partial(draw, found, how), said)


def sizes_of(effort: Effort) -> TimingSizes:
    """Return the sizes that fit the effort: large batches take most of the time, and go first."""
    if effort.quick:
        return QUICK
    return FULL._replace(
        batches=FULL.batches[: effort.amount(1, len(FULL.batches))],
        rounds=effort.amount(2, FULL.rounds),
        seconds=FULL.seconds * effort.share,
    )


def pair_of(level: str, width: int) -> dict[str, nn.Module]:
    """Return attention and recurrence with as many weights: layers alone, or whole models."""
    if level == MODEL:
        shapes = shapes_of(width).items()
        return {name: build_model(shape, VOCABULARY, VOCABULARY) for name, shape in shapes}
    attention = Stack(1, width, HEADS, 2 * width)
    return {ATTENTION: attention, RECURRENCE: RecurrentLayer(width, nn.LSTM)}


def shapes_of(width: int) -> dict[str, AnyTokenConfig]:
    """Return a Transformer of this width, and a recurrent model with as many weights."""

    def recurrent(d_model: int) -> AnyTokenConfig:
        # Two layers a side, each one call of PyTorch's; nothing is a loop in Python.
        shape = {"d_model": d_model, "attention": "luong-general", "dropout": 0.0}
        return RecurrentConfig.model_validate(shape)

    transformer = equal.transformer(width, 4 * width, HEADS, 2)
    wanted = equal.weights(transformer, VOCABULARY)
    return {ATTENTION: transformer, RECURRENCE: equal.as_large(recurrent, VOCABULARY, wanted)}


def inputs(
    level: str, sentences: int, length: int, width: int, generator: Generator
) -> Tensor | Batch:
    """Return random vectors "B T D" for a layer, or random sentences with ends for a model."""
    if level == LAYER:
        return torch.randn(sentences, length, width, generator=generator)
    shape = (sentences, 2, length - 1)
    drawn = torch.randint(FIRST, VOCABULARY, shape, generator=generator).tolist()
    return collate([(source, target) for source, target in drawn], range(sentences))


def call(module: nn.Module, given: Tensor | Batch, direction: str) -> Callable[[], None]:
    """Return the computation of a layer on vectors, or of a model's mean loss on sentences."""
    if isinstance(given, Tensor):
        return of_layer(module, given, direction)
    return partial(compute, module, partial(_mean_loss, module, given), direction)


def _mean_loss(model: Any, batch: Batch) -> Tensor:
    found = token_loss(model, batch, LabelSmoothing(0.1))
    return found.sums["loss"] / found.count


def measured(found: Ratios) -> dict[str, Value]:
    """Return the quantities of the bands, where their sizes were measured."""
    missing, short = "this form has other sizes", LONGEST._replace(length=FULL.lengths[0])
    values: dict[str, Value] = {
        name: found[case].median if case in found else missing for name, case in WANTED.items()
    }
    grown = LONGEST in found
    values[GROWTH] = found[LONGEST].median / found[short].median if grown else missing
    return values


def first_width(found: Ratios, how: TimingSizes, level: str, way: str, rows: int) -> int | None:
    """Return the width from which on the recurrence is slower in every round, at the longest."""
    begins = None
    for width in reversed(how.widths):
        if found[TimingCase(level, width, rows, how.lengths[-1], way)].low <= 1:
            break
        begins = width
    return begins


def beginnings(found: Ratios, how: TimingSizes) -> Table:
    """Return the widths at which the claim begins to hold."""
    rows = [["what", "direction", *(counted(each, "sentence") for each in how.batches)]]
    for level, way in product((LAYER, MODEL), (FORWARD, TRAINING)):
        widths = (first_width(found, how, level, way, each) for each in how.batches)
        rows.append([level, way, *(f"{w:,}" if w else "at none measured" for w in widths)])
    tokens = how.lengths[-1]
    return Table(
        f"Width from which on the recurrence is slower in every round, at {tokens} tokens", rows
    )


def conclusion(found: Ratios, how: TimingSizes) -> str:
    """Say in a sentence where the claim begins to hold."""
    parts = []
    for level, rows in product((LAYER, MODEL), sorted({how.batches[0], how.batches[-1]})):
        width = first_width(found, how, level, TRAINING, rows)
        where = f"from width {width:,} on" if width else f"at no width up to {how.widths[-1]:,}"
        parts.append(f"{level}, {counted(rows, 'sentence')} at once, {where}")
    return (
        f"Forwards and backwards over sentences of {how.lengths[-1]} tokens, recurrence is slower "
        f"in every round: {'; '.join(parts)}"
    )


def draw(found: Ratios, how: TimingSizes, figure: Any) -> None:
    """Draw ratios by width for each number of sentences; bands are ranges over rounds."""
    panels = figure.subplots(1, 2, sharey=True)
    for axes, level in zip(panels, (LAYER, MODEL), strict=True):
        for sentences in how.batches:
            cases = [TimingCase(level, w, sentences, how.lengths[-1], TRAINING) for w in how.widths]
            middle, lows, highs = zip(*(found[case] for case in cases), strict=True)
            axes.plot(how.widths, middle, "o-", label=counted(sentences, "sentence"))
            axes.fill_between(how.widths, lows, highs, alpha=0.2)
        axes.axhline(1, color="gray", ls=":")
        logarithmic(axes, how.widths, xlabel="width", title=f"{level}, {TRAINING}")
        name_powers(axes.yaxis)
    panels[0].set_ylabel(f"recurrence over attention,\n{how.lengths[-1]} tokens")
    panels[0].legend()


PARALLELISM = Study(
    "parallelism",
    "Recurrence is sequential within a sentence, and attention is not",
    "This inherently sequential nature precludes parallelization within training examples, which "
    "becomes critical at longer sequence lengths, as memory constraints limit batching across "
    "examples.",
    "Vaswani et al. 2017, section 1",
    BANDS,
    run,
    Times(quick=4, full=574),
)
