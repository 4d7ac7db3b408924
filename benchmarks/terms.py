"""Terms of a glossary: whether translations use them, and what that costs.

    python benchmarks/terms.py BUNDLE --source val.en --target val.de --train train.en train.de

In each sentence that has one, a random word of four letters or more that translates a word of the
reference is a term, with that word as its translation. A word aligner (IBM model 1 with positions),
learned from the training files with the bundle's tokenizers, finds such words. Each sentence is
translated without a glossary, with its own term told to the model, and with its term exactly as it
is. A line for each way has the share of translations that have the word, and BLEU.
"""

import argparse
from pathlib import Path

import numpy as np

from crosshead.evaluation.sacrebleu_metrics import bleu
from crosshead.tasks.loading import load_as
from crosshead.tasks.translation.translator import Translator
from crosshead.text.glossary import Entry, Glossary
from crosshead.text.markers import token_ends
from crosshead.text.marks import WordLinks
from crosshead.text.parallel.examples import Examples
from crosshead.text.parallel.word_aligner import WordAligner
from crosshead.text.tokenizers import token_ids
from crosshead.vocabulary import EOS

LEAST_LETTERS, LIKELY = 4, 0.5


def term(pair: tuple[str, str], links: WordLinks, draw: np.random.Generator) -> Entry | None:
    """Return a random word and its translation, or None if there is none."""
    found = []
    for row, weights in enumerate(links.weights):
        column = int(weights.argmax())
        words = [
            text[slice(*offsets)]
            for text, offsets in zip(pair, (links.source[column], links.target[row]), strict=True)
        ]
        is_word = all(word.isalpha() and len(word) >= LEAST_LETTERS for word in words)
        if is_word and weights[column] >= LIKELY and links.weights[:, column].argmax() == row:
            found.append(Entry(*words))
    return found[int(draw.integers(len(found)))] if found else None


def main() -> None:
    """Translate and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("bundle")
    parser.add_argument("--source", required=True, type=Path)
    parser.add_argument("--target", required=True, type=Path)
    parser.add_argument("--train", required=True, nargs=2, type=Path)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    translate = load_as(Translator, given.bundle)
    tokenizers = translate.bundle.source_tokenizer, translate.bundle.target_tokenizer

    def ids(files: list[Path], count: int | None) -> tuple[list[list[str]], list[list[list[int]]]]:
        texts = [path.read_text("utf-8").split("\n")[:-1][:count] for path in files]
        return texts, [token_ids(*each) for each in zip(tokenizers, texts, strict=True)]

    _, trained = ids(given.train, None)
    size = max(each.vocab_size for each in tokenizers)
    aligner = WordAligner(Examples.of(zip(*trained, strict=True)), size)
    texts, sides = ids([given.source, given.target], given.count)
    draw = np.random.default_rng(given.seed)
    sources, wanted, terms = [], [], []
    for pair, tokens in zip(zip(*texts, strict=True), zip(*sides, strict=True), strict=True):
        weights = aligner.align(*(np.array([[*side, EOS]]) for side in tokens))[0, :-1, :-1]
        ends = [token_ends(*each) for each in zip(tokenizers, tokens, pair, strict=True)]
        found = term(pair, WordLinks.of(pair[0], ends[0], pair[1], ends[1], weights), draw)
        if found is not None:
            sources.append(pair[0])
            wanted.append(pair[1])
            terms.append(found)
    for name, exact in (("without a glossary", None), ("told", False), ("exact", True)):
        outputs = [
            translate.translate(
                [line], glossary=None if exact is None else Glossary([entry], 0, exact=exact)
            )[0][0].text
            for line, entry in zip(sources, terms, strict=True)
        ]
        used = [
            entry.target.casefold() in text.casefold()
            for text, entry in zip(outputs, terms, strict=True)
        ]
        print(f"{name}: used {np.mean(used):.1%} of {len(used)}, BLEU {bleu(outputs, wanted):.2f}")


if __name__ == "__main__":
    main()
