"""Translation models trained on captions, once each: later studies find a finished run again.

The captions come from Multi30k (Elliott et al. 2016), English to German: 29,000 pairs, and 1,000
to test on.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from crosshead.addons.studies import equal, runs
from crosshead.addons.studies.effort import Effort
from crosshead.addons.studies.lexicon import VOCABULARY, as_text, sentences, translated
from crosshead.addons.studies.study import Say
from crosshead.decoding.search import DecodeConfig
from crosshead.models.registry import AnyTokenConfig
from crosshead.models.transformer import TransformerConfig
from crosshead.pipelines.translator import Translator
from crosshead.recipe.recipe import Recipe
from crosshead.system.files import atomic_write, make_directory
from crosshead.system.lines import read_lines
from crosshead.tasks.loading import load_as
from crosshead.tasks.recipes import compose

MINUTES = 10
"""The minutes of training of each run in the full form, with one thread."""

MEANINGFUL = 5.0
"""The BLEU below which nothing is compared. Random words score a few tenths, and a difference
between two models that have learned so little is chance."""

MISSING = "the captions are not there"
"""The reason why a quantity that needs captions is not measured."""

TRAIN, VALID, TEST = "train", "val", "test_2016_flickr"
SOURCE, TARGET = "en", "de"
TRANSLATIONS = f"translations.{TARGET}"  # of the test set, in a run's directory
VOCAB_SIZE = 4000
_DOWNLOADED = Path("data") / "multi30k"

_TRAIN = {
    "batch_tokens": 2048, "schedule": "inverse-sqrt", "warmup": 400, "valid_every": 1000,
    "checkpoint_every": 250, "patience": 0, "precision": "float32", "device": "cpu", "threads": 1,
    "keep_last": 1, "average": 0,
}  # fmt: skip
"""Training settings shared by all models. Batches are small, because ten minutes are few updates.
The precision is fixed, because `auto` depends on a measurement. Validation counts as training time,
so it is rare."""


@dataclass(frozen=True)
class TranslationText:
    """Text to train on, validate and test, and the settings of training on it."""

    title: str
    text: Path
    runs: Path
    quick: bool
    vocabulary: int
    tokenizer: Mapping[str, Any]
    train: Mapping[str, Any]

    def recipe(self, model: AnyTokenConfig, seed: int) -> Recipe:
        """Return the shared recipe with this model and seed, and the preset's learning rate."""
        ends = (("source", SOURCE), ("target", TARGET))
        files = {side: [str(self.text / f"{TRAIN}.{end}")] for side, end in ends}
        files |= {f"valid_{side}": [str(self.text / f"{VALID}.{end}")] for side, end in ends}
        found: Recipe = compose(
            recipe={
                "data": files,
                "tokenizer": self.tokenizer,
                "model": model.model_dump(exclude_none=True),
                "train": {**_TRAIN, **self.train, "seed": seed},
                "decode": {"beam": 1},
            }
        )
        return found

    def place(self, recipe: Recipe) -> Path:
        """Return the directory of a run, which depends on the model, the seed and the code."""
        return runs.place_of(self.runs, recipe)

    def finished(self, recipe: Recipe) -> Path:
        """Return the file that a run has once it has ended, for `Result.kept`."""
        return runs.finished(self.place(recipe))

    def test(self) -> list[list[str]]:
        """Return the sources to test on, and their references."""
        return sides(self.text, TEST)


def sides(text: Path, part: str) -> list[list[str]]:
    """Return the lines of source and target of a part of the corpus."""
    return [read_lines(text / f"{part}.{end}") for end in (SOURCE, TARGET)]


def multi30k_text(say: Say) -> Path | None:
    """Return the folder of the captions, or say that they are missing.

    It is $CROSSHEAD_DATA/multi30k/raw, or by default the folder that `data get` writes.
    """
    named = os.environ.get("CROSSHEAD_DATA")
    text = Path(named) / "multi30k" / "raw" if named else _DOWNLOADED
    if (text / f"{TRAIN}.{SOURCE}").is_file():
        return text
    say(
        f"Multi30k not found in {text}; quantities that need it are skipped: `crosshead data get "
        f"multi30k` downloads it into {_DOWNLOADED}; to use a copy, set CROSSHEAD_DATA to a folder "
        "that holds multi30k/raw"
    )
    return None


def multi30k(effort: Effort, say: Say) -> TranslationText | None:
    """Return the captions, with the minutes of training that the effort sets; None if missing.

    Runs of other minutes are stored apart.
    """
    text = multi30k_text(say)
    if text is None:
        return None
    # The minutes of a run include reading the text, which takes most of one.
    minutes = max(1.0, round(MINUTES * effort.share, 1))
    say(
        f"captions of {text}: {minutes:g} minutes a run, {torch.get_num_threads()} in parallel; "
        f"finished runs are kept in {runs.RUNS}, and interrupted ones continue"
    )
    title = f"captions, {minutes:g} minutes of training"
    folder = runs.RUNS / ("multi30k" if effort.full else f"multi30k-{minutes:g}-minutes")
    budget, tokenizer = {"max_minutes": minutes}, {"vocab_size": VOCAB_SIZE}
    return TranslationText(title, text, folder, False, VOCAB_SIZE, tokenizer, budget)


def for_effort(effort: Effort, folder: Path, seed: int, say: Say) -> TranslationText | None:
    """Return the captions, or for the quick form sentences written into `folder`."""
    return made_up(folder, seed) if effort.quick else multi30k(effort, say)


def made_up(directory: Path, seed: int) -> TranslationText:
    """Write a few short sentences of `lexicon` as files, for two updates: to try the code."""
    generator = torch.Generator().manual_seed(seed)
    make_directory(directory)
    for part, rows in ((TRAIN, 400), (VALID, 4), (TEST, 8)):
        source = sentences(rows, 6, generator)
        for end, side in ((SOURCE, source), (TARGET, translated(source))):
            (directory / f"{part}.{end}").write_text(as_text(side))
    budget = {"max_updates": 2, "warmup": 1, "batch_tokens": 512}
    title, folder = "sentences made up, two updates", directory / "runs"
    return TranslationText(title, directory, folder, True, VOCABULARY, {"kind": "words"}, budget)


def transformer(heads: int = 4, *, quick: bool = False) -> TransformerConfig:
    """Return the preset `tiny` with the dropout of the paper's base; `quick` has a smaller one.

    The dropout is lower than the preset's, because ten minutes are about ten epochs.
    """
    width, layers = (64, 1) if quick else (128, 4)
    return equal.transformer(width, 2 * width, heads, layers, dropout=0.1)


def trained(corpus: TranslationText, recipe: Recipe) -> Translator:
    """Return the model of a run; train it, or continue an interrupted run, if necessary."""
    place = corpus.place(recipe)
    if not corpus.finished(recipe).is_file():
        (place / TRANSLATIONS).unlink(missing_ok=True)  # they belong to other weights
    runs.ensure_trained(place, recipe)
    return load_as(Translator, place, recipe.train.device)


def greedily(translator: Translator, source: list[str]) -> list[str]:
    """Return the greedy translation of each line."""
    found = translator.translate(source, decode=DecodeConfig(beam=1))
    return [best.text for [best] in found]


def outputs(corpus: TranslationText, recipe: Recipe) -> list[str]:
    """Return the run's translations of the test set, which are kept in its directory."""
    kept = corpus.place(recipe) / TRANSLATIONS
    translator = trained(corpus, recipe)
    if not kept.is_file():
        lines = greedily(translator, corpus.test()[0])
        atomic_write(kept, "".join(f"{line}\n" for line in lines).encode())
    return read_lines(kept)
