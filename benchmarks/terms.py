"""Terms of a glossary: whether translations use them, and what that costs.

    python benchmarks/terms.py BUNDLE --source val.en --target val.de --train train.en train.de

In each sentence that has one, a random word of four letters or more that translates a word of the
reference is a term, with that word as its translation. A word aligner (IBM model 1 with positions),
learned from the training files with the bundle's tokenizers, finds such words. Each sentence is
translated without a glossary, with its own term told to the model, and with its term exactly as it
is. A line for each way has the share of translations that have the word, and BLEU.
"""

import numpy as np
from judge import Judge

from crosshead.evaluation.sacrebleu_metrics import bleu
from crosshead.text.glossary import Entry, Glossary
from crosshead.text.placing import WordLinks

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
    judge = Judge(__doc__)
    sources, wanted, terms = [], [], []
    for source, target in zip(judge.source, judge.target, strict=True):
        found = term((source, target), judge.links(source, target), judge.draw)
        if found is not None:
            sources.append(source)
            wanted.append(target)
            terms.append(found)
    ways = (("without a glossary", None), ("told", False), ("exact", True))
    for name, exact in ways:
        outputs = [
            judge.translate.translate(
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
