"""Heads: one against several of the same width, and the cost of taking each away."""

import math
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from crosshead.addons.studies import captions
from crosshead.addons.studies.captions import TranslationText
from crosshead.addons.studies.effort import Effort, Times, seeds_of
from crosshead.addons.studies.formats import joined
from crosshead.addons.studies.runs import side_by_side
from crosshead.addons.studies.study import Band, Result, Say, Study, Table, Value, reported
from crosshead.evaluation.sacrebleu_metrics import bleu
from crosshead.inspection import without_heads
from crosshead.models.base import AttentionKind, Model
from crosshead.recipe.recipe import Recipe

ONE, SEVERAL, MANY = 1, 4, 32
CHEAP_BELOW = 0.5
"""A head that costs less BLEU than this is not missed."""

ENCODER, DECODER, CROSSED = "encoder, self", "decoder, self", "decoder, cross"
SINGLE = "BLEU of four heads less that of one"
TOO_MANY = "BLEU of four heads less that of 32"
CHEAP = "share of heads that cost less than half a BLEU to take away"
CROSS = (
    "BLEU that a head costs: cross-attention less the encoder's self-attention, in standard errors"
)

BANDS = (
    Band(
        CHEAP, 0.5, 1,
        "\"A large percentage\" is at least the majority. 8 of 96 heads made a significant "
        "difference in Michel et al. 2019, section 3.2, but layers had 16 heads there, and four "
        "here.",
    ),
    Band(
        CROSS, 2, math.inf,
        "Cross-attention relies on its heads more than self-attention does (Michel et al. 2019, "
        "section 5): by more than two standard errors over the heads of both kinds. Chance alone "
        "gives this in one of forty cases.",
    ),
    reported(
        SINGLE,
        "0.9 in Table 3, row A (24.9 with one head, 25.8 with eight), after 100,000 updates. After "
        "ten minutes two seeds differ by more than that.",
    ),
    reported(
        TOO_MANY,
        "0.4 in Table 3 (25.4 with 32 heads of d_k 16). Heads of d_k 4 are not in that table.",
    ),
)  # fmt: skip

HeadCosts = Mapping[str, list[float]]
"""By module, the BLEU that each head costs; with several seeds, the heads of one after another."""


def run(effort: Effort, seed: int, say: Say) -> Result:
    """Train with one, several and many heads; then take away each of several heads."""
    seeds, quick = seeds_of(effort, seed), effort.quick
    with tempfile.TemporaryDirectory() as scratch:
        corpus = captions.for_effort(effort, Path(scratch), seed, say)
        if corpus is None:
            missing = dict.fromkeys((band.name for band in BANDS), captions.MISSING)
            return Result(missing, [], lambda figure: None)
        recipes = {
            (heads, each): corpus.recipe(captions.transformer(heads, quick=quick), each)
            for heads in (ONE, SEVERAL, MANY)
            for each in seeds
        }
        found = scores(corpus, recipes, say)
        taken = [pruned(corpus, recipes[SEVERAL, each], say) for each in seeds]
    costs = {
        module: [whole - score for whole, without in taken for score in without[module]]
        for module in taken[0][1]
    }
    quality = [[str(heads), joined(each, ".1f")] for heads, each in found.items()]
    tables = [
        Table("Quality at one width", [["heads", "BLEU by seed"], *quality]),
        costs_table([whole for whole, _ in taken], costs),
    ]
    kept = [corpus.finished(recipe) for recipe in recipes.values()]
    return Result(measured(found, costs), tables, partial(draw, found, costs), kept=kept)


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


def scores(
    corpus: TranslationText, recipes: Mapping[tuple[int, int], Recipe], say: Say
) -> dict[int, list[float]]:
    """Return BLEU on the test set by the number of heads, for each seed."""
    jobs = {run: partial(captions.outputs, corpus, recipe) for run, recipe in recipes.items()}
    reference, done = corpus.test()[1], {}
    for run, lines in side_by_side(jobs, quick=corpus.quick):
        done[run] = bleu(lines, reference)
        say(f"{run[0]} heads, seed {run[1]}: BLEU {done[run]:.1f}")
    found: dict[int, list[float]] = {}
    for heads, seed in recipes:
        found.setdefault(heads, []).append(done[heads, seed])
    return found


def pruned(
    corpus: TranslationText, recipe: Recipe, say: Say
) -> tuple[float, dict[str, list[float]]]:
    """Return BLEU of a whole model, and without each head of each attention, by module."""
    whole = bleu(captions.outputs(corpus, recipe), corpus.test()[1])
    modules = attentions(captions.trained(corpus, recipe).model)
    jobs = {
        module: partial(without_each, corpus, recipe, of, layer)
        for module, (of, layer) in modules.items()
    }
    done = {}
    for module, found in side_by_side(jobs, quick=corpus.quick):
        done[module] = found
        say(f"{module}, without a head: BLEU {joined(found, '.1f')}")
    return whole, {module: done[module] for module in modules}


def without_each(
    corpus: TranslationText, recipe: Recipe, of: AttentionKind, layer: int
) -> list[float]:
    """Return BLEU without each of the heads of a layer; the first layer is 1."""
    translator = captions.trained(corpus, recipe)
    source, reference = corpus.test()
    found = []
    for head in range(1, translator.model.attentions()[of][layer - 1].heads + 1):
        with without_heads(translator.model, {(layer, head)}, of):
            found.append(bleu(captions.greedily(translator, source), reference))
    return found


def attentions(model: Model) -> dict[str, tuple[AttentionKind, int]]:
    """Return the kind and the layer of each attention of a model, by the name of its module."""
    places = {
        module: (of, layer)
        for of, modules in model.attentions().items()
        for layer, module in enumerate(modules, 1)
    }
    return {name: places[each] for name, each in model.named_modules() if each in places}


def kind(module: str) -> str:
    """Return the kind of attention of a module, in the paper's words."""
    if module.endswith("cross_attention"):
        return CROSSED
    return ENCODER if module.startswith("encoder") else DECODER


def of_kind(costs: HeadCosts, of: str) -> list[float]:
    """Return the costs of all heads of a kind."""
    return [cost for module, each in costs.items() if kind(module) == of for cost in each]


def costs_table(wholes: Sequence[float], costs: HeadCosts) -> Table:
    """Return the cost of each head, a layer a line; several seeds stand side by side."""
    rows = [["attention", *(f"head {head + 1}" for head in range(SEVERAL))]]
    for module, each in costs.items():
        rows.append([module, *(joined(each[head::SEVERAL], ".2f") for head in range(SEVERAL))])
    of = joined(wholes, ".1f")
    return Table(f"BLEU that it costs to take a head away, of {of}, by seed", rows)


def draw(found: Mapping[int, list[float]], costs: HeadCosts, figure: Any) -> None:
    """Draw quality by number of heads, and the cost of every head by kind."""
    left, right = figure.subplots(1, 2)
    for place, each in enumerate(found.values()):
        left.plot([place] * len(each), each, "o", color="C0")
    left.set_xticks(range(len(found)), map(str, found))
    left.set(xlabel="heads", ylabel="BLEU", xlim=(-0.5, len(found) - 0.5))
    for place, of in enumerate((ENCODER, DECODER, CROSSED)):
        every = of_kind(costs, of)
        right.plot(every, [place] * len(every), "o", alpha=0.5)
    right.set_yticks(range(3), (ENCODER, DECODER, CROSSED))
    right.set(xlabel="BLEU that a head costs", ylim=(-0.5, 2.5))
    for axes in (left, right):
        axes.grid(alpha=0.3)


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
    Times(quick=8, full=1980),  # recorded with one seed's heads removed: 1,920
)
