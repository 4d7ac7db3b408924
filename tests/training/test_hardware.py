import random
import re
import resource
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from crosshead.training import hardware
from crosshead.training.hardware import (
    FreeMemory,
    MatrixRates,
    allocating_at_most,
    choose_precision,
    free_memory,
    matrix_rates,
    peak_memory,
)

CPU = torch.device("cpu")


def test_precision_is_as_asked() -> None:
    assert choose_precision("float32", CPU) == (torch.float32, "as the recipe says")
    assert choose_precision("bfloat16", CPU) == (torch.bfloat16, "as the recipe says")


@pytest.mark.parametrize(
    ("bfloat16", "expected"),
    [(500.0, torch.bfloat16), (100.0, torch.float32), (20.0, torch.float32)],
)
def test_auto_takes_the_faster_precision(
    bfloat16: float, expected: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hardware, "matrix_rates", lambda *where: MatrixRates(100.0, bfloat16))
    dtype, why = choose_precision("auto", CPU)
    assert dtype == expected
    assert "100" in why and f"{bfloat16:.0f}" in why


def test_rates_are_measured() -> None:
    rates = matrix_rates(CPU, 1, seconds=0.01)
    assert rates.float32 > 0 and rates.bfloat16 > 0
    assert matrix_rates(CPU, 1, seconds=0.01) is rates


def test_a_machine_with_slow_products_is_measured_with_few_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A product of 64 rows takes 0.05 s here, so that one of 4,096 would take 3.2 s."""
    now, rows = [0.0], []

    class Slow:
        def __init__(self, length: int) -> None:
            self.length = length

        def __len__(self) -> int:
            return self.length

        def __getitem__(self, part: slice) -> "Slow":
            return Slow(part.stop)

        def __matmul__(self, other: object) -> None:
            rows.append(self.length)
            now[0] += self.length * 0.05 / 64

        def to(self, dtype: torch.dtype) -> "Slow":
            return self

    monkeypatch.setattr(torch, "randn", lambda length, *rest, device: Slow(length))
    monkeypatch.setattr(hardware.time, "perf_counter", lambda: now[0])
    found = matrix_rates(CPU, 3, seconds=0.1)
    assert set(rows) == {64} and now[0] < 1
    assert found.float32 == pytest.approx(2 * 512 * 512 / (0.05 / 64) / 1e9)


GB = 10**9

SETTINGS = [
    "tokenizer.kind=words", "train.batch_tokens=4096", "threads=1", "average=0", "valid_size=2",
    "decode.beam=1", "max_extra=0",
]  # fmt: skip


LIMITED = """
import resource, sys
from pathlib import Path
from crosshead.training import run
from crosshead.recipe.compose import compose
from crosshead.system.progress import Silent
class Said(Silent):
    def say(self, line): print(line, flush=True)
free = int(sys.argv[1])
[size] = [line for line in open("/proc/self/status") if line.startswith("VmSize")]
limit = 1024 * int(size.split()[1]) + free
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
data = {"source": "en", "target": "de"}
recipe = compose("tiny", flags={"data": data}, assignments=sys.argv[2:])
summary = run.train(recipe, Path("out"), display=Said())
print("microbatches", summary.progress.microbatches, "updates", summary.progress.update)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="address space is Linux's limit")
@pytest.mark.usefixtures("short_run")
@pytest.mark.slow
def test_a_run_under_a_limit_of_memory_splits_its_batches_and_goes_on() -> None:
    settings = [*SETTINGS, "train.batch_tokens=8192", "max_updates=3", "precision=float32"]
    command = [sys.executable, "-c", LIMITED, str(600 * 2**20), *settings]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    *said, last = done.stdout.splitlines()
    assert any(
        "not enough memory for a whole batch of the longest rows: batches are computed in" in x
        for x in said
    )
    assert last in [f"microbatches {number} updates 3" for number in (2, 4, 8, 16)]


HELD = """
import crosshead.cli.reports, crosshead.training.run
[size] = [line for line in open("/proc/self/status") if line.startswith("VmSize")]
print(1024 * int(size.split()[1]))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="address space is Linux's limit")
@pytest.mark.usefixtures("short_run")
@pytest.mark.slow
def test_a_pair_that_cannot_fit_is_refused_and_a_shorter_one_is_trained_on() -> None:
    held = int(subprocess.check_output([sys.executable, "-c", HELD]))
    words = (Path("en").read_text() * 3).split()
    settings = [*SETTINGS, "precision=float32", "data.max_length=4000", "max_updates=2"]
    limited = ["bash", "-c", f'ulimit -v {(held + GB // 2) // 1024}; exec "$@"', "-"]
    command = [sys.executable, "-m", "crosshead", "train", "--preset", "tiny", "--out", "out"]
    command += ["--source", "en", "--target", "de"]
    command += ["--source-language", "en", "--target-language", "de"]
    command += [each for setting in settings for each in ("--set", setting)]

    def trained(length: int) -> subprocess.CompletedProcess[str]:
        """Train on lines of which the thirteenth has so many words."""
        lines = [" ".join(words[row : row + 5]) for row in range(20)]
        lines[12] = " ".join(words[:length])
        for name in ("en", "de"):
            Path(name).write_text("\n".join(lines) + "\n")
        return subprocess.run([*limited, *command], capture_output=True, text=True)

    refused = trained(3900)
    assert refused.returncode == 2 and not Path("out").exists()
    assert re.fullmatch(
        r"warning: en and de hold the same text, .*\n"
        r"crosshead: error: en:13: training on 3,900 and 3,900 tokens needs more memory than "
        r"\d\.\d GB of this process's address space \(ulimit -v\); "
        r"lower data\.max_length, or choose a smaller model\n",
        refused.stderr,
    )
    fits = trained(1000)
    assert fits.returncode == 0, fits.stderr


STATUS = """Name:	python
VmSize:	 3000 kB
VmRSS:	 1900 kB
RssAnon:	 800 kB
RssFile:	 900 kB
RssShmem:	 200 kB
Threads:	1
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="address space is Linux's limit")
def test_what_is_tried_may_not_take_more_than_there_is() -> None:
    before = resource.getrlimit(resource.RLIMIT_AS)
    with (
        allocating_at_most(FreeMemory(GB, "what is there"), CPU),
        pytest.raises(RuntimeError, match="allocate memory"),
    ):
        torch.empty(60 * GB, dtype=torch.uint8)
    assert resource.getrlimit(resource.RLIMIT_AS) == before


@pytest.mark.parametrize(
    ("groups", "files", "processes", "free"),
    [
        ("", {}, 1, FreeMemory(7000 * 1024, "the machine's memory")),
        ("0::/\n", {"memory.max": "max"}, 1, FreeMemory(7000 * 1024, "the machine's memory")),
        ("0::/\n", {"memory.max": "2048000"}, 1,
         FreeMemory(1000 * 1024, "its control group's memory")),
        ("0::/a/b\n", {"a/memory.max": "2048000", "a/b/memory.max": "max"}, 1,
         FreeMemory(1000 * 1024, "its control group's memory")),
        ("4:cpu:/\n3:memory:/job\n0::/\n", {"memory/memory.limit_in_bytes": "2048000"}, 1,
         FreeMemory(1000 * 1024, "its control group's memory")),
        ("", {}, 4, FreeMemory(1000 * 1024, "the machine's memory")),
    ],
)  # fmt: skip
def test_the_room_is_the_least_of_what_there_is(
    groups: str,
    files: dict[str, str],
    processes: int,
    free: FreeMemory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    contents = {f"groups/{name}": text for name, text in files.items()}
    contents |= {"meminfo": "MemTotal: 8000 kB\n", "self/status": STATUS, "self/cgroup": groups}
    for name, text in contents.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(hardware, "PROC", tmp_path)
    monkeypatch.setattr(hardware, "CGROUPS", tmp_path / "groups")
    unlimited = resource.RLIM_INFINITY
    monkeypatch.setattr(resource, "getrlimit", lambda which: (unlimited, unlimited))
    assert free_memory(CPU, processes) == free
    monkeypatch.setattr(resource, "getrlimit", lambda which: (3_500 * 1024, unlimited))
    assert free_memory(CPU, processes).left == 500 * 1024


def test_the_room_on_a_gpu_is_what_is_free_or_unused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.mem_get_info", lambda device: (5, 9))
    monkeypatch.setattr("torch.cuda.memory_reserved", lambda device: 3)
    monkeypatch.setattr("torch.cuda.memory_allocated", lambda device: 1)
    assert free_memory(torch.device("cuda"), 8) == FreeMemory(7, "the GPU's memory")


@pytest.mark.parametrize(("platform", "expected"), [("linux", 5 * 1024), ("darwin", 5)])
def test_peak_memory_is_in_bytes_whatever_the_system_counts_in(
    platform: str, expected: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(hardware, "PROC", tmp_path)
    monkeypatch.setattr("sys.platform", platform)
    monkeypatch.setattr("resource.getrusage", lambda who: SimpleNamespace(ru_maxrss=5))
    assert peak_memory(CPU) == expected


def test_peak_memory_is_that_of_this_process_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self/status").write_text("Name:\tpython\nVmHWM:\t    7 kB\nVmRSS:\t    5 kB\n")
    monkeypatch.setattr(hardware, "PROC", tmp_path)
    monkeypatch.setattr("resource.getrusage", lambda who: SimpleNamespace(ru_maxrss=5_000))
    assert peak_memory(CPU) == 7 * 1024


@pytest.fixture
def short_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The working directory of a run, with long sentences to learn."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    rng = random.Random(1)
    words = [consonant + vowel for consonant in "bcdfghjklmnp" for vowel in "aeiou"]
    lines = [" ".join(rng.choices(words, k=rng.randint(60, 66))) for _ in range(300)]
    for name in ("en", "de"):
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    mixed = [" ".join(rng.choices(words, k=rng.randint(1, 66))) for _ in range(3000)]
    (tmp_path / "mixed").write_text("\n".join(mixed) + "\n")
