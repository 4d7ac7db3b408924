"""Translation models trained on captions, once each: later studies find a finished run again.

The captions come from Multi30k (Elliott et al. 2016), English to German: 29,000 pairs, and 1,000
to test on.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch

from crosshead.addons.studies import equal
from crosshead.addons.studies.lexicon import VOCABULARY, as_text, sentences, translated
from crosshead.addons.studies.runs import Run, data_at, run_of
from crosshead.addons.studies.study import Trial
from crosshead.decoding.search import DecodeConfig
from crosshead.models.registry import AnyTokenConfig
from crosshead.models.transformer import TransformerConfig
from crosshead.system.lines import read_lines
from crosshead.tasks.loading import load_as
from crosshead.tasks.translation.translator import Translator

MINUTES = 10
"""The minutes of training of each run in the full form, with one thread."""

MEANINGFUL = 5.0
"""The BLEU below which nothing is compared. Random words score a few tenths, and a difference
between two models that have learned so little is chance."""

TRAIN, VALID, TEST = "train", "val", "test_2016_flickr"
ENDS = {"source": "en", "target": "de"}
VOCAB_SIZE = 4000

_TRAIN = {
    "batch_tokens": 2048, "schedule": "inverse-sqrt", "warmup": 400, "valid_every": 1000,
    "checkpoint_every": 250, "patience": 0, "average": 0,
}  # fmt: skip
"""Batches are small, because ten minutes are few updates. Validation counts as training time, so it
is rare."""


def text_of(trial: Trial) -> Path:
    """Return the folder of the captions, or of a few sentences made up to try the code.

    `data get` writes into a folder without `raw`.
    """
    if not trial.quick:
        first = f"{TRAIN}.{ENDS['source']}"
        return data_at(f"multi30k/raw/{first}", f"multi30k/{first}").parent
    generator = torch.Generator().manual_seed(trial.seed)
    for part, rows in ((TRAIN, 400), (VALID, 4), (TEST, 8)):
        source = sentences(rows, 6, generator)
        for end, side in zip(ENDS.values(), (source, translated(source)), strict=True):
            (trial.folder / f"{part}.{end}").write_text(as_text(side))
    return trial.folder


def sides(text: Path, part: str) -> list[list[str]]:
    """Return the lines of source and target of a part of the text."""
    return [read_lines(text / f"{part}.{end}") for end in ENDS.values()]


def run_on(
    text: Path,
    folder: Path,
    model: AnyTokenConfig,
    *,
    tokenizer: Mapping[str, Any],
    train: Mapping[str, Any],
) -> Run:
    """Return the run of a model on a text, with the settings of this module and `train`."""
    data = {
        f"{prefix}{side}": [str(text / f"{part}.{end}")]
        for prefix, part in (("", TRAIN), ("valid_", VALID))
        for side, end in ENDS.items()
    }
    return run_of(
        folder, {**_TRAIN, **train}, data=data, tokenizer=tokenizer,
        model=model.model_dump(exclude_none=True), decode={"beam": 1},
    )  # fmt: skip


class Captions(NamedTuple):
    """Captions in files, and the settings of the runs of equal time on them."""

    title: str
    text: Path
    folder: Path
    vocabulary: int
    tokenizer: Mapping[str, Any]
    budget: Mapping[str, Any]

    def run(self, model: AnyTokenConfig, seed: int) -> Run:
        """Return the run of a model."""
        train = {**self.budget, "seed": seed}
        return run_on(self.text, self.folder, model, tokenizer=self.tokenizer, train=train)


def captions_of(trial: Trial) -> Captions:
    """Return the captions with the minutes of training that the effort sets."""
    text, folder = text_of(trial), trial.folder / "captions"
    if trial.quick:
        budget = {"max_updates": 2, "warmup": 1, "batch_tokens": 512}
        title = "sentences made up, two updates"
        return Captions(title, text, folder, VOCABULARY, {"kind": "words"}, budget)
    # The minutes of a run include reading the text, which takes most of one.
    minutes = max(1.0, round(MINUTES * trial.effort.share, 1))
    trial.say(f"{text}: {minutes:g} minutes a run; finished runs are kept in {folder}")
    title, tokenizer = f"captions, {minutes:g} minutes of training", {"vocab_size": VOCAB_SIZE}
    return Captions(title, text, folder, VOCAB_SIZE, tokenizer, {"max_minutes": minutes})


def transformer(heads: int = 4, *, quick: bool = False) -> TransformerConfig:
    """Return the preset `tiny` with the dropout of the paper's base; `quick` has a smaller one.

    The dropout is lower than the preset's, because ten minutes are about ten epochs.
    """
    width, layers = (64, 1) if quick else (128, 4)
    return equal.transformer(width, 2 * width, heads, layers, dropout=0.1)


def translator(run: Run) -> Translator:
    """Return the model of a run, which is trained or continued if necessary."""
    return load_as(Translator, run.trained(), run.recipe.train.device)


def greedily(model: Translator, source: list[str]) -> list[str]:
    """Return the greedy translation of each line."""
    return [best.text for [best] in model.translate(source, decode=DecodeConfig(beam=1))]


def outputs(source: list[str], run: Run) -> list[str]:
    """Return the translations by the model of a run."""
    return greedily(translator(run), source)
