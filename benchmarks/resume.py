"""What it costs to go on with a run, at the beginning and at the end of an epoch: see README.md."""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness import data_folder, machine, progress, spread, table

PROGRAM = [sys.executable, "-m", "crosshead"]
LOADS = "from crosshead.tasks.registry import load_bundle; load_bundle({!r})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--source", type=Path, default=data_folder() / "multi30k/raw/train.en")
    parser.add_argument("--target", type=Path, default=data_folder() / "multi30k/raw/train.de")
    parser.add_argument("--set", action="append", default=[], help="of the run's recipe")
    options = parser.parse_args()
    print("# Going on with a run\n")
    print(machine())
    with tempfile.TemporaryDirectory() as name:
        run = Path(name) / "run"
        settings = [f"--set={each}" for each in [*options.set, "checkpoint_every=1", "log_every=1"]]
        command = [
            *PROGRAM, "train", "--source", options.source, "--target", options.target, "--out", run,
            "--max-epochs", "1", *settings, "--set=keep_last=100000", "--set=valid_every=1000000",
            "--set=average=1",
        ]  # fmt: skip
        subprocess.run(command, check=True, stdout=sys.stderr)
        updates = sorted(int(place.name[-8:]) for place in (run / "checkpoints").glob("update-*"))
        points = {f"after {each} of {updates[-1]} updates": each for each in (1, updates[-2])}
        seconds: dict[str, list[float]] = {name: [] for name in ("loading the model", *points)}
        for number in range(options.rounds):
            seconds["loading the model"].append(loading(run))
            for point, update in points.items():
                seconds[point].append(going_on(run, Path(name) / "copy", update))
            progress(f"round {number + 1} of {options.rounds}")
    base = statistics.median(seconds["loading the model"])
    rows = [
        [name, spread(found, 1), f"{statistics.median(found) - base:.1f}"]
        for name, found in seconds.items()
    ]
    print(table(["until the end of the first update", "seconds", "over loading"], rows))


def loading(run: Path) -> float:
    """Seconds that a new process takes to load the model of a finished run."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", LOADS.format(str(run))], check=True)
    return time.perf_counter() - began


def going_on(run: Path, copy: Path, update: int) -> float:
    """Seconds from the command that goes on after this update until the next one is done."""
    shutil.rmtree(copy, ignore_errors=True)
    others = (each.name for each in (run / "checkpoints").glob("update-*"))
    left_out = [name for name in others if int(name[-8:]) != update]
    shutil.copytree(run, copy, ignore=lambda folder, names: left_out)
    command = [*PROGRAM, "train", "--out", copy, "--resume"]
    log, begun = copy / "log.jsonl", time.perf_counter()
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        # The log of the copy still holds later updates, until the run has cut it off.
        written = log.stat().st_mtime_ns
        while log.stat().st_mtime_ns == written or not logged(log, update + 1):
            if process.poll() is not None:
                sys.exit(f"the run did not go on after update {update}")
            time.sleep(0.005)
        seconds = time.perf_counter() - begun
        process.kill()
    return seconds


def logged(log: Path, update: int) -> bool:
    """Whether the last line of a log is about this update or a later one."""
    lines = log.read_text().splitlines()
    return bool(lines) and lines[-1].endswith("}") and json.loads(lines[-1])["update"] >= update


if __name__ == "__main__":
    main()
