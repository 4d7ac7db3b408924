"""Text to translate in studies: captions, and a made-up language.

The captions come from Multi30k (Elliott et al. 2016), English to German: 29,000 pairs, and 1,000
to test on. The made-up language is translated word for word, but every adjective that stands before
a noun changes places with it. Its words are drawn at random, so that only the source tells the next
word. A model guesses every word that it does not carry over.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor

from crosshead.addons.studies import fitting
from crosshead.addons.studies.fitting import FIRST
from crosshead.addons.studies.runs import K, Run, data_at, results, run_of
from crosshead.addons.studies.study import Trial
from crosshead.decoding.hypotheses import Specials
from crosshead.decoding.search import greedy_search
from crosshead.decoding.settings import DecodeConfig
from crosshead.models.base import SequenceModel
from crosshead.models.registry import AnyTokenConfig
from crosshead.models.transformer import TransformerConfig
from crosshead.system.lines import read_lines
from crosshead.tasks.loading import load_as
from crosshead.tasks.translation.translator import Translator
from crosshead.text.batching import Batch
from crosshead.vocabulary import BOS, EOS, PAD, UNK

MINUTES = 10.0
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

NOUNS = ADJECTIVES = 16
VOCABULARY = FIRST + NOUNS + ADJECTIVES

_WORD = torch.randperm(NOUNS + ADJECTIVES, generator=Generator().manual_seed(1)) + FIRST
"""The translation of each word, nouns first; any id may stand for any word."""

_SPECIALS = Specials(BOS, EOS, (PAD, BOS, UNK))


def translated(source: Tensor) -> Tensor:
    """Return the translation of sentences "B T", without end tokens."""
    adjective = source >= FIRST + NOUNS
    before = adjective[:, :-1] & ~adjective[:, 1:]
    order = torch.arange(source.shape[1]).repeat(len(source), 1)
    order[:, :-1] += before.long()
    order[:, 1:] -= before.long()
    return _WORD[source.gather(1, order) - FIRST]


def sentences(rows: int, length: int, generator: Generator) -> Tensor:
    """Return sentences of random words, "rows length"."""
    return torch.randint(FIRST, VOCABULARY, (rows, length), generator=generator)


def as_text(tokens: Tensor) -> str:
    """Return sentences "B T" as lines of words: `a7 a40 a3`."""
    return "".join(" ".join(f"a{word}" for word in row) + "\n" for row in tokens.tolist())


def pairs(source: Tensor) -> Batch:
    """Return sentences and their translations, for teacher forcing."""
    target = translated(source)
    begin, end = (torch.full((len(source), 1), special) for special in (BOS, EOS))
    inputs = torch.cat([source, end], dim=1), torch.cat([begin, target], dim=1)
    return Batch(inputs, torch.cat([target, end], dim=1))


def random_pairs(lengths: tuple[int, int], tokens: int, generator: Generator) -> Batch:
    """Return a batch of about `tokens` words, all of one length drawn from `lengths`."""
    length = int(torch.randint(lengths[0], lengths[1] + 1, (1,), generator=generator))
    return pairs(sentences(max(1, tokens // length), length, generator))


@torch.inference_mode()
def right(model: SequenceModel, source: Tensor) -> Tensor:
    """Return which words of greedy translations are at their correct position: "B T" to "B T".

    A missing word counts as wrong; words past the end are ignored.
    """
    model.eval()
    rows, length = source.shape
    end = torch.full((rows, 1), EOS)
    limits = torch.full((rows,), length + 1)
    found = greedy_search(model, torch.cat([source, end], dim=1), limits, _SPECIALS, 0.0)
    written = torch.full((rows, length), PAD)
    for row, [best] in enumerate(found):
        tokens = torch.tensor(best.tokens[:length], dtype=torch.long)
        written[row, : len(tokens)] = tokens
    model.train()
    return written == translated(source)


def text_of(trial: Trial) -> Path:
    """Return the folder of the captions, or of a few sentences made up to try the code.

    `data get` writes into a folder without `raw`.
    """
    if not trial.quick:
        first = f"{TRAIN}.{ENDS['source']}"
        return data_at(f"multi30k/raw/{first}", f"multi30k/{first}").parent
    generator = Generator().manual_seed(trial.seed)
    for part, rows in ((TRAIN, 400), (VALID, 4), (TEST, 8)):
        source = sentences(rows, 6, generator)
        for end, side in zip(ENDS.values(), (source, translated(source)), strict=True):
            (trial.folder / f"{part}.{end}").write_text(as_text(side))
    return trial.folder


def sides(text: Path, part: str) -> list[list[str]]:
    """Return the lines of source and target of a part of the text."""
    return [read_lines(text / f"{part}.{end}") for end in ENDS.values()]


def run_on(
    trial: Trial,
    text: Path,
    folder: str,
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
        trial, folder, {**_TRAIN, **train}, data=data, tokenizer=tokenizer,
        model=model.model_dump(exclude_none=True), decode={"beam": 1},
    )  # fmt: skip


class Captions(NamedTuple):
    """Captions in files, and the settings of the runs of equal time on them."""

    title: str
    text: Path
    vocabulary: int
    tokenizer: Mapping[str, Any]
    budget: Mapping[str, Any]

    def run(self, trial: Trial, model: AnyTokenConfig, seed: int) -> Run:
        """Return the run of a model; a later study finds it again."""
        train = {**self.budget, "seed": seed}
        return run_on(trial, self.text, "captions", model, tokenizer=self.tokenizer, train=train)

    def translations(
        self, trial: Trial, models: Mapping[K, AnyTokenConfig]
    ) -> dict[K, list[list[str]]]:
        """Train models from each seed, and return their greedy translations of the test set."""
        source, _ = sides(self.text, TEST)
        return results(
            trial,
            models,
            lambda name, seed: self.run(trial, models[name], seed),
            partial(outputs, source),
        )


def captions_of(trial: Trial) -> Captions:
    """Return the captions with the budget of their runs."""
    text = text_of(trial)
    if trial.quick:
        budget = {"max_updates": 2, "warmup": 1, "batch_tokens": 512}
        title = "sentences made up, two updates"
        return Captions(title, text, VOCABULARY, {"kind": "words"}, budget)
    trial.say(f"{text}: {MINUTES:g} minutes a run; finished runs are kept in {trial.folder}")
    title, tokenizer = f"captions, {MINUTES:g} minutes of training", {"vocab_size": VOCAB_SIZE}
    return Captions(title, text, VOCAB_SIZE, tokenizer, {"max_minutes": MINUTES})


def transformer(heads: int = 4, *, quick: bool = False) -> TransformerConfig:
    """Return the preset `tiny` with the dropout of the paper's base; `quick` has a smaller one.

    The dropout is lower than the preset's, because ten minutes are about ten epochs.
    """
    width, layers = (64, 1) if quick else (128, 4)
    return fitting.transformer(width, 2 * width, heads, layers, dropout=0.1)


def translator(run: Run) -> Translator:
    """Return the model of a run, which is trained or continued if necessary."""
    return load_as(Translator, run.trained(), run.recipe.train.device)


def greedily(model: Translator, source: list[str]) -> list[str]:
    """Return the greedy translation of each line."""
    return [best.text for [best] in model.translate(source, decode=DecodeConfig(beam=1))]


def outputs(source: list[str], run: Run) -> list[str]:
    """Return the translations by the model of a run."""
    return greedily(translator(run), source)
