"""Terms of a glossary: whether translations use them, and what that costs.

    python benchmarks/terms.py BUNDLE --source val.en --target val.de --train train.en train.de

In each sentence that has one, a random word of four letters or more that translates a word of the
reference is a term, with that word as its translation. A word aligner (IBM model 1 with positions),
learned from the training files with the bundle's tokenizers, finds such words. Each sentence is
translated without a glossary, with its own term told to the model, and with its term exactly as it
is. A line for each way has the share of translations that have the word, and BLEU.

Then the glossary has another form of the word of the reference: the most frequent one of the
training text (`are_forms`). The lines show whether the translations have the form of the reference,
that of the glossary, or any form (`has_term`).
"""

from collections import Counter

import numpy as np
from judge import Judge

from crosshead.evaluation.sacrebleu_metrics import bleu
from crosshead.text.glossary import Entry, Glossary, are_forms, has_term
from crosshead.text.placing import WordLinks
from crosshead.text.scripts import split_words

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


def has(text: str, word: str) -> bool:
    """Return whether a text has a word in any case, alone or as a part of another."""
    return word.casefold() in text.casefold()


def main() -> None:
    """Translate and print."""
    judge = Judge(__doc__)
    rows = []
    for source, target in zip(judge.source, judge.target, strict=True):
        found = term((source, target), judge.links(source, target), judge.draw)
        if found is not None:
            rows.append((source, target, found))
    frequent = Counter(word for line in judge.trained[1] for word in split_words(line))
    inflected = []
    for source, target, entry in rows:
        word = entry.target.lower()
        forms = [each for each in frequent if each != word and are_forms(each, word)]
        if forms:
            other = max(forms, key=frequent.__getitem__)
            other = other.capitalize() if entry.target[0].isupper() else other
            inflected.append((source, target, entry, entry._replace(target=other)))
    for name, cases in (
        ("the word of the reference", [(*row, row[2]) for row in rows]),
        ("another form", inflected),
    ):
        print(f"The glossary has {name}: {len(cases)} sentences")
        for way, exact in (("without a glossary", None), ("told", False), ("exact", True)):
            outputs = [
                judge.translate.translate(
                    [source], glossary=None if exact is None else Glossary([entry], 0, exact=exact)
                )[0][0].text
                for source, _, _, entry in cases
            ]
            words = list(zip(outputs, cases, strict=True))
            wanted = np.mean([has(text, case[2].target) for text, case in words])
            given = np.mean([has(text, case[3].target) for text, case in words])
            either = np.mean([has_term(text, case[3].target) for text, case in words])
            score = bleu(outputs, [case[1] for case in cases])
            print(
                f"  {way}: the form of the reference {wanted:.1%}, of the glossary {given:.1%}, "
                f"any form {either:.1%}, BLEU {score:.2f}"
            )


if __name__ == "__main__":
    main()
