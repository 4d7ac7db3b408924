"""What the benchmarks share: workers in processes of their own, settings, spreads and tables.

Each side of a comparison works in a fresh process, so that neither meets the other's threads,
allocator or imports. The workers stay alive and take turns: whatever else the machine does, it does
to all of them.
"""

import datetime
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from crosshead.system.processor import available_cores, instruction_sets
from crosshead.training.hardware import matrix_rates

ROOT = Path(__file__).parent.parent
CORES = available_cores()

Settings = dict[str, Any]
"""How one side runs: JSON values by name."""

Answer = Callable[[dict[str, Any]], dict[str, Any]]
"""What a worker does with a request."""


def data_folder() -> Path:
    """The folder of data sets: `CROSSHEAD_DATA`, or `../shared/data` beside the checkout."""
    return Path(os.environ.get("CROSSHEAD_DATA") or ROOT.parent / "shared" / "data")


class Worker:
    """A process that runs this script with `--worker` and answers requests, one JSON object a line.

    `settings` is the first line it is sent; its `threads` is also the process's OMP_NUM_THREADS.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._process = subprocess.Popen(
            [sys.executable, sys.argv[0], "--worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": str(settings["threads"])},
        )
        self.facts = self._exchange(settings)

    def ask(self, **request: Any) -> dict[str, Any]:
        """The answer to a request."""
        return self._exchange(request)

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def _exchange(self, message: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the worker {self.settings} ended; its error stands above")
        answer: dict[str, Any] = json.loads(line)
        return answer


def serve(start: Callable[[Settings, "PeakMemory"], Answer]) -> None:
    """Be a worker: `start` what the first line describes, then answer line by line.

    `start` resets the memory it is given once its model is built.
    """
    # Whatever a library prints must not come between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    settings = json.loads(sys.stdin.readline())
    torch.set_num_threads(settings["threads"])
    memory = PeakMemory()
    answer = start(settings, memory)
    print(json.dumps({}), file=answers, flush=True)
    for line in sys.stdin:
        reply = {**answer(json.loads(line)), "peak_bytes": memory.above_baseline()}
        print(json.dumps(reply), file=answers, flush=True)


class PeakMemory:
    """The most resident memory since `reset`, beyond what was resident then (Linux only)."""

    def __init__(self) -> None:
        self.baseline: int | None = None

    def reset(self) -> None:
        """Begin to measure: the model is built, the work begins."""
        try:
            Path("/proc/self/clear_refs").write_text("5")
            self.baseline = _status("VmRSS")
        except OSError:
            self.baseline = None

    def above_baseline(self) -> int | None:
        """Bytes; None where the system does not tell."""
        return None if self.baseline is None else _status("VmHWM") - self.baseline


def choose_settings(
    defaults: Settings,
    choices: Mapping[str, Sequence[Any]],
    rate: Callable[[Settings], float],
    rows: list[list[str]],
) -> Settings:
    """The fastest settings, looked for one choice after the other from `defaults`.

    `rate` measures settings, the larger the better; what it finds is appended to `rows`.
    """

    def measured(settings: Settings) -> float:
        found = rate(settings)
        rows.append([settings["side"], describe(settings), f"{found:,.0f}"])
        progress(f"calibration: {settings['side']} {describe(settings)}: {found:,.0f}")
        return found

    best, fastest = defaults, measured(defaults)
    for name, values in choices.items():
        for value in values:
            if value == defaults[name]:
                continue
            candidate = {**best, name: value}
            found = measured(candidate)
            if found > fastest:
                best, fastest = candidate, found
    return best


def take_turns(
    workers: Mapping[str, Worker], rounds: int, request: Callable[[int], dict[str, Any]]
) -> dict[str, list[dict[str, Any]]]:
    """Every worker's answers, round by round; every other round goes backwards through them."""
    answers: dict[str, list[dict[str, Any]]] = {name: [] for name in workers}
    for number in range(rounds):
        for name in list(workers)[:: 1 if number % 2 == 0 else -1]:
            answers[name].append(workers[name].ask(**request(number)))
            progress(
                f"round {number + 1} of {rounds}: {name}: {answers[name][-1]['seconds']:.2f} s"
            )
    return answers


def describe(settings: Settings) -> str:
    """The settings that were chosen, in a clause."""
    hidden = ("side", "size", "files", "library", "bundle", "beam")
    return ", ".join(f"{key} {value}" for key, value in settings.items() if key not in hidden)


def spread(values: Sequence[float], digits: int = 0) -> str:
    """The median, and the least and largest value."""
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:,.{digits}f} ({low:,.{digits}f}–{high:,.{digits}f})"


def mebibytes(count: int | None) -> str:
    """Bytes as MiB."""
    return "not measured" if count is None else f"{count / 2**20:,.0f}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def machine() -> str:
    """What the figures below it were measured on, as a Markdown list; takes a second to measure."""
    torch.set_num_threads(CORES)
    rates = matrix_rates(torch.device("cpu"), CORES, seconds=0.25)
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    tuned = {
        k: v
        for k, v in os.environ.items()
        if k.startswith(("GLIBC_TUNABLES", "LD_PRELOAD", "MALLOC_"))
    }
    lines = [
        f"{_processor()}, {CORES} cores, {' '.join(instruction_sets()) or 'no known units'}",
        f"matrix products on {CORES} threads: {rates.float32:.0f} GFLOP/s in float32, "
        f"{rates.bfloat16:.0f} in bfloat16",
        f"commit {commit or 'unknown'}, {datetime.date.today()}, PyTorch {torch.__version__}",
        f"`{' '.join(['python', *sys.argv])}`",
    ]
    if tuned:
        lines.append(f"the environment of every side: {tuned}")
    return "\n".join(f"- {line}" for line in lines) + "\n"


def progress(line: str) -> None:
    """Say on standard error how far it is."""
    print(line, file=sys.stderr, flush=True)


def _status(field: str) -> int:
    """A field of this process's memory, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {field}")


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return "unknown processor"
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else "unknown processor"
