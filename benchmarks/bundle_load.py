"""The share of the checksum of the weights in the time to load a bundle: see README.md."""

import argparse
import hashlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from harness import machine, progress, spread, table

from crosshead.bundle.io import save_bundle
from crosshead.bundle.places import WEIGHTS
from crosshead.bundle.text_bundle import TextBundle, TextBundleConfig
from crosshead.models.registry import build_model
from crosshead.recipe.compose import compose
from crosshead.recipe.presets import PRESETS
from crosshead.tasks.registry import load_bundle
from crosshead.text.tokenizers import TokenizerConfig, train_tokenizer

LOADS = "from crosshead.tasks.registry import load_bundle; load_bundle({!r})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("--preset", choices=PRESETS["transformer"], action="append")
    parser.add_argument("--rounds", type=int, default=15, help="loads in one process")
    parser.add_argument("--starts", type=int, default=5, help="new processes")
    options = parser.parse_args()
    print("# Loading a bundle, and hashing its weights\n")
    print(machine())
    rows = []
    for preset in options.preset or ["tiny", "base"]:
        with tempfile.TemporaryDirectory() as name:
            bundle = Path(name)
            write(bundle, preset)
            data = (bundle / WEIGHTS).read_bytes()
            for way, load, rounds in (
                ("in one process", loading, options.rounds),
                ("in a new process", starting, options.starts),
            ):
                load(bundle)
                shares, milliseconds = measure(load, bundle, data, rounds)
                size = f"{len(data) / 1e6:.0f}"
                shown = spread(milliseconds, 0), spread(shares, 2)
                rows.append([preset, size, way, f"{rounds}", *shown])
                progress(f"{preset}, {way}: {statistics.median(shares):.2f}")
    print(table(["preset", "MB", "loads", "rounds", "load, ms", "hashing over load"], rows))


def write(bundle: Path, preset: str) -> None:
    """Write a bundle of random weights with 8,000 pieces."""
    symbols = [chr(0x4E00 + number) for number in range(8000 - 4)]
    tokenizer = train_tokenizer(TokenizerConfig(kind="characters"), symbols)
    size = tokenizer.vocab_size
    config = TextBundleConfig(
        model=compose(preset, flags={"data": {"source": ["a"], "target": ["b"]}}).model,
        joint_tokenizer=True,
        source_vocabulary=size,
        target_vocabulary=size,
        longest_source=100,
    )
    model = build_model(config.model, size, size)
    save_bundle(bundle, TextBundle(config, model, tokenizer, tokenizer), "")


def measure(
    load: Callable[[Path], float], bundle: Path, data: bytes, rounds: int
) -> tuple[list[float], list[float]]:
    """Load and hash in turns; return hashing's share of each load, and the loads' milliseconds."""
    shares, milliseconds = [], []
    for _ in range(rounds):
        seconds = load(bundle)
        began = time.perf_counter()
        hashlib.sha256(data)
        shares.append((time.perf_counter() - began) / seconds)
        milliseconds.append(1000 * seconds)
    return shares, milliseconds


def loading(bundle: Path) -> float:
    """Seconds that this process takes to load a bundle."""
    began = time.perf_counter()
    load_bundle(bundle)
    return time.perf_counter() - began


def starting(bundle: Path) -> float:
    """Seconds that a new process takes to start and to load a bundle."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", LOADS.format(str(bundle))], check=True)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
