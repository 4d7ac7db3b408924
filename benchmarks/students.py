"""A teacher and its students in CTranslate2: size, BLEU and speed by number format and beam.

    python benchmarks/students.py runs/teacher runs/student --source val.en --target val.de

The exports take turns on one thread, each with beam 1 and with the beam of its bundle. Speed is in
sentences a second of CPU time: all sentences at once, and the first 200 one by one.
"""

import argparse
import dataclasses
import os
import statistics
import tempfile
import time
from collections import defaultdict
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"

import torch
from harness import machine, progress, table
from judge import lines_of

from crosshead.addons.interop.export import export
from crosshead.addons.interop.formats import export_of
from crosshead.evaluation.sacrebleu_metrics import bleu
from crosshead.tasks.loading import load_as
from crosshead.tasks.translation.translator import Translator

Way = tuple[str, str, int]
"""The name of a bundle, a number format and a beam."""


def main() -> None:
    """Export, translate in turns, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("bundles", type=Path, nargs="+")
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--turns", type=int, default=3)
    given = parser.parse_args()
    print(machine(), flush=True)
    torch.set_num_threads(1)
    sources, references = lines_of(given.source), lines_of(given.target)
    sizes, calls = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for bundle in given.bundles:
            loaded = load_as(Translator, bundle, "cpu", 1).bundle
            for kind in ("float32", "int8"):
                place = Path(folder) / f"{bundle.name}-{kind}"
                found = export(loaded, "ctranslate2", place, kind=kind, sources=sources[:200])
                library = export_of(loaded, "ctranslate2").load(loaded, place)
                for beam in sorted({1, found.search.beam}):
                    way = bundle.name, kind, beam
                    search = dataclasses.replace(found.search, beam=beam)
                    calls[way], sizes[way] = (library, search), found.size
        rates: dict[tuple[Way, int], list[float]] = defaultdict(list)
        texts: dict[Way, list[str]] = {}
        for turn in range(given.turns):
            for way, (library, search) in calls.items():
                began = time.process_time()
                texts[way] = library.translate(sources, search)
                rates[way, 0].append(len(sources) / (time.process_time() - began))
                began = time.process_time()
                for line in sources[:200]:
                    library.translate([line], search)
                rates[way, 1].append(200 / (time.process_time() - began))
                progress(f"turn {turn + 1}: {way}: {rates[way, 0][-1]:.0f} sentences/s")
    rows = [
        [name, kind, str(beam), f"{sizes[way] / 1e6:.1f}", f"{bleu(texts[way], references):.2f}"]
        + [f"{statistics.median(rates[way, each]):.0f}" for each in (0, 1)]
        for way in calls
        for name, kind, beam in [way]
    ]
    header = ["bundle", "type", "beam", "MB", "BLEU", "at once, /s", "one by one, /s"]
    print(table(header, rows))


if __name__ == "__main__":
    main()
