"""Memory and time of training on a corpus of millions of pairs, through `crosshead train`.

    .venv/bin/python benchmarks/large_corpus.py [--pairs 5000000] [--folder DIR]

It writes a synthetic corpus, trains a few updates from it (the corpus is tokenized into a cache),
resumes that run, and begins another run on the same text. Of each run it reports the seconds until
its first update is logged, and the most memory that the process held: its own (RssAnon), and beside
it pages of mapped files (RssFile, RssShmem), which the system takes back when it needs them. The
processes that tokenize are counted apart. Last, SentencePiece alone learns a vocabulary of the same
size from the same text, with its own defaults and on all cores, and tokenizes it. Nothing is left
behind.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path

import numpy as np
import sentencepiece
from harness import machine

from crosshead.system.lines import iter_lines

UPDATES = 20
PIECES = 16_000
ROWS_AT_ONCE = 100_000
SETTINGS = [
    f"tokenizer.vocab_size={PIECES}",
    "encoder_layers=1", "decoder_layers=1", "d_model=64", "d_ff=128", "heads=2",
    "data.valid_size=100", "train.log_every=1", "train.batch_tokens=4096",
    "train.valid_every=1000000", "train.warmup=100", "train.average=1", "decode.beam=1",
]  # fmt: skip
"""A model so small that what is measured is the corpus."""


def write_corpus(folder: Path, pairs: int) -> None:
    """`source` and `target`: sentences of 3 to 14 words out of 50,000, by their frequency."""
    rng = np.random.default_rng(1)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = ["".join(rng.choice(letters, size)) for size in rng.integers(2, 9, 50_000)]
    with (folder / "source").open("w") as source, (folder / "target").open("w") as target:
        for first in range(0, pairs, ROWS_AT_ONCE):
            lengths = rng.integers(3, 15, min(ROWS_AT_ONCE, pairs - first))
            numbers = np.minimum(rng.zipf(1.3, int(lengths.sum())), len(words)) - 1
            begin = 0
            for length in lengths.tolist():
                line = [words[number] for number in numbers[begin : begin + length].tolist()]
                source.write(" ".join(line) + "\n")
                target.write(" ".join(line[::-1]) + "\n")
                begin += length


def run(folder: Path, out: Path, updates: int, *more: str) -> str:
    """Train, and watch the memory; a row of the report."""
    command = [
        sys.executable, "-m", "crosshead", "train", "--out", str(out), *more,
        "--max-updates", str(updates), "--source", str(folder / "source"),
        "--target", str(folder / "target"),
    ]  # fmt: skip
    for setting in SETTINGS:
        command += ["--set", setting]
    log = out / "log.jsonl"
    known = lines_of(log)
    began = time.perf_counter()
    process = subprocess.Popen(
        command, env={**os.environ, "CROSSHEAD_CACHE": str(folder / "cache")}, stdout=sys.stderr
    )
    first_update = 0.0
    peak = dict.fromkeys(("RssAnon", "RssFile", "RssShmem"), 0)
    training_peak = workers_peak = 0
    while process.poll() is None:
        held = memory(process.pid)
        peak = {key: max(size, held.get(key, 0)) for key, size in peak.items()}
        workers = sum(memory(child).get("RssAnon", 0) for child in children(process.pid))
        workers_peak = max(workers_peak, workers)
        if not first_update and lines_of(log) > known:
            first_update = time.perf_counter() - began
        if first_update:
            training_peak = max(training_peak, held.get("RssAnon", 0))
        time.sleep(0.1)
    if process.returncode:
        sys.exit(process.returncode)
    mapped = peak["RssFile"] + peak["RssShmem"]
    sizes = (training_peak, peak["RssAnon"], mapped, workers_peak)
    return f"{first_update:.1f} | " + " | ".join(f"{size / 1e6:,.0f}" for size in sizes)


def sentencepiece_alone(folder: Path) -> str:
    """Learn pieces from both sides, and tokenize them with as many threads as there are cores."""
    cores, began, spent = len(os.sched_getaffinity(0)), time.perf_counter(), time.process_time()
    sides = [folder / "source", folder / "target"]
    sentencepiece.SentencePieceTrainer.train(
        input=sides, model_prefix=str(folder / "alone"), vocab_size=PIECES, model_type="bpe",
        num_threads=cores, minloglevel=2,
    )  # fmt: skip
    learned = time.perf_counter() - began
    model = sentencepiece.SentencePieceProcessor(model_file=str(folder / "alone.model"))
    for side in sides:
        lines = iter_lines(side)
        while some := list(islice(lines, ROWS_AT_ONCE)):
            model.encode(some, num_threads=cores)
    seconds = time.perf_counter() - began
    return (
        f"SentencePiece alone: {seconds:.1f} s, of which {learned:.1f} to learn "
        f"({time.process_time() - spent:.1f} s of all cores)"
    )


def lines_of(log: Path) -> int:
    return log.read_bytes().count(b"\n") if log.is_file() else 0


def memory(pid: int) -> dict[str, int]:
    """What a process holds, in bytes; nothing where it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    fields = (line.split() for line in lines if line.startswith("Rss"))
    return {field[0].removesuffix(":"): 1024 * int(field[1]) for field in fields}


def children(pid: int) -> list[int]:
    try:
        found = [path.read_text().split() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:
        return []
    return [int(each) for numbers in found for each in numbers]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=5_000_000)
    parser.add_argument("--folder", type=Path, help="where to make the temporary directory")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        write_corpus(folder, options.pairs)
        size = sum((folder / side).stat().st_size for side in ("source", "target"))
        print(f"{machine()}- {options.pairs:,} pairs, {size / 1e6:,.0f} MB of text\n")
        print(
            "run | s to the first update | own memory in training, MB | own memory at most, MB"
            " | mapped pages at most, MB | processes that tokenize, MB"
        )
        print("---|---|---|---|---|---")
        first, second = folder / "first", folder / "second"
        print("cold |", run(folder, first, UPDATES), flush=True)
        print("resumed |", run(folder, first, 2 * UPDATES, "--resume"), flush=True)
        print("from the cache |", run(folder, second, UPDATES), flush=True)
        cache = sum(path.stat().st_size for path in (folder / "cache").rglob("*"))
        print(f"\nThe cache has {cache / 1e6:,.0f} MB.\n{sentencepiece_alone(folder)}")


if __name__ == "__main__":
    main()
