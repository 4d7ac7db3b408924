"""The text of a run: read, split, tokenized and filtered."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from crosshead.bundle import Bundle
from crosshead.card import CardFile
from crosshead.data.batching import Example
from crosshead.data.corpora import (
    DataConfig,
    ParallelText,
    file_facts,
    hold_out,
    read_pairs,
    read_valid_pairs,
)
from crosshead.data.filters import Kept, keep_pairs, sample_pairs
from crosshead.data.subwords import BpeTokenizer
from crosshead.data.tokenizers import Tokenizer, TokenizerConfig, load_tokenizer, train_tokenizer
from crosshead.training.recipe import Recipe


@dataclass(frozen=True)
class Corpus:
    """The text of a run, tokenized: what is trained on and what is validated on."""

    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    kept: Kept
    valid: ParallelText
    valid_examples: list[Example]
    validation: str
    """Where the validation set comes from, in a clause."""
    files: list[CardFile]
    """The files that the pairs were read from."""

    @property
    def longest_source(self) -> int:
        """Tokens of the longest source that is trained on."""
        return max(len(source) for source, _ in self.kept.examples)


def read_corpus(recipe: Recipe, base: Bundle | None, resumed: Path | None) -> Corpus:
    """Read, split, tokenize and filter the text of a recipe.

    The tokenizers are those of the bundle `base` or of the run directory `resumed` where training
    goes on from one, with the recipe's strength of sampling, and learned from the training text
    otherwise. Raises `DataError` for text that
    cannot be read and `ConfigError` for a vocabulary that does not fit it.
    """
    text, valid = read_pairs(recipe.data), read_valid_pairs(recipe.data)
    files = _card_files(recipe.data, text)
    if valid is None:
        split = hold_out(text, recipe.data, recipe.train.seed)
        text, valid, repeats = split.train, split.valid, split.repeats
        validation = f"{len(valid)} pairs held out of the training files"
    else:
        repeats = []
        names = [*recipe.data.valid_source, *recipe.data.valid_target, *recipe.data.valid_pairs]
        validation = f"{len(valid)} pairs of {', '.join(names)}"
    source, target = _tokenizers(recipe.tokenizer, text, base, resumed)
    kept = keep_pairs(text, recipe.data, source, target, repeats)
    valid_examples: list[Example] = list(
        zip(source.encode_lines(valid.source), target.encode_lines(valid.target), strict=True)
    )
    return Corpus(source, target, kept, valid, valid_examples, validation, files)


def _tokenizers(
    config: TokenizerConfig, text: ParallelText, base: Bundle | None, resumed: Path | None
) -> tuple[Tokenizer, Tokenizer]:
    """Those of the bundle or the run that training goes on from, or new ones."""
    if resumed is not None:
        if config.joint:
            joint = load_tokenizer(resumed, "tokenizer")
            return joint, joint
        return load_tokenizer(resumed, "source"), load_tokenizer(resumed, "target")
    if base is not None:
        source = _with_sampling(base.source_tokenizer, config.sampling)
        if config.joint:
            return source, source
        return source, _with_sampling(base.target_tokenizer, config.sampling)
    if config.joint:
        joint = train_tokenizer(config, [*text.source, *text.target])
        return joint, joint
    return train_tokenizer(config, text.source), train_tokenizer(config, text.target)


def _with_sampling(tokenizer: Tokenizer, sampling: float) -> Tokenizer:
    """The tokenizer with another strength of sampling; nothing but BPE is sampled."""
    return tokenizer.with_sampling(sampling) if isinstance(tokenizer, BpeTokenizer) else tokenizer


def epoch_examples(recipe: Recipe, corpus: Corpus) -> Callable[[int], list[Example]]:
    """The training examples of an epoch, a function of (seed, epoch)."""
    if not recipe.tokenizer.sampling:
        return lambda epoch: corpus.kept.examples

    def sampled(epoch: int) -> list[Example]:
        rng = np.random.default_rng([recipe.train.seed, epoch, 1])
        tokenizers = corpus.source_tokenizer, corpus.target_tokenizer
        return sample_pairs(corpus.kept.text, recipe.data, *tokenizers, rng)

    return sampled


def _card_files(data: DataConfig, text: ParallelText) -> list[CardFile]:
    """Every training file with its pairs and checksum."""
    counts = dict(
        zip(
            text.files,
            np.bincount(text.file_numbers, minlength=len(text.files)).tolist(),
            strict=True,
        )
    )
    counts |= {
        target: counts[source] for source, target in zip(data.source, data.target, strict=True)
    }
    names = [*data.source, *data.target, *data.pairs]
    return [CardFile(name, counts[name], file_facts(Path(name)).sha256) for name in names]
