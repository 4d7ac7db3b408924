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
from crosshead.addons.studies.charts import Line, Panel
from crosshead.addons.studies.fitting import FIRST, Stack
from crosshead.addons.studies.study import Band, Result, Study, Table, Trial, Value
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
    Band(WHOLE, 1.5, 6, "As for layers, but half of the work is the same in both models."),
)  # fmt: skip

LONGEST = TimingCase(LAYER, 512, 1, FULL.lengths[-1], TRAINING)

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
        trial.say(f"{level}, width {width}: {ratio} at {where} tokens, {TRAINING}")
    where = f"{device}, {torch.get_num_threads()} threads, {how.rounds} rounds"
    table = Table(f"Least times, and ratios with their range over rounds, on {where}", rows)
    return Result(measured(found), [table], panels(found, how))


def sizes_of(trial: Trial) -> TimingSizes:
    """Return the sizes that fit the effort: large batches take most of the time, and go first."""
    if trial.quick:
        return QUICK
    return FULL._replace(
        batches=FULL.batches[: trial.amount(1, len(FULL.batches))],
        rounds=trial.amount(2, FULL.rounds),
        seconds=FULL.seconds * trial.effort.share,
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
    """Return the quantities of the bands whose sizes were measured."""
    values: dict[str, Value] = {
        name: found[case].median for name, case in WANTED.items() if case in found
    }
    if LONGEST in found:
        short = LONGEST._replace(length=FULL.lengths[0])
        values[GROWTH] = found[LONGEST].median / found[short].median
    return values


def panels(found: Ratios, how: TimingSizes) -> list[Panel]:
    """Show ratios by width for each number of sentences, with their ranges over rounds."""

    def line(level: str, sentences: int) -> Line:
        cases = [TimingCase(level, w, sentences, how.lengths[-1], TRAINING) for w in how.widths]
        spread = [(found[case].low, found[case].high) for case in cases]
        middle = [found[case].median for case in cases]
        return Line(how.widths, middle, counted(sentences, "sentence"), spread=spread)

    return [
        Panel(
            f"recurrence over attention, {how.lengths[-1]} tokens: {level}",
            [line(level, each) for each in how.batches], "width", log="xy", level=1,
        )
        for level in (LAYER, MODEL)
    ]  # fmt: skip


PARALLELISM = Study(
    "parallelism",
    "Recurrence is sequential within a sentence, and attention is not",
    "This inherently sequential nature precludes parallelization within training examples, which "
    "becomes critical at longer sequence lengths, as memory constraints limit batching across "
    "examples.",
    "Vaswani et al. 2017, section 1",
    BANDS,
    run,
    seconds=574,
)
