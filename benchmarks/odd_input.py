"""The share of flagged translations of usual and of odd input: see README.md."""

import argparse
import random
import sys
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
import torch
from harness import data_folder, table
from translate_speed import load_named

from crosshead.errors import UserError
from crosshead.evaluation.sacrebleu_metrics import sentence_chrf
from crosshead.system.lines import iter_lines
from crosshead.tasks.translation.translator import Translator
from crosshead.text.profile import FLAGS, flags_of

LANGUAGES = ("en", "de", "fr", "cs")
GREEK = str.maketrans("abcdefghijklmnopqrstuvwxyz", "αβξδεφγηιςκλμνοπθρστυβωχψζ")


def main() -> None:
    options = _options()
    torch.set_num_threads(1)
    translator = Translator(load_named(options.bundle))
    profile = translator.bundle.config.profile
    if profile is None:
        raise UserError(f"{options.bundle}: the bundle has no profile; train it again")
    encode = translator.bundle.source_tokenizer.encode
    rows = []
    for name, lines in _inputs(options.source, options.most).items():
        found = [profile.source_flags(line, encode(line)) for line in lines]
        rows.append([name, str(len(lines)), *_shares(found, ("script", "words", "pieces"))])
    print(table(["input", "lines", "script, %", "words, %", "pieces, %", "any, %"], rows))
    header = ["translations", "lines", *FLAGS, "any, %", "chrF2 of flagged", "of others"]
    print(
        table([*header, "flagged with chrF2 above 50, %"], list(_translated(translator, options)))
    )


def _translated(translator: Translator, options: argparse.Namespace) -> Iterator[list[str]]:
    """Yield the flags of references and of the model's translations, with their chrF2."""
    bundle = translator.bundle
    for name in ("val", "test_2016_flickr"):
        sources, references = (
            _read(f"{name}.{code}", options.most) for code in (options.source, options.target)
        )
        made = [best[0].text for best in translator.translate(sources)]
        for kind, outputs in (("references", references), ("model", made)):
            found = [
                flags_of(bundle.config.profile, line, bundle.source_tokenizer.encode(line), output)
                for line, output in zip(sources, outputs, strict=True)
            ]
            scores = np.array(sentence_chrf(outputs, references))
            flagged = np.array(list(map(bool, found)))
            means = [
                f"{scores[rows].mean():.1f}" if rows.any() else "" for rows in (flagged, ~flagged)
            ]
            good = 100 * float((flagged & (scores > 50)).mean())
            row = [f"{name}, {kind}", str(len(outputs)), *_shares(found, tuple(FLAGS)), *means]
            yield [*row, f"{good:.1f}"]


def _shares(found: Sequence[Sequence[str]], names: Sequence[str]) -> list[str]:
    """Return the share of lines with each flag, and with any flag, in per cent."""
    counts = [*(sum(name in flags for flags in found) for name in names), sum(map(bool, found))]
    return [f"{100 * count / len(found):.1f}" for count in counts]


def _read(name: str, most: int) -> list[str]:
    return list(islice(iter_lines(data_folder() / "multi30k" / "raw" / name), most))


def _inputs(source: str, most: int) -> dict[str, list[str]]:
    """Return usual and odd lines by name; the odd ones are made of the usual ones."""
    usual, rng = _read(f"test_2016_flickr.{source}", most), random.Random(1)
    others = {f"test, {code}": _read(f"test_2016_flickr.{code}", most) for code in LANGUAGES}
    del others[f"test, {source}"]
    return {
        f"validation, {source}": _read(f"val.{source}", most),
        f"test, {source}": usual,
        "its first three words": [" ".join(line.split()[:3]) for line in usual],
        "in lower case": [line.lower() for line in usual],
        "two lines as one": [f"{one} {other}" for one, other in pairwise(usual)],
        **others,
        "letters of each word shuffled": [_shuffled(line, rng) for line in usual],
        "in Greek letters": [line.lower().translate(GREEK) for line in usual],
        "mark-up": [
            f'<p class="c{number}"><a href="/{number}.html">{" ".join(line.split()[:3])}</a></p>'
            for number, line in enumerate(usual)
        ],
    }


def _shuffled(line: str, rng: random.Random) -> str:
    return " ".join("".join(rng.sample(word, len(word))) for word in line.split())


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bundle", type=Path, help="A bundle trained on Multi30k.")
    parser.add_argument("--source", default="en", choices=LANGUAGES, help="Its source language.")
    parser.add_argument("--target", default="de", choices=LANGUAGES, help="Its target language.")
    parser.add_argument("--most", type=int, default=1014, help="Lines of each input.")
    return parser.parse_args()


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(f"error: {error}")
