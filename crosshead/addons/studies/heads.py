"""Heads: one against several of the same width, the cost of taking each away, and their price."""

import math
import statistics
from collections.abc import Mapping
from functools import partial
from itertools import product
from typing import NamedTuple

import torch

from crosshead.addons.studies import captions, measuring
from crosshead.addons.studies.charts import Sheet, by_seed, joined, spread
from crosshead.addons.studies.runs import Run, means, results
from crosshead.addons.studies.study import Band, Result, Study, Trial, Value, reported
from crosshead.attention.attend import Backend, explicit, sdpa
from crosshead.evaluation.sacrebleu_metrics import bleu
from crosshead.inspection import without_heads
from crosshead.layers.layer_types import SelfAttention
from crosshead.models.base import AttentionKind, Model
from crosshead.models.registry import build_model

HEAD_NUMBERS = ONE, SEVERAL, MANY = 1, 4, 32
CHEAP_BELOW = 0.5
"""A head that costs less BLEU than this is not missed."""

ENCODER, DECODER, CROSSED = "encoder, self", "decoder, self", "decoder, cross"
KINDS: dict[AttentionKind, str] = {"encoder": ENCODER, "decoder": DECODER, "cross": CROSSED}
SINGLE = "BLEU of four heads less that of one"
TOO_MANY = "BLEU of four heads less that of 32"
CHEAP = "share of heads that cost less than half a BLEU to take away"
CROSS = (
    "BLEU that a head costs: cross-attention less the encoder's self-attention, in standard errors"
)

BANDS = (
    Band(
        CHEAP, 0.5, 1,
        "“A large percentage” is at least the majority. 8 of 96 heads made a significant "
        "difference in Michel et al. 2019, section 3.2, but layers had 16 heads there.",
    ),
    Band(
        CROSS, 2, math.inf,
        "Cross-attention relies on its heads more than self-attention does (Michel et al. 2019, "
        "section 5). Chance alone gives two standard errors in one of forty cases.",
    ),
    reported(SINGLE, "0.9 in Table 3, row A, but after ten minutes two seeds differ by more."),
    reported(TOO_MANY, "0.4 in Table 3, but for 32 heads of d_k 16; these have 4."),
)  # fmt: skip

HeadCosts = Mapping[str, Mapping[int, list[float]]]
"""By attention and head, the BLEU that a head costs, for each seed."""


def run(trial: Trial) -> Result:
    """Train with one, several and many heads; then take away each of several heads."""
    corpus = captions.captions_of(trial)
    shapes = {each: captions.transformer(each, quick=trial.quick) for each in HEAD_NUMBERS}
    source, reference = captions.sides(corpus.text, captions.TEST)
    found = {
        heads: [bleu(each, reference) for each in of]
        for heads, of in corpus.translations(trial, shapes).items()
    }
    modules = attentions(build_model(shapes[SEVERAL], corpus.vocabulary, corpus.vocabulary))
    pruned = results(
        trial,
        modules,
        lambda name, seed: (corpus.run(trial, shapes[SEVERAL], seed), *modules[name]),
        partial(without_each, source, reference),
    )
    costs = {
        name: {
            head: [whole - without for whole, without in zip(found[SEVERAL], of, strict=True)]
            for head, of in enumerate(zip(*each, strict=True), 1)
        }
        for name, each in pruned.items()
    }
    title = f"BLEU that it costs to take a head away, of {joined(found[SEVERAL], '.1f')}, by seed"
    kinds = {each: of_kind(costs, each) for each in KINDS.values()}
    sheets = [
        Sheet("BLEU at one width", by_seed(found), "heads", ".1f"),
        Sheet(title, costs, "head", ".2f", drawn=False),
        Sheet("BLEU that a head costs", by_seed(kinds), ranges=True),
    ]
    return Result(measured(found, costs), sheets)


def measured(found: Mapping[int, list[float]], costs: HeadCosts) -> dict[str, Value]:
    """Return the quantities, if the models have learned something."""
    mean = means(found)
    if mean[SEVERAL] < captions.MEANINGFUL:
        why = f"BLEU of {SEVERAL} heads is {mean[SEVERAL]:.1f}, below {captions.MEANINGFUL:g}"
        return dict.fromkeys((SINGLE, TOO_MANY, CHEAP, CROSS), why)
    every = of_kind(costs, "")
    return {
        SINGLE: mean[SEVERAL] - mean[ONE],
        TOO_MANY: mean[SEVERAL] - mean[MANY],
        CHEAP: sum(cost < CHEAP_BELOW for cost in every) / len(every),
        CROSS: measuring.in_standard_errors(of_kind(costs, CROSSED), of_kind(costs, ENCODER)),
    }


def without_each(
    source: list[str], reference: list[str], place: tuple[Run, AttentionKind, int]
) -> list[float]:
    """Return BLEU without each of the heads of a layer; the first layer is 1."""
    run, of, layer = place
    translator = captions.translator(run)
    found = []
    for head in range(1, translator.model.attentions()[of][layer - 1].heads + 1):
        with without_heads(translator.model, {(layer, head)}, of):
            found.append(bleu(captions.greedily(translator, source), reference))
    return found


def attentions(model: Model) -> dict[str, tuple[AttentionKind, int]]:
    """Return the kind and the layer, from 1, of each attention of a model, by a name for both."""
    return {
        f"{KINDS[of]}, layer {layer}": (of, layer)
        for of, modules in model.attentions().items()
        for layer in range(1, len(modules) + 1)
    }


def of_kind(costs: HeadCosts, kind: str) -> list[float]:
    """Return the costs of all heads of a kind."""
    return [
        cost
        for name, heads in costs.items()
        if name.startswith(kind)
        for each in heads.values()
        for cost in each
    ]


HEADS = Study(
    "heads",
    "Several heads are better than one, and many of them are not missed",
    "While single-head attention is 0.9 BLEU worse than the best setting, quality also drops off "
    "with too many heads. [...] Even if models have been trained using multiple heads, in "
    "practice, a large percentage of attention heads can be removed at test time without "
    "significantly impacting performance.",
    "Vaswani et al. 2017, section 6.2; Michel et al. 2019, abstract",
    BANDS,
    run,
    seconds=1980,  # recorded with one seed's heads removed: 1,920
)

KERNELS: dict[str, Backend] = {"explicit": explicit, "fused": sdpa}
"""The library's own kernel, which CPUs get, and PyTorch's."""


class HeadSizes(NamedTuple):
    """The layers that are measured, in batches of `tokens` positions."""

    width: int
    heads: tuple[int, ...]
    lengths: tuple[int, ...]
    tokens: int


FULL = HeadSizes(512, (1, 2, 4, 8, 16, 32), (64, 256, 1024), 1024)
QUICK = HeadSizes(16, (1, 2, 4), (8, 16), 16)

OPERATIONS = "operations of 8 heads over those of one"
SHORT = "explicit kernel, 64 positions: time of 8 heads over that of one, forwards and backwards"
LONG = "explicit kernel, 1,024 positions: time of 8 heads over that of one, forwards and backwards"
KEPT = "explicit kernel, 1,024 positions: memory kept by 8 heads over that of one"
FUSED = "fused kernel, 1,024 positions: memory kept by 8 heads over that of one"
THIRTY_TWO = (
    "explicit kernel, 1,024 positions: time of 32 heads over that of one, forwards and backwards"
)
FUSED_TIME = "fused kernel, 1,024 positions: time of 8 heads over that of one"

COST_BANDS = (
    Band(OPERATIONS, 1, 1, "H times n^2 d/H: all heads' products equal one's."),
    Band(
        SHORT, 0.75, 1.33,
        "“Similar”: 8 heads have as many weights, H n^2, as the layer has numbers, n d, a small "
        "part of the work. A third covers kernels that suit some widths better than others.",
    ),
    Band(
        LONG, 1, 2,
        "Each of H n^2 weights is read and written about ten times, at 10 GB/s: 34 ms for 8 heads "
        "and 4 ms for one, beside 115 ms of products. The ratio is 1.25; machines differ.",
    ),
    Band(KEPT, 2, 4, "Five tensors of n d numbers and one of H n^2: (2.5 + 8) / (2.5 + 1) = 3."),
    Band(FUSED, 0.95, 1.1, "The fused kernel keeps a number for each query and head, no weights."),
    reported(THIRTY_TWO, "The estimate gives 2.1, but heads of 16 numbers suit no kernel well."),
    reported(FUSED_TIME, "PyTorch's kernel chooses its own blocks; no estimate was made."),
)  # fmt: skip

Costs = dict[str, dict[int, list[float]]]
"""By kernel and length, then by the number of heads."""


def run_cost(trial: Trial) -> Result:
    """Measure layers with one head and with several in turns, by length and kernel."""
    how = QUICK if trial.quick else FULL
    times: Costs = {}
    slower: Costs = {}
    memory: Costs = {}
    for kernel, length in product(KERNELS, how.lengths):
        place = row_of(kernel, length)
        layers = {heads: build(how.width, heads, kernel) for heads in how.heads}
        x = torch.randn(how.tokens // length, length, how.width, requires_grad=True)
        calls = {
            heads: measuring.of_layer(layer, x, measuring.TRAINING)
            for heads, layer in layers.items()
        }
        found = measuring.in_turns(trial, calls)
        times[place] = {heads: [measuring.milliseconds(each)] for heads, each in found.items()}
        slower[place] = {heads: measuring.ratios(each, found[1]) for heads, each in found.items()}
        memory[place] = {n: [measuring.bytes_kept(each, x) / 2**20] for n, each in layers.items()}
        trial.say(f"{place}: {how.heads[-1]} heads over one {spread(slower[place][how.heads[-1]])}")
    what = f"{measuring.TRAINING}, layers of width {how.width}, {how.tokens:,} positions"
    threads = f"{torch.get_num_threads()} threads"
    over_one = {
        place: {heads: [each[0] / row[1][0]] for heads, each in row.items()}
        for place, row in memory.items()
    }
    sheets = [
        Sheet(f"Least time in ms, {what}, {threads}", times, "heads", drawn=False),
        Sheet("Time over that of one head", slower, "heads", log="xy", ranges=True),
        Sheet("Memory kept, MiB", memory, "heads", drawn=False),
        Sheet("Memory kept over that of one head", over_one, "heads", log="xy"),
    ]
    values = {} if trial.quick else quantities(slower, over_one)
    values[OPERATIONS] = operations(8) / operations(1)
    return Result(values, sheets)


def row_of(kernel: str, length: int) -> str:
    """Return the name of a row of the tables."""
    return f"{kernel}, {length:,} positions"


def build(width: int, heads: int, kernel: str) -> SelfAttention:
    """Return a self-attention layer that computes with a kernel."""
    layer = SelfAttention(width, heads)
    layer.attention.backend = KERNELS[kernel]
    return layer


def operations(heads: int) -> int:
    """Return the floating-point operations of a layer, as PyTorch counts them."""
    return measuring.operations(build(64, heads, "explicit"), torch.randn(1, 32, 64))[0]


def quantities(slower: Costs, memory: Costs) -> dict[str, Value]:
    """Return the quantities of time and memory, for the width and lengths of the full form."""
    explicit, fused = row_of("explicit", 1024), row_of("fused", 1024)
    return {
        SHORT: statistics.median(slower[row_of("explicit", 64)][8]),
        LONG: statistics.median(slower[explicit][8]),
        THIRTY_TWO: statistics.median(slower[explicit][32]),
        FUSED_TIME: statistics.median(slower[fused][8]),
        KEPT: memory[explicit][8][0],
        FUSED: memory[fused][8][0],
    }


HEADCOST = Study(
    "headcost",
    "Several heads cost as much as one of full width",
    "Due to the reduced dimension of each head, the total computational cost is similar to that "
    "of single-head attention with full dimensionality.",
    "Vaswani et al. 2017, section 3.2.2",
    COST_BANDS,
    run_cost,
    seconds=125,
)
