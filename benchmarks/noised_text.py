"""Noised text: the BLEU of each bundle on clean sources, and with each kind of noise.

    python benchmarks/noised_text.py BUNDLE [BUNDLE ...] --source val.en --target val.de

Each kind changes every source, and its reference where people would write it so. In headlines,
words of up to three letters are small. The draws have the seed 1.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
from judge import lines_of

from crosshead.evaluation.sacrebleu_metrics import bleu
from crosshead.tasks.loading import load_as
from crosshead.tasks.translation.translator import Translator
from crosshead.text.parallel.noise import Change, typing_error, without_end


def _each_word(source: str, is_small: Callable[[str], bool]) -> str:
    words = source.split(" ")
    return " ".join(each if is_small(each) else each[:1].upper() + each[1:] for each in words)


KINDS: dict[str, Change] = {
    "capitals": lambda source, target, _: (source.upper(), target.upper()),
    "small letters": lambda source, target, _: (source.lower(), target),
    "title": lambda source, target, _: (_each_word(source, lambda _: False), target),
    "headline": lambda source, target, _: (
        _each_word(source, lambda word: word.islower() and len(word) <= 3),
        target,
    ),
    "no end mark": without_end,
    "typing error": typing_error,
}


def main() -> None:
    """Translate and print a line for each bundle."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("bundles", nargs="+")
    parser.add_argument("--source", required=True, type=Path)
    parser.add_argument("--target", required=True, type=Path)
    given = parser.parse_args()
    pairs = list(zip(lines_of(given.source), lines_of(given.target), strict=True))
    for path in given.bundles:
        translate = load_as(Translator, path)
        scores = [f"clean {bleu(translate([a for a, _ in pairs]), [b for _, b in pairs]):.2f}"]
        for name, change in KINDS.items():
            draw = np.random.default_rng(1)
            sources, targets = zip(*(change(*pair, draw) for pair in pairs), strict=True)
            score = bleu(translate(list(sources)), list(targets))
            scores.append(f"{name} {score:.2f}")
        print(f"{path}: {', '.join(scores)}")


if __name__ == "__main__":
    main()
