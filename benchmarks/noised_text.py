"""Noised text: the BLEU of each bundle on clean sources, and with each kind of noise.

    python benchmarks/noised_text.py BUNDLE [BUNDLE ...] --source val.en --target val.de

Each kind (`crosshead.text.parallel.noise`) changes every source, and its reference where training
does so too (capitals). The draws have the seed 1.
"""

import argparse
from pathlib import Path

import numpy as np
from judge import lines_of

from crosshead.evaluation.sacrebleu_metrics import bleu
from crosshead.tasks.loading import load_as
from crosshead.tasks.translation.translator import Translator
from crosshead.text.parallel.noise import KINDS


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
        for change in KINDS:
            draw = np.random.default_rng(1)
            sources, targets = zip(*(change(*pair, draw) for pair in pairs), strict=True)
            score = bleu(translate(list(sources)), list(targets))
            scores.append(f"{change.__name__} {score:.2f}")
        print(f"{path}: {', '.join(scores)}")


if __name__ == "__main__":
    main()
