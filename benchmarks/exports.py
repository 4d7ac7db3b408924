"""Size, BLEU and speed of every export of one trained translation model: see README.md.

    .venv/bin/python benchmarks/exports.py runs/en-de --folder runs/exports

Each export is verified on the first 200 validation lines of Multi30k, as `crosshead export` does.
Then it translates the test set, all with one thread, in turns, by the interface that verification
uses. CTranslate2 and Hugging Face search by themselves. ONNX Runtime has no search: crosshead's own
steps its graphs. So the speed of ONNX is not that of its usual programs.
"""

import argparse
import os
import time
from pathlib import Path
from typing import NamedTuple

import torch
from harness import machine, progress, spread, table
from trained import multi30k

from crosshead.addons.interop.base import Foreign, ForeignSearch
from crosshead.addons.interop.export import Exported, export
from crosshead.addons.interop.formats import export_of
from crosshead.bundle.text_bundle import TextBundle
from crosshead.evaluation.sacrebleu_metrics import corpus_scores
from crosshead.system.lines import read_lines
from crosshead.tasks.loading import load_as
from crosshead.tasks.translation.translator import Translator

EXPORTS = (
    ("ctranslate2", "float32"), ("ctranslate2", "int16"), ("ctranslate2", "int8"),
    ("huggingface", "float32"), ("onnx", "float32"), ("onnx", "int8"),
)  # fmt: skip


class Side(NamedTuple):
    """An export that is loaded by its library."""

    found: Exported
    library: Foreign

    def translate(self, lines: list[str]) -> list[str]:
        """Return the translations of the lines by the search that travels with the export."""
        search: ForeignSearch = self.found.search
        return self.library.translate(lines, search)


def main() -> None:
    """Export, translate in turns, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--folder", type=Path, required=True, help="for the exports")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lines", type=int, default=1000, help="of the test set")
    given = parser.parse_args()
    print(machine(), flush=True)
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"
    translator = load_as(Translator, [given.bundle], "cpu", 1)
    sides = {name: exported(translator.bundle, *name, given.folder) for name in EXPORTS}
    sources = read_lines(multi30k("test_2016_flickr.en"))[: given.lines]
    references = read_lines(multi30k("test_2016_flickr.de"))[: given.lines]

    def own(lines: list[str]) -> list[str]:
        return [best[0].text for best in translator.translate(lines)]

    calls = {("crosshead", "float32"): own}
    calls |= {name: side.translate for name, side in sides.items()}
    outputs: dict[tuple[str, str], list[str]] = {}
    rates: dict[tuple[str, str], list[float]] = {name: [] for name in calls}
    for number in range(given.rounds):
        for name in list(calls)[:: 1 if number % 2 == 0 else -1]:
            began = time.perf_counter()
            outputs[name] = calls[name](sources)
            rates[name].append(len(sources) / (time.perf_counter() - began))
            progress(f"round {number + 1}: {' '.join(name)}: {rates[name][-1]:.0f} lines/s")
    header = [
        "format", "type", "MB", "largest difference, nats", "length penalty",
        "identical to crosshead", "BLEU", "chrF2", "lines/s",
    ]  # fmt: skip
    own_outputs, rows = outputs["crosshead", "float32"], []
    for name, translations in outputs.items():
        bleu, chrf = corpus_scores(translations, references)
        same = sum(map(str.__eq__, translations, own_outputs)) / len(sources)
        size = penalty = difference = ""
        if name in sides:
            found = sides[name].found
            size, penalty = f"{found.size / 1e6:.1f}", f"{found.search.length_penalty:g}"
            difference = f"{found.comparison.largest_difference:.2g}" if found.comparison else ""
        rows.append(
            [*name, size, difference, penalty, f"{same:.1%}", f"{bleu.value:.2f}",
             f"{chrf.value:.2f}", spread(rates[name])]
        )  # fmt: skip
    print(table(header, rows))


def exported(bundle: TextBundle, to: str, kind: str, folder: Path) -> Side:
    """Export the model, verified, and load it with its library."""
    lines = read_lines(multi30k("val.en"))[:200]
    place = folder / f"{to}-{kind}"
    folder.mkdir(parents=True, exist_ok=True)
    found = export(bundle, to, place, kind=kind, sources=lines, force=True)
    progress(f"{to} {kind}: {found.comparison}; {found.search}")
    return Side(found, export_of(bundle, to).load(bundle, place))


if __name__ == "__main__":
    main()
