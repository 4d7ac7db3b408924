"""Heads: one against several of the same width, and the cost of taking each away."""

import math
import statistics
from collections.abc import Mapping, Sequence
from functools import partial

from crosshead.addons.studies import captions
from crosshead.addons.studies.charts import Panel, points
from crosshead.addons.studies.formats import joined
from crosshead.addons.studies.runs import Run, results
from crosshead.addons.studies.study import Band, Result, Study, Table, Trial, Value, reported
from crosshead.evaluation.sacrebleu_metrics import bleu
from crosshead.inspection import without_heads
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

HeadCosts = Mapping[str, list[float]]
"""By attention, the BLEU that each head costs; the heads of one seed stand after another's."""


def run(trial: Trial) -> Result:
    """Train with one, several and many heads; then take away each of several heads."""
    seeds = trial.seeds()
    corpus = captions.captions_of(trial)
    shapes = {each: captions.transformer(each, quick=trial.quick) for each in HEAD_NUMBERS}
    runs = {(n, each): corpus.run(shape, each) for n, shape in shapes.items() for each in seeds}
    source, reference = captions.sides(corpus.text, captions.TEST)
    outputs = partial(captions.outputs, source)
    lines = results(runs, outputs, trial, lambda each: f"BLEU {bleu(each, reference):.1f}")
    found = {heads: [bleu(each, reference) for each in of] for heads, of in lines.items()}
    modules = attentions(build_model(shapes[SEVERAL], corpus.vocabulary, corpus.vocabulary))
    places = {(n, each): (runs[SEVERAL, each], *of) for n, of in modules.items() for each in seeds}
    without = partial(without_each, source, reference)
    pruned = results(places, without, trial, lambda each: f"without a head {joined(each, '.1f')}")
    costs = {
        name: [whole - s for whole, each in zip(found[SEVERAL], of, strict=True) for s in each]
        for name, of in pruned.items()
    }
    quality = [[str(heads), joined(each, ".1f")] for heads, each in found.items()]
    tables = [
        Table("Quality at one width", [["heads", "BLEU by seed"], *quality]),
        costs_table(found[SEVERAL], costs),
    ]
    kinds = {each: of_kind(costs, each) for each in KINDS.values()}
    panels = [
        Panel("BLEU by heads", [points({str(heads): each for heads, each in found.items()})]),
        Panel("BLEU that a head costs", [points(kinds)]),
    ]
    kept = [each.finished for each in runs.values()]
    return Result(measured(found, costs), tables, panels, kept=kept)


def measured(found: Mapping[int, list[float]], costs: HeadCosts) -> dict[str, Value]:
    """Return the quantities, if the models have learned something."""
    means = {heads: statistics.mean(scores) for heads, scores in found.items()}
    if means[SEVERAL] < captions.MEANINGFUL:
        why = f"BLEU of {SEVERAL} heads is {means[SEVERAL]:.1f}, below {captions.MEANINGFUL:g}"
        return dict.fromkeys((SINGLE, TOO_MANY, CHEAP, CROSS), why)
    every = [cost for each in costs.values() for cost in each]
    return {
        SINGLE: means[SEVERAL] - means[ONE],
        TOO_MANY: means[SEVERAL] - means[MANY],
        CHEAP: sum(cost < CHEAP_BELOW for cost in every) / len(every),
        CROSS: in_standard_errors(of_kind(costs, CROSSED), of_kind(costs, ENCODER)),
    }


def in_standard_errors(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the difference of two means over its standard error (Welch).

    Equal means give 0, and different means without any spread an infinity.
    """
    difference = statistics.mean(first) - statistics.mean(second)
    error = math.sqrt(sum(statistics.variance(each) / len(each) for each in (first, second)))
    if error == 0:
        return math.copysign(math.inf, difference) if difference else 0.0
    return difference / error


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
    return [cost for name, each in costs.items() if name.startswith(kind) for cost in each]


def costs_table(wholes: Sequence[float], costs: HeadCosts) -> Table:
    """Return the cost of each head, a layer a line; several seeds stand side by side."""
    rows = [["attention", *(f"head {head + 1}" for head in range(SEVERAL))]]
    for module, each in costs.items():
        rows.append([module, *(joined(each[head::SEVERAL], ".2f") for head in range(SEVERAL))])
    of = joined(wholes, ".1f")
    return Table(f"BLEU that it costs to take a head away, of {of}, by seed", rows)


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
