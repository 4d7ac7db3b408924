"""Time of recurrence and attention by width, batch and length: layers alone, and whole models.

A layer alone is an encoder layer whose feed-forward network is twice as wide as the model, beside
an LSTM of the same width: both have 8 d^2 weights. A whole model is a Transformer of two layers a
side, beside an LSTM encoder-decoder with Luong's attention and as many weights. Each is measured
forwards, and forwards and backwards; no optimiser takes part, which costs both the same.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor, nn

from crosshead.attention.multihead import MultiHeadAttention
from crosshead.data.batching import Batch, collate
from crosshead.layers.layer_types import RecurrentLayer
from crosshead.models.recurrent import RecurrentConfig
from crosshead.models.registry import AnyConfig, build_model
from crosshead.models.transformer import TransformerConfig
from crosshead.studies.effort import Effort
from crosshead.studies.equal import as_large, weights
from crosshead.studies.fitting import FIRST, Stack
from crosshead.studies.study import (
    Band,
    Reported,
    Result,
    Say,
    Study,
    Table,
    Unmeasured,
    Value,
    number,
)
from crosshead.studies.times import TIMES
from crosshead.studies.turns import Ratio, in_turns, name_powers, ratio
from crosshead.system.devices import choose_device
from crosshead.tasks.token_loss import token_loss

VOCABULARY, HEADS = 1000, 4
ATTENTION, RECURRENCE = "attention", "recurrence"
LAYER, MODEL = "layer alone", "whole model"
FORWARD, TRAINING = "forwards", "forwards and backwards"


class Grid(NamedTuple):
    """The sizes that are measured, and how often."""

    widths: tuple[int, ...]
    batches: tuple[int, ...]
    lengths: tuple[int, ...]
    rounds: int
    seconds: float


class Case(NamedTuple):
    """One comparison."""

    level: str
    width: int
    sentences: int
    length: int
    direction: str


Ratios = Mapping[Case, Ratio]
"""The recurrence's time over that of attention."""

FULL = Grid((256, 512, 1024), (1, 4, 16), (16, 64, 256), 5, 0.3)
QUICK = Grid((32, 64), (1, 2), (4, 8), 2, 0.0)


def _case(level: str, width: int, sentences: int) -> Case:
    return Case(level, width, sentences, FULL.lengths[-1], TRAINING)


ONE = "layer alone, width {}, one sentence of 256: time of recurrence over that of attention"
SIXTEEN = "layer alone, width 512, 16 sentences of 256: that ratio"
GROWTH = "layer alone, width 512, one sentence: that ratio at 256 tokens over the same at 16"
WHOLE = "whole model, width {}, one sentence of 256: time of recurrence over that of attention"

BANDS = (
    Band(
        ONE.format(512), 2, 10,
        "Half of an LSTM's products, those that read states, are of one row: two operations for "
        "each 4 bytes of weights that are read. Where a core reads 30 to 50 GB/s that is a quarter "
        "to an eighth of the speed of large products, so that the ratio is 2.5 to 4.5; what each "
        "of 256 steps costs besides adds to that, up to twice as much.",
    ),
    Band(
        ONE.format(1024), 2.5, 15,
        "As above, but the 16 MiB that each step reads leave the caches of a core.",
    ),
    Band(
        SIXTEEN, 1, 4,
        "Sixteen rows share each weight that is read, and a product of sixteen rows reaches a "
        "half to all of the speed of large ones; attention's n^2 d operations are a quarter more.",
    ),
    Band(
        GROWTH, 1.3, 6,
        "At 16 tokens the products of attention have few rows themselves, at about half of their "
        "full speed, and calls cost both the same.",
    ),
    Band(
        WHOLE.format(512), 1.5, 6,
        "As layers alone, but both models pay alike for embeddings, the output projection and "
        "attention to the source: about half of the work. On another machine of two cores 2.4 was "
        "found.",
    ),
)  # fmt: skip

REPORTED = (
    Reported(
        ONE.format(256),
        "The weights of a layer, 2 MiB, about fill the cache of a core: on either side of it other "
        "ratios follow.",
    ),
    Reported(WHOLE.format(256), "An earlier form of this study found 1.02 here, with optimiser."),
    Reported(WHOLE.format(1024), "No source and no estimate has a number for this."),
)

WANTED = {
    **{ONE.format(width): _case(LAYER, width, 1) for width in FULL.widths},
    **{WHOLE.format(width): _case(MODEL, width, 1) for width in FULL.widths},
    SIXTEEN: _case(LAYER, 512, 16),
}


def run(effort: Effort, seed: int, say: Say) -> Result:
    """Measure both kinds in turns, round after round, at each size."""
    how = grid(effort)
    device, generator = choose_device("auto"), Generator().manual_seed(seed)
    found: dict[Case, Ratio] = {}
    rows = [["what", "width", "sentences x tokens", "direction", ATTENTION, RECURRENCE, "ratio"]]
    for level, width in product((LAYER, MODEL), how.widths):
        pair = PAIRS[level](width, device)
        for sentences, length in product(how.batches, how.lengths):
            given = GIVEN[level](sentences, length, width, generator, device)
            for direction in (FORWARD, TRAINING):
                calls = {name: partial(each, given, direction) for name, each in pair.items()}
                times = in_turns(calls, how.rounds, how.seconds)
                case = Case(level, width, sentences, length, direction)
                found[case] = ratio(times[RECURRENCE], times[ATTENTION])
                shown = (f"{number(1000 * min(each))} ms" for each in times.values())
                where = f"{sentences} x {length}"
                rows.append([level, f"{width}", where, direction, *shown, str(found[case])])
        say(f"{level}, width {width}: {found[case]} at {rows[-1][2]} tokens, {TRAINING}")
    begins = beginnings(found, how)
    where = f"{device}, {torch.get_num_threads()} threads, {how.rounds} rounds"
    return Result(
        measured(found),
        [
            beginnings_table(begins, how),
            Table(f"Least times, and ratios with their range over rounds, on {where}", rows),
        ],
        partial(draw, found, how),
        "" if effort.quick else conclusion(begins, how),
    )


def grid(effort: Effort) -> Grid:
    """Return the sizes that fit the effort: large batches take most of the time, and go first."""
    if effort.quick:
        return QUICK
    return FULL._replace(
        batches=FULL.batches[: effort.amount(1, len(FULL.batches))],
        rounds=effort.amount(2, FULL.rounds),
        seconds=FULL.seconds * effort.share,
    )


Run = Callable[[Any, str], None]
"""Compute in a direction what is given."""


def _layers(width: int, device: torch.device) -> dict[str, Run]:
    """The two kinds of layers; both have 8 d^2 weights."""
    layers = layer_pair(width)
    return {name: partial(run_layer, layer.to(device)) for name, layer in layers.items()}


def layer_pair(width: int) -> dict[str, nn.Module]:
    """Return an encoder layer and an LSTM with as many weights, but for norms and biases."""
    attention = partial(
        MultiHeadAttention, width, HEADS, d_key=width // HEADS, d_value=width // HEADS
    )
    return {ATTENTION: Stack(1, attention, 2 * width), RECURRENCE: RecurrentLayer(width, nn.LSTM)}


def _models(width: int, device: torch.device) -> dict[str, Run]:
    """Two models with as many weights."""
    shapes = shapes_of(width)
    built = {name: build_model(shape, VOCABULARY, VOCABULARY) for name, shape in shapes.items()}
    return {name: partial(run_model, model.to(device)) for name, model in built.items()}


def shapes_of(width: int) -> dict[str, AnyConfig]:
    """Return a Transformer of this width, and a recurrent model with as many weights."""
    first = transformer(width)
    return {
        ATTENTION: first,
        RECURRENCE: as_large(recurrent, VOCABULARY, weights(first, VOCABULARY)),
    }


def transformer(d_model: int) -> TransformerConfig:
    """Two layers a side."""
    return TransformerConfig.model_validate(
        {
            "d_model": d_model, "d_ff": 4 * d_model, "heads": HEADS, "encoder_layers": 2,
            "decoder_layers": 2, "dropout": 0.0,
        }
    )  # fmt: skip


def recurrent(d_model: int) -> RecurrentConfig:
    """Two layers a side, each one call of PyTorch's; nothing is a loop in Python."""
    return RecurrentConfig.model_validate(
        {"d_model": d_model, "attention": "luong-general", "dropout": 0.0}
    )


def run_layer(layer: nn.Module, x: Tensor, direction: str) -> None:
    """Compute a layer, and its gradients where the direction says so."""
    if direction == FORWARD:
        with torch.no_grad():
            layer(x)
        return
    layer.zero_grad()
    x.grad = None
    layer(x).sum().backward()


def run_model(model: Any, batch: Batch, direction: str) -> None:
    """Compute the loss of a batch, and its gradients where the direction says so."""
    if direction == FORWARD:
        with torch.no_grad():
            token_loss(model, batch, 0.1)
        return
    model.zero_grad()
    found = token_loss(model, batch, 0.1)
    (found.sums["loss"] / found.count).backward()


def random_vectors(
    sentences: int, length: int, width: int, generator: Generator, device: torch.device
) -> Tensor:
    """Return vectors `B T D` that a layer reads."""
    return torch.randn(sentences, length, width, generator=generator).to(device).requires_grad_()


def random_batch(
    sentences: int, length: int, width: int, generator: Generator, device: torch.device
) -> Batch:
    """Return sentences of `length` random tokens on either side, their ends counted."""
    shape = (sentences, 2, length - 1)
    drawn = torch.randint(FIRST, VOCABULARY, shape, generator=generator).tolist()
    return collate([(source, target) for source, target in drawn], range(sentences)).to(device)


PAIRS: dict[str, Callable[[int, torch.device], dict[str, Run]]] = {LAYER: _layers, MODEL: _models}
GIVEN: dict[str, Callable[..., Tensor | Batch]] = {LAYER: random_vectors, MODEL: random_batch}


def measured(found: Ratios) -> dict[str, Value]:
    """Return the quantities of the bands, where their sizes were measured."""
    values: dict[str, Value] = {
        name: found[case].median if case in found else Unmeasured("this form has other sizes")
        for name, case in WANTED.items()
    }
    long = WANTED[ONE.format(512)]
    short = long._replace(length=FULL.lengths[0])
    values[GROWTH] = (
        found[long].median / found[short].median
        if long in found
        else Unmeasured("this form has other sizes")
    )
    return values


Beginnings = Mapping[tuple[str, str, int], int | None]
"""By level, direction and number of sentences: the width from which on the claim holds."""


def beginnings(found: Ratios, how: Grid) -> Beginnings:
    """Find the width from which on the recurrence is slower, in every round, at the longest."""

    def first(level: str, direction: str, sentences: int) -> int | None:
        begins = None
        for width in reversed(how.widths):
            if found[Case(level, width, sentences, how.lengths[-1], direction)].low <= 1:
                break
            begins = width
        return begins

    places = product((LAYER, MODEL), (FORWARD, TRAINING), how.batches)
    return {place: first(*place) for place in places}


def beginnings_table(begins: Beginnings, how: Grid) -> Table:
    """Return the widths at which the claim begins to hold."""
    rows = [["what", "direction", *map(_counted, how.batches)]]
    for level, direction in product((LAYER, MODEL), (FORWARD, TRAINING)):
        rows.append([level, direction, *_cells(begins, level, direction, how)])
    return Table(
        f"Width from which on the recurrence is slower in every round, at {how.lengths[-1]} tokens",
        rows,
    )


def _cells(begins: Beginnings, level: str, direction: str, how: Grid) -> Iterator[str]:
    for sentences in how.batches:
        width = begins[level, direction, sentences]
        yield "at none measured" if width is None else f"{width:,}"


def conclusion(begins: Beginnings, how: Grid) -> str:
    """Say in a sentence where the claim begins to hold."""
    parts = []
    for level, sentences in product((LAYER, MODEL), sorted({how.batches[0], how.batches[-1]})):
        width = begins[level, TRAINING, sentences]
        where = f"from width {width:,} on" if width else f"at no width up to {how.widths[-1]:,}"
        parts.append(f"{level}, {_counted(sentences)} at once, {where}")
    return (
        f"Forwards and backwards over sentences of {how.lengths[-1]} tokens, recurrence is slower "
        f"in every round: {'; '.join(parts)}"
    )


def _counted(sentences: int) -> str:
    return f"{sentences} sentence{'s' * (sentences > 1)}"


def draw(found: Ratios, how: Grid, figure: Any) -> None:
    """Ratios by width, a line for each number of sentences; the band is the range of rounds."""
    panels = figure.subplots(1, 2, sharey=True)
    for axes, level in zip(panels, (LAYER, MODEL), strict=True):
        for sentences in how.batches:
            cases = [Case(level, w, sentences, how.lengths[-1], TRAINING) for w in how.widths]
            ratios = [found[case] for case in cases]
            middle = [each.median for each in ratios]
            axes.plot(how.widths, middle, "o-", label=_counted(sentences))
            lows, highs = [each.low for each in ratios], [each.high for each in ratios]
            axes.fill_between(how.widths, lows, highs, alpha=0.2)
        axes.axhline(1, color="gray", ls=":")
        axes.set(xscale="log", yscale="log", xlabel="width", title=f"{level}, {TRAINING}")
        axes.set_xticks(how.widths, map(str, how.widths))
        axes.set_xticks([], minor=True)
        name_powers(axes.yaxis)
        axes.grid(alpha=0.3)
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
    TIMES["parallelism"],
    REPORTED,
)
