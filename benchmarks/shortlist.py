"""A lexical shortlist for a thin decoder in CTranslate2: BLEU and speed with and without it.

    python benchmarks/shortlist.py runs/student --pairs distilled/train.en distilled/train.de
        --source val.en --target val.de [--kind int8]

With a shortlist the decoder computes the logits of the most frequent target pieces and of the most
probable translations of each source piece, in place of the whole vocabulary. The translations come
from IBM model 1 on the pairs. A batch chooses among those of all its sentences. The exports take
turns on one thread, in greedy search: all sentences at once, and one by one. Speed is in sentences
a second of CPU time: the median, the least and the most of all turns.
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

import numpy as np
import torch
from harness import machine, progress, table
from judge import lines_of

from crosshead.addons.interop.ctranslate2_model import library
from crosshead.addons.interop.export import export
from crosshead.evaluation.sacrebleu_metrics import bleu
from crosshead.tasks.loading import load_as
from crosshead.tasks.translation.translator import Translator
from crosshead.text.tokenizers import Tokenizer

SIZES = ((100, 50), (400, 50), (1000, 100))
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
        learned = lexicon(left, right, tokenizer, target)
        for first, most in SIZES:
            place = Path(folder) / f"{first}-{most}"
            shutil.copytree(whole, place)
            (place / "vmap.txt").write_text(shortlist(*learned, first, most, tokenizer, target))
            name = f"{first} frequent pieces, {most} translations"
            engines[name] = library().Translator(str(place), intra_threads=1), True
        rates: dict[tuple[str, int], list[float]] = defaultdict(list)
        texts: dict[tuple[str, int], list[str]] = {}
        for turn in range(given.turns):
            for name, (engine, is_short) in engines.items():
                settings = {"beam_size": 1, "use_vmap": is_short, "max_input_length": 0}
                for how, batches in enumerate(([read], [[some] for some in read])):
                    began = time.process_time()
                    found = [
                        each.hypotheses[0]
                        for batch in batches
                        for each in engine.translate_batch(
                            batch, max_batch_size=1024, batch_type="tokens", **settings
                        )
                    ]
                    rates[name, how].append(len(read) / (time.process_time() - began))
                    ids = [[ids_of[each] for each in some] for some in found]
                    texts[name, how] = list(map(target.decode, ids))
                progress(f"turn {turn + 1}: {name}: {rates[name, 1][-1]:.0f} sentences/s")
    rows = [
        [
            f"{name}, {('at once', 'one by one')[how]}",
            f"{bleu(texts[name, how], references):.2f}",
            f"{share(texts[name, how], texts['none', how]):.1%}",
            spread(rates[name, how]),
        ]
        for name in engines
        for how in (0, 1)
    ]
    print(table(["shortlist", "BLEU", "texts as without", "sentences/s"], rows))


def lexicon(
    left: Sequence[str], right: Sequence[str], tokenizer: Tokenizer, target: Tokenizer
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return pairs of pieces, best translations of each first, and the counts of target pieces."""
    sources = [np.array(tokenizer.encode(line)) for line in left]
    targets = [np.array(target.encode(line)) for line in right]
    size, ends = target.vocab_size, np.cumsum([0, *map(len, targets)])
    a = np.concatenate([np.tile(s, len(t)) for s, t in zip(sources, targets, strict=True)])
    b = np.concatenate([np.repeat(t, len(s)) for s, t in zip(sources, targets, strict=True)])
    place = np.concatenate(
        [
            np.repeat(np.arange(first, first + len(t)), len(s))
            for s, t, first in zip(sources, targets, ends, strict=False)
        ]
    )
    pairs, pair = np.unique(a * size + b, return_inverse=True)
    probability = np.ones(len(pairs))
    for _ in range(5):
        weight = probability[pair]
        counts = np.bincount(pair, weight / np.bincount(place, weight)[place])
        probability = counts / np.bincount(pairs // size, counts)[pairs // size]
    order = np.lexsort((-probability, pairs // size))
    frequency = np.bincount(np.concatenate(targets), minlength=size)
    return pairs[order] // size, pairs[order] % size, frequency


def shortlist(
    a: np.ndarray,
    b: np.ndarray,
    frequency: np.ndarray,
    first: int,
    most: int,
    tokenizer: Tokenizer,
    target: Tokenizer,
) -> str:
    """Return CTranslate2's `vmap.txt`: the pieces that count always, and those of each piece."""
    pieces, read = target.pieces(range(target.vocab_size)), tokenizer.pieces(range(a.max() + 1))
    found: dict[int, list[str]] = defaultdict(list)
    for one, other in zip(a.tolist(), b.tolist(), strict=True):
        if len(found[one]) < most:
            found[one].append(pieces[other])
    always = ["</s>", *(pieces[n] for n in np.argsort(-frequency)[:first])]
    rows = [("", always), *((read[one], some) for one, some in found.items())]
    return "".join(f"{name}\t{' '.join(some)}\n" for name, some in rows)


def share(some: Sequence[str], others: Sequence[str]) -> float:
    """Return the share of texts that are equal."""
    return sum(one == other for one, other in zip(some, others, strict=True)) / len(some)


def spread(values: Sequence[float]) -> str:
    """Return the median, and the least and the most."""
    return f"{statistics.median(values):.0f} ({min(values):.0f}–{max(values):.0f})"


if __name__ == "__main__":
    main()
