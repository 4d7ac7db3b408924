"""The engines of `crosshead translate` beside each other: equal translations, BLEU, CPU time.

    python benchmarks/engines.py BUNDLE --source val.en --target val.de

The engines take turns on one thread, with the search of the bundle or, with --count, with that of
`auto`. Lines go at once, and one by one.
"""

import argparse
import statistics
import time
from pathlib import Path

import torch
from judge import lines_of

from crosshead.evaluation.sacrebleu_metrics import bleu
from crosshead.tasks.automatic import SEARCH
from crosshead.tasks.loading import load_as
from crosshead.tasks.translation.engine import EngineSearch
from crosshead.tasks.translation.translator import Translator


def main() -> None:
    """Translate in turns, and print a line for each way."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--source", required=True, type=Path)
    parser.add_argument("--target", required=True, type=Path)
    parser.add_argument("--count", action="store_true")
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=5)
    given = parser.parse_args()
    torch.set_num_threads(1)
    sources, targets = (lines_of(side)[: given.lines] for side in (given.source, given.target))
    translator = load_as(Translator, given.bundle)
    decode = translator.bundle.config.decode.model_copy(update=SEARCH if given.count else {})
    engines = {name: EngineSearch(name) for name in ("crosshead", "ctranslate2")}
    for way, some in (("at once", len(sources)), ("one by one", 1)):
        lines = sources if some > 1 else sources[:100]
        seconds: dict[str, list[float]] = {name: [] for name in engines}
        texts: dict[str, list[str]] = {}
        for _ in range(given.turns):
            for name, translator.engine in engines.items():
                begin = time.process_time()
                texts[name] = [
                    found.text
                    for first in range(0, len(lines), some)
                    for [found] in translator.translate(
                        lines[first : first + some], decode=decode, scored=False
                    )
                ]
                seconds[name].append(time.process_time() - begin)
        ratios = [own / other for own, other in zip(*seconds.values(), strict=True)]
        own, other = texts.values()
        equal = sum(a == b for a, b in zip(own, other, strict=True)) / len(own)
        scores = ", ".join(f"{bleu(each, targets[: len(each)]):.2f}" for each in texts.values())
        per_line = [1000 * statistics.median(each) / len(lines) for each in seconds.values()]
        print(
            f"{len(lines)} lines {way}: equal {equal:.1%}, BLEU {scores}, CPU ms a line "
            f"{per_line[0]:.1f} and {per_line[1]:.1f}, ratio {statistics.median(ratios):.2f} "
            f"({min(ratios):.2f} to {max(ratios):.2f})"
        )


if __name__ == "__main__":
    main()
