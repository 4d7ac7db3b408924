"""Translation models that studies train on captions, each once: a run that is there is found again.

Image captions of Multi30k (Elliott et al. 2016), English to German: 29,000 pairs, 1,000 to test on.
"""

import hashlib
import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch

from crosshead.bundle.places import CHECKPOINTS, CONFIG, RECIPE
from crosshead.decoding.search import DecodeConfig
from crosshead.models.registry import AnyConfig
from crosshead.models.transformer import TransformerConfig
from crosshead.pipelines.translator import Translator
from crosshead.recipe.recipe import Recipe
from crosshead.studies.effort import Effort
from crosshead.studies.lexicon import VOCABULARY, as_text, sentences, translated
from crosshead.studies.sources import THIS_CODE
from crosshead.studies.study import Say
from crosshead.system.files import atomic_write, make_directory
from crosshead.system.lines import read_lines
from crosshead.tasks.loading import load_as
from crosshead.tasks.recipes import compose
from crosshead.training.checkpoint import list_checkpoints
from crosshead.training.run import train
from crosshead.training.settings import check_resumed, stored_recipe

T = TypeVar("T")

RUNS = Path("runs") / "studies"
"""The directory of runs on captions. An interrupted study continues there, and studies share
trained models."""

MINUTES = 10
"""The minutes of training of each run in the full form, with one thread."""

MEANINGFUL = 5.0
"""BLEU below which nothing is compared: texts of random words come to a few tenths, and between two
models that have learned so little a difference is chance."""

TRAIN, VALID, TEST = "train", "val", "test_2016_flickr"
SOURCE, TARGET = "en", "de"

TRANSLATIONS = f"translations.{TARGET}"
"""The file in a run's directory with what its model makes of the test set."""

VOCAB_SIZE = 4000
"""The pieces of the tokenizer of captions."""

_DOWNLOADED = Path("data") / "multi30k"


@dataclass(frozen=True)
class Corpus:
    """Text to train on, validate and test, and how studies train on it."""

    title: str
    text: Path
    runs: Path
    quick: bool
    vocabulary: int
    tokenizer: Mapping[str, Any]
    train: Mapping[str, Any]

    def recipe(self, model: AnyConfig, seed: int) -> Recipe:
        """Return the shared recipe with this model, seed, and peak of the learning rate.

        The peak comes from the architecture's preset `tiny`, which is made for such text.
        """
        sides = {"source": SOURCE, "target": TARGET}
        files = {side: [str(self.text / f"{TRAIN}.{end}")] for side, end in sides.items()}
        files |= {f"valid_{s}": [str(self.text / f"{VALID}.{end}")] for s, end in sides.items()}
        return compose(
            recipe={
                "data": files,
                "tokenizer": self.tokenizer,
                "model": model.model_dump(exclude_none=True),
                "train": {**_TRAIN, **self.train, "seed": seed},
                "decode": {"beam": 1},
            }
        )

    def test(self) -> tuple[list[str], list[str]]:
        """The sources to test on, and their references."""
        source, target = (read_lines(self.text / f"{TEST}.{end}") for end in (SOURCE, TARGET))
        return source, target


_TRAIN = {
    "batch_tokens": 2048,
    "warmup": 400,
    "valid_every": 1000,
    "checkpoint_every": 250,
    "patience": 0,
    "precision": "float32",
    "device": "cpu",
    "threads": 1,
    "keep_last": 1,
    "average": 0,
}
"""Training settings shared by all models. Batches are small, because ten minutes are few updates.
The precision is fixed, because `auto` depends on a measurement. Validation counts as training time,
so it is rare."""


def multi30k_text(say: Say) -> Path | None:
    """Return the folder of the captions, or say that they are missing.

    It is where `data get` puts them, or $CROSSHEAD_DATA/multi30k/raw.
    """
    named = os.environ.get("CROSSHEAD_DATA")
    text = Path(named) / "multi30k" / "raw" if named else _DOWNLOADED
    if (text / f"{TRAIN}.{SOURCE}").is_file():
        return text
    say(
        f"no captions in {text}, so what needs them is left out: `crosshead data get multi30k` "
        f"downloads them into {_DOWNLOADED}, where they are looked for unless CROSSHEAD_DATA "
        "names a folder with multi30k/raw"
    )
    return None


def multi30k(effort: Effort, say: Say) -> Corpus | None:
    """Return the captions to train on, for the minutes that the effort sets; None where missing.

    Runs of other minutes are kept apart.
    """
    text = multi30k_text(say)
    if text is None:
        return None
    # The minutes of a run include reading the text, which takes most of one.
    minutes = max(1.0, round(MINUTES * effort.share, 1))
    say(
        f"captions of {text}: {minutes:g} minutes a run, {torch.get_num_threads()} side by side; "
        f"runs that end are kept in {RUNS}, and those cut off go on"
    )
    title = f"captions, {minutes:g} minutes of training"
    runs = RUNS / ("multi30k" if effort.full else f"multi30k-{minutes:g}-minutes")
    budget = {"max_minutes": minutes}
    return Corpus(title, text, runs, False, VOCAB_SIZE, {"vocab_size": VOCAB_SIZE}, budget)


def made_up(directory: Path, seed: int) -> Corpus:
    """A handful of short sentences of `lexicon` in files, for two updates: to try the code on."""
    generator = torch.Generator().manual_seed(seed)
    make_directory(directory)
    for part, rows in ((TRAIN, 400), (VALID, 4), (TEST, 8)):
        source = sentences(rows, 6, generator)
        for end, side in ((SOURCE, source), (TARGET, translated(source))):
            (directory / f"{part}.{end}").write_text(as_text(side))
    budget = {"max_updates": 2, "warmup": 1, "batch_tokens": 512}
    return Corpus(
        "sentences made up, two updates",
        directory,
        directory / "runs",
        True,
        VOCABULARY,
        {"kind": "words"},
        budget,
    )


def transformer(heads: int = 4, *, quick: bool = False) -> TransformerConfig:
    """Return the preset `tiny` with the dropout of the paper's base.

    The dropout is lower because ten minutes are about ten epochs. With `quick`, the model is
    smaller, to try the code.
    """
    width, layers = (64, 1) if quick else (128, 4)
    return TransformerConfig.model_validate(
        {
            "d_model": width, "d_ff": 2 * width, "heads": heads,
            "encoder_layers": layers, "decoder_layers": layers, "dropout": 0.1,
        }
    )  # fmt: skip


def run_name(model: AnyConfig, seed: int) -> str:
    """Return the directory name of a run, which depends on the model, the seed and the code."""
    told = hashlib.sha256(f"{THIS_CODE} {model.model_dump_json()}".encode()).hexdigest()[:8]
    return f"{model.architecture}-{told}-{seed}"


def kept_in(corpus: Corpus, name: str) -> Path:
    """The file that the run of that name has once it has ended, for `Result.kept`."""
    return corpus.runs / name / CONFIG


def trained(corpus: Corpus, name: str, recipe: Recipe) -> Translator:
    """The model of this run, trained, or gone on with, where there is no such run yet.

    Raises `ConfigError` where a run of that name is of another recipe.
    """
    place = corpus.runs / name
    if (place / RECIPE).is_file():
        check_resumed(stored_recipe(place), recipe, place)
    if not kept_in(corpus, name).is_file():
        (place / TRANSLATIONS).unlink(missing_ok=True)  # of weights that will be others
        begun = bool(list_checkpoints(place / CHECKPOINTS))
        threads = torch.get_num_threads()
        try:
            train(recipe, place, resume=begun, force=not begun, command="crosshead study")
        finally:
            torch.set_num_threads(threads)
    return load_as(Translator, place, recipe.train.device)


def greedily(translator: Translator, source: list[str]) -> list[str]:
    """The greedy translation of each line."""
    found = translator.translate(source, decode=DecodeConfig(beam=1))
    return [best.text for [best] in found]


def outputs(corpus: Corpus, name: str, recipe: Recipe) -> list[str]:
    """Return the run's translations of the test set, which are kept in its directory."""
    kept = corpus.runs / name / TRANSLATIONS
    translator = trained(corpus, name, recipe)
    if not kept.is_file():
        lines = greedily(translator, corpus.test()[0])
        atomic_write(kept, "".join(f"{line}\n" for line in lines).encode())
    return read_lines(kept)


def side_by_side(jobs: Mapping[str, Callable[[], T]], *, quick: bool) -> Iterator[tuple[str, T]]:
    """Jobs by name and what they give, as they are done: a process for each thread of PyTorch's.

    They cross into processes: functions of modules, or `partial` of such. With one thread, and in a
    quick form, which processes would only hold up, they are called here, one after the other.
    """
    workers = 1 if quick else min(torch.get_num_threads(), len(jobs))
    if workers == 1:
        for name, job in jobs.items():
            yield name, job()
        return
    pool = ProcessPoolExecutor(
        workers,
        multiprocessing.get_context("spawn"),
        initializer=torch.set_num_threads,
        initargs=(1,),
    )
    try:
        started = {pool.submit(job): name for name, job in jobs.items()}
        for done in as_completed(started):
            yield started[done], done.result()
    finally:
        pool.shutdown(cancel_futures=True)
