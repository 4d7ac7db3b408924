"""A lexical shortlist for a thin decoder in CTranslate2: BLEU and speed with and without it.

    python benchmarks/shortlist.py runs/student --pairs distilled/train.en distilled/train.de
        --source val.en --target val.de [--kind int8]

With a shortlist the decoder computes the logits of the most frequent target pieces, and of each
source piece and its most probable translations in the pairs, in place of the whole vocabulary. The
exports take turns on one thread, in greedy search. Speed is in sentences a second of CPU time: all
sentences at once, and the first 200 one by one; the median, the least and the most of all turns.
"""

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import torch
from harness import machine, progress, table
from judge import lines_of

from crosshead.addons.interop import ctranslate2
from crosshead.addons.interop.ctranslate2_model import library
from crosshead.addons.interop.export import export
from crosshead.evaluation.sacrebleu_metrics import bleu
from crosshead.tasks.loading import load_as
from crosshead.tasks.translation.translator import Translator

SIZES = ((100, 10), (200, 20), (100, 50))
"""Numbers of frequent target pieces, and of translations of a source piece."""


def main() -> None:
    """Export, write the shortlists, translate in turns, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--pairs", type=Path, nargs=2, required=True)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--kind", default="float32")
    parser.add_argument("--turns", type=int, default=5)
    given = parser.parse_args()
    torch.set_num_threads(1)
    print(machine(), flush=True)
    sources, references = lines_of(given.source), lines_of(given.target)
    loaded = load_as(Translator, given.bundle, "cpu", 1).bundle
    tokenizer, target = loaded.source_tokenizer, loaded.target_tokenizer
    ids_of = {piece: n for n, piece in enumerate(target.pieces(range(target.vocab_size)))}
    read = [tokenizer.pieces(tokenizer.encode(line)) for line in sources]
    engines: dict[str, tuple[Any, bool]] = {}
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "whole"
        export(loaded, "ctranslate2", whole, kind=given.kind, sources=sources[:200])
        engines["none"] = library().Translator(str(whole), intra_threads=1), False
        left, right = map(lines_of, given.pairs)
        for ctranslate2.FREQUENT, ctranslate2.TRANSLATIONS in SIZES:
            first, most = ctranslate2.FREQUENT, ctranslate2.TRANSLATIONS
            place = Path(folder) / f"{first}-{most}"
            shutil.copytree(whole, place)
            ctranslate2.write_shortlist(loaded, left, right, place)
            name = f"{first} frequent pieces, {most} translations"
            engines[name] = library().Translator(str(place), intra_threads=1), True
        rates: dict[tuple[str, int], list[float]] = defaultdict(list)
        texts: dict[str, list[str]] = {}
        for turn in range(given.turns):
            for name, (engine, is_short) in engines.items():
                settings = {"beam_size": 1, "use_vmap": is_short, "max_input_length": 0}
                began = time.process_time()
                found = engine.translate_batch(
                    read, max_batch_size=1024, batch_type="tokens", **settings
                )
                rates[name, 0].append(len(read) / (time.process_time() - began))
                pieces = [each.hypotheses[0] for each in found]
                texts[name] = [target.decode([ids_of[each] for each in some]) for some in pieces]
                began = time.process_time()
                for some in read[:200]:
                    engine.translate_batch([some], **settings)
                rates[name, 1].append(200 / (time.process_time() - began))
                progress(f"turn {turn + 1}: {name}: {rates[name, 0][-1]:.0f} sentences/s")
    rows = [
        [name, f"{bleu(texts[name], references):.2f}", f"{share(texts[name], texts['none']):.1%}"]
        + [spread(rates[name, each]) for each in (0, 1)]
        for name in engines
    ]
    header = ["shortlist", "BLEU", "texts as without", "at once, /s", "one by one, /s"]
    print(table(header, rows))


def share(some: Sequence[str], others: Sequence[str]) -> float:
    """Return the share of texts that are equal."""
    return sum(one == other for one, other in zip(some, others, strict=True)) / len(some)


def spread(values: Sequence[float]) -> str:
    """Return the median, and the least and the most."""
    return f"{statistics.median(values):.0f} ({min(values):.0f}–{max(values):.0f})"


if __name__ == "__main__":
    main()
