"""Regularisers and averages of weights, each added to one recipe for captions (Multi30k).

All quantities are BLEU on the validation set, by greedy search, so the test set stays unseen by
every choice that follows from this study. All runs make the same number of updates.
"""

import dataclasses
import json
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from crosshead.addons.studies import captions, runs
from crosshead.addons.studies.captions import TranslationText
from crosshead.addons.studies.effort import Effort, Times, seeds_of
from crosshead.addons.studies.equal import transformer
from crosshead.addons.studies.formats import joined
from crosshead.addons.studies.study import (
    Band,
    Result,
    Say,
    Study,
    Table,
    Value,
    after_training,
    reported,
)
from crosshead.recipe.recipe import Recipe
from crosshead.tasks.registry import load_bundle
from crosshead.training.log import LOG

BASE, SAMPLING, R_DROP, SIMCUT, EMA = (
    "dropout, smoothing, average of 10 checkpoints",
    "subword sampling, 0.1",
    "R-Drop, alpha 5",
    "SimCut, alpha 3",
    "moving average, 0.9995, instead of the average",
)

UPDATES, EVERY = 8000, 400
"""Updates of a run, and between validations. Ten checkpoints span 4,000 updates."""

CHANGES: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    BASE: {},
    SAMPLING: {"tokenizer": {"sampling": 0.1}},
    R_DROP: {"train": {"consistency": "r-drop"}},
    SIMCUT: {"train": {"consistency": "simcut"}},
    EMA: {"train": {"ema": 0.9995, "average": 0}},
}
"""Each variant as what it changes of the base."""

_TRAIN = {
    "batch_tokens": 2048, "learning_rate": 0.005, "warmup": 1000, "max_updates": UPDATES,
    "valid_every": EVERY, "checkpoint_every": EVERY, "keep_last": 10, "average": 10,
}  # fmt: skip
"""The settings of the recipe `multi30k`, with a budget of updates."""


def _gain(variant: str) -> str:
    return f"{variant}: BLEU less that of the base, in points"


def _time(variant: str) -> str:
    return f"{variant}: time for a target token, over that of the base"


BANDS = (
    Band(
        _gain(SAMPLING), 0.3, 3,
        "Provilkov et al. 2020 report 0.65 points and more on small corpora. Half of that is left "
        "for captions, whose words are often whole pieces.",
    ),
    Band(
        _gain(R_DROP), 0.6, 3.5,
        "Two views of a sentence are said to have brought 0.6 points on these captions (SAMMT, "
        "2023), and three points to larger models of 160,000 pairs.",
    ),
    Band(_gain(SIMCUT), 0.6, 3.5, "The same reason: it too asks two views to agree."),
    Band(
        _gain(EMA), -0.5, 0.5,
        "Both average about the last thousands of updates; half a point is the noise of a mean of "
        "two seeds.",
    ),
    *(
        reported(_time(variant), "It is the price of the gain, and depends on the machine.")
        for variant in (SAMPLING, R_DROP, SIMCUT, EMA)
    ),
)  # fmt: skip


class TrainedRun(NamedTuple):
    """The results of a run."""

    bleu: float
    """BLEU of the bundle on the validation set, greedily."""
    loss: float
    """The lowest validation loss of the run, in nats a token."""
    speed: float
    """Target tokens a second in training: the median over the lines of the log."""


Found = Mapping[str, Sequence[TrainedRun]]
"""By variant, a result for each seed."""


def run(effort: Effort, seed: int, say: Say) -> Result:
    """Train every variant from every seed."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        text = captions.made_up(folder, seed).text if effort.quick else captions.multi30k_text(say)
        if text is None:
            missing = dict.fromkeys((band.name for band in BANDS), captions.MISSING)
            return Result(missing, [], lambda figure: None)
        kept = folder if effort.quick else runs.RUNS
        planned = plan(effort, seed, text, kept / "regularisation")
        jobs = {job: partial(trained, *each) for job, each in planned.items()}
        done = {}
        for job, outcome in runs.side_by_side(jobs, quick=effort.quick):
            done[job] = outcome
            say(f"{job[0]}, seed {job[1]}: BLEU {outcome.bleu:.2f}, {outcome.speed:,.0f} tokens/s")
    found = {
        variant: [done[variant, each] for each in seeds_of(effort, seed)] for variant in CHANGES
    }
    files = [runs.finished(corpus.place(recipe)) for corpus, recipe in planned.values()]
    title = f"validation captions after {effort.amount(2, UPDATES):,} updates, by seed"
    return Result(
        quantities(found, effort), [table(title, found)], partial(draw, found), kept=files
    )


def plan(
    effort: Effort, seed: int, text: Path, folder: Path
) -> dict[tuple[str, int], tuple[TranslationText, Recipe]]:
    """Return the text and the recipe of every run, by variant and seed."""
    planned = {}
    number = effort.amount(2, UPDATES)
    model = transformer(16, 32, 2, 1) if effort.quick else transformer(128, 256, 4, 4, dropout=0.3)
    for variant, changes in CHANGES.items():
        for each in seeds_of(effort, seed):
            train = {**_TRAIN, "max_updates": number, "warmup": min(1000, max(1, number // 8))}
            tokenizer = {"kind": "bpe", "vocab_size": 280 if effort.quick else 8000}
            corpus = TranslationText(
                variant, text, folder, effort.quick, tokenizer["vocab_size"],  # type: ignore[arg-type]
                {**tokenizer, **changes.get("tokenizer", {})},
                {**train, **changes.get("train", {})},
            )  # fmt: skip
            own = folder / f"{list(CHANGES).index(variant)}-{number}"
            corpus = dataclasses.replace(corpus, runs=own)
            planned[variant, each] = corpus, corpus.recipe(model, each)
    return planned


def trained(corpus: TranslationText, recipe: Recipe) -> TrainedRun:
    """Return the results of a run; train it, or continue it, if necessary."""
    place = corpus.place(recipe)
    runs.ensure_trained(place, recipe)
    scores = {each.metric: each.value for each in load_bundle(place).config.scores}
    rows = [json.loads(line) for line in (place / LOG).read_text().splitlines()]
    speeds = [row["target_tokens_per_second"] for row in rows if row["kind"] == "train"]
    losses = [row["loss"] for row in rows if row["kind"] in ("valid", "average")]
    return TrainedRun(scores["BLEU"], min(losses), statistics.median(speeds))


def quantities(found: Found, effort: Effort) -> dict[str, Value]:
    """Return the quantities of the bands, as differences of means over seeds."""
    mean = statistics.mean
    bleu = {variant: mean(each.bleu for each in results) for variant, results in found.items()}
    speed = {variant: mean(each.speed for each in results) for variant, results in found.items()}
    others = [variant for variant in CHANGES if variant != BASE]
    gains = {_gain(each): bleu[each] - bleu[BASE] for each in others}
    times = {_time(each): speed[BASE] / speed[each] for each in others}
    weak = f"BLEU of the base is below {captions.MEANINGFUL:g}"
    failed = dict.fromkeys(gains, weak) if bleu[BASE] < captions.MEANINGFUL else None
    return after_training(effort, {**gains, **times}, failed)


def table(title: str, found: Found) -> Table:
    """Return BLEU, loss and speed of each variant."""
    rows = [["variant", "BLEU", "lowest loss", "target tokens/s"]]
    for variant, results in found.items():
        bleu = joined((each.bleu for each in results), ".2f")
        loss = joined((each.loss for each in results), ".3f")
        rows.append([variant, bleu, loss, joined((each.speed for each in results), ",.0f")])
    return Table(title, rows)


def draw(found: Found, figure: Any) -> None:
    """Draw BLEU by variant: a point for each seed, and a line at the mean of the base."""
    axes = figure.subplots()
    names = [variant.replace(", ", ",\n") for variant in found]
    for name, results in zip(names, found.values(), strict=True):
        axes.plot([each.bleu for each in results], [name] * len(results), "o", color="C0")
    base = statistics.mean(each.bleu for each in found[BASE])
    axes.axvline(base, color="gray", ls=":", label="mean of the base")
    axes.margins(y=0.15)
    axes.invert_yaxis()
    axes.set(xlabel="BLEU on validation, greedy")
    axes.tick_params(axis="y", labelsize=8)
    axes.grid(alpha=0.3)
    axes.legend()


REGULARISATION = Study(
    "regularisation",
    "Consistency between two views improves translation from little data",
    "Experiments on 5 widely used deep learning tasks (18 datasets in total), including neural "
    "machine translation, abstractive summarization, language understanding, language modeling, "
    "and image classification, show that R-Drop is universally effective.",
    "Liang et al. 2021, abstract",
    BANDS,
    run,
    Times(quick=5, full=26000),  # estimated from the times of updates, with two threads
)
