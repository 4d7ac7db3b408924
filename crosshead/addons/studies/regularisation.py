"""Regularisers and averages of weights, each added to one recipe for captions (Multi30k).

All quantities are BLEU on the validation set, by greedy search, so the test set stays unseen by
every choice that follows from this study. All runs make the same number of updates.
"""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from crosshead.addons.studies import captions
from crosshead.addons.studies.charts import Sheet, by_seed
from crosshead.addons.studies.fitting import transformer
from crosshead.addons.studies.runs import Run, results
from crosshead.addons.studies.study import Band, Result, Study, Trial, Value

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


def _gain(variant: str) -> str:
    return f"{variant}: BLEU less that of the base, in points"


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
)  # fmt: skip


Found = Mapping[str, Sequence[float]]
"""By variant, BLEU on the validation set, greedily, for each seed."""


def run(trial: Trial) -> Result:
    """Train every variant from every seed."""
    text = captions.text_of(trial)
    found = results(trial, CHANGES, lambda variant, seed: plan(trial, text, variant, seed), bleu_of)
    title = f"BLEU on validation captions, greedy, after {trial.amount(2, UPDATES):,} updates"
    return Result(quantities(found), [Sheet(title, by_seed(found), "variant", ".2f")])


def plan(trial: Trial, text: Path, variant: str, seed: int) -> Run:
    """Return the run of a variant: the recipe `multi30k` by updates, and its changes."""
    changes, updates = CHANGES[variant], trial.amount(2, UPDATES)
    model = transformer(16, 32, 2, 1) if trial.quick else transformer(128, 256, 4, 4, dropout=0.3)
    train = {
        "learning_rate": 0.005, "warmup": min(1000, max(1, updates // 8)), "max_updates": updates,
        "valid_every": EVERY, "checkpoint_every": EVERY, "keep_last": 10, "average": 10,
        "seed": seed, **changes.get("train", {}),
    }  # fmt: skip
    tokenizer = {
        "kind": "bpe", "vocab_size": 280 if trial.quick else 8000, **changes.get("tokenizer", {}),
    }  # fmt: skip
    return captions.run_on(trial, text, "regularisation", model, tokenizer=tokenizer, train=train)


def bleu_of(run: Run) -> float:
    """Return BLEU of a run's bundle; train it, or continue it, if necessary."""
    return run.scores()["BLEU"]


def quantities(found: Found) -> dict[str, Value]:
    """Return the quantities of the bands, as differences of means over seeds."""
    base = statistics.mean(found[BASE])
    weak = f"BLEU of the base is below {captions.MEANINGFUL:g}"
    return {
        _gain(variant): statistics.mean(of) - base if base >= captions.MEANINGFUL else weak
        for variant, of in found.items()
        if variant != BASE
    }


REGULARISATION = Study(
    "regularisation",
    "Consistency between two views improves translation from little data",
    "Experiments on 5 widely used deep learning tasks [...], including neural machine translation, "
    "[...] show that R-Drop is universally effective.",
    "Liang et al. 2021, abstract",
    BANDS,
    run,
    seconds=26000,  # estimated from the times of updates, with two threads
)
