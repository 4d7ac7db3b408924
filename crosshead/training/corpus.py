"""The text of a run: read, split, tokenized and filtered."""

import hashlib
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from crosshead.bundle import Bundle
from crosshead.card import CardFile
from crosshead.data.batching import Example, example_lengths
from crosshead.data.corpora import (
    DataConfig,
    ParallelText,
    file_sha256,
    hold_out,
    read_pairs,
    read_valid_pairs,
)
from crosshead.data.filters import Kept, keep_pairs, sample_pairs
from crosshead.data.subwords import BpeTokenizer
from crosshead.data.tokenizers import Tokenizer, TokenizerConfig, load_tokenizers, token_ids
from crosshead.training.directory import HELD_OUT
from crosshead.training.log import counted
from crosshead.training.recipe import Recipe
from crosshead.training.sizes import learn_tokenizers


@dataclass(frozen=True)
class Corpus:
    """The text of a run, tokenized: what is trained on and what is validated on."""

    tokenizer: TokenizerConfig
    """What the tokenizers are, with the size of vocabulary that was chosen."""
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    kept: Kept
    valid: ParallelText
    valid_examples: list[Example]
    held_out: bool
    """Whether what is validated on was split off what is trained on."""
    files: list[CardFile]
    """The files that the pairs were read from."""

    @property
    def longest_source(self) -> int:
        """Tokens of the longest source that is trained on."""
        return max(len(source) for source, _ in self.kept.examples)

    def sha256(self) -> str:
        """The checksum of all that is trained and validated on, as ids and in this order."""
        digest = hashlib.sha256()
        for examples in (self.kept.examples, self.valid_examples):
            digest.update(example_lengths(examples).tobytes())
            for pair in examples:
                for side in pair:
                    digest.update(array("i", side).tobytes())
        return digest.hexdigest()

    def validation(self, data: DataConfig) -> str:
        """Where the validation set comes from, in a clause; `data` names its files."""
        found = counted(len(self.valid), "pair")
        if self.held_out:
            return f"{found} held out of the training files ({HELD_OUT})"
        names = [*data.valid_source, *data.valid_target, *data.valid_pairs]
        return f"{found} of {', '.join(names)}"


def read_corpus(recipe: Recipe, base: Bundle | None, resumed: Path | None) -> Corpus:
    """Read, split, tokenize and filter the text of a recipe.

    The tokenizers are those of the bundle `base` or of the run directory `resumed` where training
    goes on from one, with the recipe's strength of sampling, and learned from the training text
    otherwise. Raises `DataError` for text that cannot be read and `ConfigError` for a stated size
    of vocabulary that does not fit it.
    """
    text, valid = read_pairs(recipe.data), read_valid_pairs(recipe.data)
    files = _card_files(recipe.data, text)
    held_out, repeats = valid is None, []
    if valid is None:
        split = hold_out(text, recipe.data, recipe.train.seed)
        text, valid, repeats = split.train, split.valid, split.repeats
    config = recipe.tokenizer
    if resumed is not None:
        source, target = load_tokenizers(resumed, joint=config.joint)
    elif base is not None:
        source = _with_sampling(base.source_tokenizer, config.sampling)
        target = _with_sampling(base.target_tokenizer, config.sampling)
    else:
        config, source, target = learn_tokenizers(config, text)
    kept = keep_pairs(text, recipe.data, source, target, repeats)
    valid_examples: list[Example] = list(
        zip(token_ids(source, valid.source), token_ids(target, valid.target), strict=True)
    )
    return Corpus(config, source, target, kept, valid, valid_examples, held_out, files)


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
    return [CardFile(name, counts[name], file_sha256(Path(name))) for name in names]
