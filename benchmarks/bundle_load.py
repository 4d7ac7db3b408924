"""The cost of comparing a bundle's checksums when it is loaded: see README.md."""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from harness import machine, progress, spread, table

from crosshead.bundle import Bundle, BundleConfig, build_model, load_bundle, save_bundle
from crosshead.data.tokenizers import TokenizerConfig, train_tokenizer
from crosshead.training.presets import PRESETS
from crosshead.training.recipe import compose

LOADS = "from crosshead.bundle import load_bundle; load_bundle({!r})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("--preset", choices=PRESETS["transformer"], action="append")
    parser.add_argument("--rounds", type=int, default=15, help="pairs of loads in one process")
    parser.add_argument("--starts", type=int, default=5, help="pairs of new processes")
    options = parser.parse_args()
    print("# Loading a bundle with checksums, and without\n")
    print(machine())
    rows = []
    for preset in options.preset or ["tiny", "base"]:
        with tempfile.TemporaryDirectory() as name:
            checked, unchecked = written(Path(name), preset)
            megabytes = (checked / "model.safetensors").stat().st_size / 1e6
            for way, load, rounds in (
                ("in one process", loading, options.rounds),
                ("in a new process", starting, options.starts),
            ):
                load(checked), load(unchecked)
                ratios = [ratio(load, checked, unchecked, number) for number in range(rounds)]
                rows.append([preset, f"{megabytes:.0f}", way, f"{rounds}", spread(ratios, 2)])
                progress(f"{preset}, {way}: {statistics.median(ratios):.2f}")
    print(table(["preset", "MB", "loads", "pairs", "time with checksums over without"], rows))


def written(folder: Path, preset: str) -> tuple[Path, Path]:
    """Write a bundle of random weights with 8,000 pieces, and a copy that states no checksums."""
    symbols = [chr(0x4E00 + number) for number in range(8000 - 4)]
    tokenizer = train_tokenizer(TokenizerConfig(kind="characters"), symbols)
    size = tokenizer.vocab_size
    config = BundleConfig(
        model=compose(preset, flags={"data": {"source": ["a"], "target": ["b"]}}).model,
        joint_tokenizer=True,
        source_vocabulary=size,
        target_vocabulary=size,
        longest_source=100,
    )
    model = build_model(config.model, size, size)
    checked, unchecked = folder / "checked", folder / "unchecked"
    save_bundle(checked, Bundle(config, model, tokenizer, tokenizer), "")
    shutil.copytree(checked, unchecked)
    values = json.loads((unchecked / "config.json").read_text())
    del values["files"], values["config_sha256"]
    (unchecked / "config.json").write_text(json.dumps(values))
    return checked, unchecked


def ratio(load: Callable[[Path], float], checked: Path, unchecked: Path, number: int) -> float:
    """The seconds of a load with checksums over those of one without; they take turns to begin."""
    first, second = (checked, unchecked) if number % 2 else (unchecked, checked)
    seconds = {first: load(first), second: load(second)}
    return seconds[checked] / seconds[unchecked]


def loading(bundle: Path) -> float:
    """Seconds that this process takes to load a bundle."""
    began = time.perf_counter()
    load_bundle(bundle)
    return time.perf_counter() - began


def starting(bundle: Path) -> float:
    """Seconds that a new process takes to begin and to load a bundle."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", LOADS.format(str(bundle))], check=True)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
