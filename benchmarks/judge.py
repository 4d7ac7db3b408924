"""The judge of the benchmarks of tags and terms: a word aligner."""

import argparse
from pathlib import Path

import numpy as np

from crosshead.tasks.loading import load_as
from crosshead.tasks.translation.translator import Translator
from crosshead.text.markers import token_ends
from crosshead.text.parallel.examples import Examples
from crosshead.text.parallel.word_aligner import WordAligner
from crosshead.text.placing import WordLinks
from crosshead.text.tokenizers import token_ids
from crosshead.vocabulary import EOS


def lines_of(path: Path) -> list[str]:
    """Return the lines of a file."""
    return path.read_text("utf-8").split("\n")[:-1]


class Judge:
    """A bundle, sentences and their references, and the words that translate each other.

    The word aligner (IBM model 1 with positions, as in guided alignment) is learned from training
    files with the tokenizers of the bundle.
    """

    def __init__(self, description: str) -> None:
        parser = argparse.ArgumentParser(description=description.split("\n")[0])
        parser.add_argument("bundle")
        parser.add_argument("--source", required=True, type=Path)
        parser.add_argument("--target", required=True, type=Path)
        parser.add_argument("--train", required=True, nargs=2, type=Path)
        parser.add_argument("--count", type=int, default=1000)
        parser.add_argument("--seed", type=int, default=1)
        given = parser.parse_args()
        self.translate = load_as(Translator, given.bundle)
        self.draw = np.random.default_rng(given.seed)
        self.source = lines_of(given.source)[: given.count]
        self.target = lines_of(given.target)[: given.count]
        bundle = self.translate.bundle
        self._tokenizers = bundle.source_tokenizer, bundle.target_tokenizer
        self.trained = [lines_of(path) for path in given.train]
        sides = [token_ids(*each) for each in zip(self._tokenizers, self.trained, strict=True)]
        size = max(each.vocab_size for each in self._tokenizers)
        self._aligner = WordAligner(Examples.of(zip(*sides, strict=True)), size)

    def links(self, source: str, target: str) -> WordLinks:
        """Return how much each word of a sentence translates each word of another."""
        pair = source, target
        ids = [each.encode(text) for each, text in zip(self._tokenizers, pair, strict=True)]
        weights = self._aligner.align(*(np.array([[*side, EOS]]) for side in ids))[0, :-1, :-1]
        ends = [token_ends(*each) for each in zip(self._tokenizers, ids, pair, strict=True)]
        return WordLinks.of(source, ends[0], target, ends[1], weights)
