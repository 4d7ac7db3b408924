"""The share of flagged translations of usual and of odd input: see README.md."""

import argparse
import random
import sys
from itertools import pairwise
from pathlib import Path

import torch
from harness import data_folder, table
from translate_speed import load_named

from crosshead.data.text.profile import FLAGS
from crosshead.decoding.search import DecodeConfig
from crosshead.errors import UserError
from crosshead.pipelines.translator import Translator
from crosshead.system.lines import iter_lines

LANGUAGES = ("en", "de", "fr", "cs")
GREEK = str.maketrans("abcdefghijklmnopqrstuvwxyz", "αβξδεφγηιςκλμνοπθρστυβωχψζ")


def main() -> None:
    options = _options()
    torch.set_num_threads(1)
    translator = Translator(load_named(options.bundle))
    if translator.bundle.config.profile is None:
        raise UserError(f"{options.bundle}: the bundle has no profile; train it again")
    rows = []
    for name, lines in _inputs(options.source, options.most).items():
        found = [best[0].flags for best in translator.translate(lines, decode=DecodeConfig(beam=1))]
        shares = [sum(flag in flags for flags in found) / len(found) for flag in FLAGS]
        flagged = sum(map(bool, found)) / len(found)
        rows.append(
            [name, str(len(lines)), *(f"{100 * share:.1f}" for share in (flagged, *shares))]
        )
    print(table(["input", "lines", "flagged, %", *FLAGS], rows))


def _inputs(source: str, most: int) -> dict[str, list[str]]:
    """Return usual and odd lines by name; the odd ones are made of the usual ones."""
    raw = data_folder() / "multi30k" / "raw"

    def read(name: str) -> list[str]:
        return [line for line in iter_lines(raw / name) if line.strip()][:most]

    usual, rng = read(f"test_2016_flickr.{source}"), random.Random(1)
    others = {f"test, {code}": read(f"test_2016_flickr.{code}") for code in LANGUAGES}
    del others[f"test, {source}"]
    return {
        f"validation, {source}": read(f"val.{source}"),
        f"test, {source}": usual,
        "its first three words": [" ".join(line.split()[:3]) for line in usual],
        "in lower case": [line.lower() for line in usual],
        "two lines as one": [f"{one} {other}" for one, other in pairwise(usual)],
        **others,
        "in capitals": [line.upper() for line in usual],
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
    parser.add_argument("--most", type=int, default=1014, help="Lines of each input.")
    return parser.parse_args()


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(f"error: {error}")
