import dataclasses
import random
import re
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from crosshead.errors import ConfigError, DataError
from crosshead.recipe.recipe import Recipe
from crosshead.tasks.parallel_corpus import ParallelCorpus as Corpus
from crosshead.tasks.recipes import compose
from crosshead.tasks.registry import task_of
from crosshead.training import memory
from crosshead.training.activations import Activations, Measurement
from crosshead.training.distributed import ALONE, World
from crosshead.training.hardware import Machine
from crosshead.training.memory import (
    FreeMemory,
    free_memory,
    measured_memory,
    peak_memory,
    too_large,
    weight_bytes,
)
from tests.tasks.reading import read_corpus

CPU = torch.device("cpu")
MACHINE = Machine(CPU, 1, torch.float32, "as asked")
GB = 10**9

RUN = """
import sys
from pathlib import Path
import torch
from crosshead.tasks.recipes import compose
from crosshead.training import setup
from crosshead.training.memory import peak_memory
from crosshead.training.run import train
measured_memory = setup.measured_memory
def printed(*arguments):
    estimate = measured_memory(*arguments)
    print(estimate)
    return estimate
setup.measured_memory = printed
data = {"source": sys.argv[1], "target": sys.argv[1]}
summary = train(compose("tiny", flags={"data": data}, assignments=sys.argv[2:]), Path("out"))
print(summary.parameters, peak_memory(torch.device("cpu")))
"""


SETTINGS = [
    "tokenizer.kind=words", "train.batch_tokens=4096", "threads=1", "average=0", "valid_size=2",
    "decode.beam=1", "max_extra=0",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.usefixtures("short_run")
@pytest.mark.parametrize(
    ("text", "more"),
    [
        ("en", ["precision=float32", "max_updates=4"]),
        ("en", ["precision=float32", "max_updates=4", "accumulate=4"]),
        ("en", ["precision=float32", "max_updates=4", "recompute=true"]),
        # Of many shapes, since each has kernels of its own.
        ("mixed", ["precision=bfloat16", "max_updates=20"]),
    ],
)
def test_the_estimate_is_near_the_memory_that_a_run_takes(text: str, more: list[str]) -> None:
    """In sentences of up to 66 words and the end, of which a batch holds 61.

    Most of the first is the batch's: 0.65 GB, against 0.53 of all the rest.
    """
    settings = [*SETTINGS, *more]
    command = [sys.executable, "-c", RUN, text, *settings]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    estimate, _, peak = map(int, done.stdout.split())
    assert peak == pytest.approx(estimate, rel=0.3)


LIMITED = """
import resource, sys
from pathlib import Path
from crosshead.training import run
from crosshead.tasks.recipes import compose
from crosshead.system.progress import Silent
class Said(Silent):
    def say(self, line): print(line, flush=True)
free = int(sys.argv[1])
fit = run.fit
def limited(training):
    [size] = [line for line in open("/proc/self/status") if line.startswith("VmSize")]
    limit = 1024 * int(size.split()[1]) + free
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    return fit(training)
run.fit = limited
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
    command = [sys.executable, "-c", LIMITED, str(330 * 2**20), *settings]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    *said, last = done.stdout.splitlines()
    assert any(
        "not enough memory for update 1: batches are computed in 2 microbatches" in x for x in said
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

    def write(length: int) -> None:
        """Write lines of which the thirteenth has so many words."""
        lines = [" ".join(words[row : row + 5]) for row in range(20)]
        lines[12] = " ".join(words[:length])
        for name in ("en", "de"):
            Path(name).write_text("\n".join(lines) + "\n")

    def peak(length: int) -> int:
        write(length)
        data = {"source": "en", "target": "de"}
        recipe = compose("tiny", flags={"data": data}, assignments=settings)
        measurement = measurement_of(recipe, read_corpus(recipe, None, None))
        longest = int(measurement.epoch.lengths.sum(axis=1).argmax())
        return measurement.activations([longest], 1).peak()

    # The kernels of attention, and so the memory, differ between processors.
    limit = (held + (peak(3900) + peak(1000)) // 2) // 1024
    limited = ["bash", "-c", f'ulimit -v {limit}; exec "$@"', "-"]
    command = [sys.executable, "-m", "crosshead", "train", "--preset", "tiny", "--out", "out"]
    command += ["--source", "en", "--target", "de"]
    command += ["--source-language", "en", "--target-language", "de"]
    command += [each for setting in settings for each in ("--set", setting)]
    write(3900)
    refused = subprocess.run([*limited, *command], capture_output=True, text=True)
    assert refused.returncode == 2 and not Path("out").exists()
    assert re.fullmatch(
        r"warning: en and de hold the same text, .*\n"
        r"crosshead: error: en:13: training on 3,900 and 3,900 tokens needs (about|more than) "
        r"\d\.\d GB, but only \d\.\d GB of this process's address space \(ulimit -v\) are free; "
        r"lower data\.max_length, or choose a smaller model\n",
        refused.stderr,
    )
    write(1000)
    fits = subprocess.run([*limited, *command], capture_output=True, text=True)
    assert fits.returncode == 0, fits.stderr


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Recipe, Corpus]:
    """The settings and the text of a run, line 4 of which is the longest by far."""
    monkeypatch.chdir(tmp_path)
    lines = [f"one {word}" for word in "abcdefghijklmnopqrst"]
    lines[3] *= 100
    for name in ("en", "de"):
        Path(name).write_text("\n".join([" ", *lines]) + "\n")
    data = {"source": "en", "target": "de", "valid_source": "en", "valid_target": "de"}
    recipe = compose(flags={"data": data}, assignments=["tokenizer.kind=words"])
    return recipe, read_corpus(recipe, None, None)


def measurement_of(recipe: Recipe, corpus: Corpus) -> Measurement:
    model = corpus.kind.build(corpus.bundle_config(recipe, corpus.longest_input))
    return Measurement(task_of(recipe), model, corpus.epochs(recipe)(0), recipe.train)


@pytest.mark.slow
def test_what_is_refused_is_what_does_not_fit(run: tuple[Recipe, Corpus]) -> None:
    recipe, corpus = run
    measurement = measurement_of(recipe, corpus)
    parameters = sum(each.numel() for each in measurement.model.parameters())

    def check(left: int, recipe: Recipe = recipe, world: World = ALONE) -> None:
        free = FreeMemory(left, "what is there")
        if fault := too_large(recipe, corpus, MACHINE, world, free):
            raise ConfigError(fault)
        again = dataclasses.replace(measurement, train=recipe.train)
        measured_memory(again, corpus, MACHINE, world, free)

    with pytest.raises(ConfigError) as caught:
        check(20 * parameters - 1)
    assert str(caught.value).startswith("a model of 1.3 M parameters needs about 0.0 GB to train")
    assert "\n" not in str(caught.value)
    # Weights, moments and weights to validate with, and row 3, which is by far the longest.
    fits = 16 * parameters + measurement.activations([3], 1).peak()
    check(fits)
    with pytest.raises(DataError, match=r"^en:5: training on 101 and 101 tokens needs") as caught:
        check(fits - 1)
    assert str(caught.value).endswith("; lower data.max_length, or choose a smaller model")
    assert "\n" not in str(caught.value)
    # Of several processes each computes its share of a batch at once.
    two = World(0, 2, 0, 2)
    fits = 16 * parameters + measurement.activations([3], 10).peak()
    check(fits, world=two)
    with pytest.raises(DataError, match=r"^en:5: .*; raise train.accumulate, lower data.max_len"):
        check(fits - 1, world=two)
    finer = recipe.model_copy(update={"train": recipe.train.model_copy(update={"accumulate": 2})})
    check(fits - 1, finer, two)


def test_a_row_too_long_to_be_measured_is_refused(
    run: tuple[Recipe, Corpus], monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe, corpus = run
    measurement = measurement_of(recipe, corpus)

    def fails(*_: object) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9")

    monkeypatch.setattr(Measurement, "activations", fails)
    free = FreeMemory(GB, "what is there")
    with pytest.raises(DataError, match=r"needs more than 1\.0 GB, but only 1\.0 GB of what is"):
        measured_memory(measurement, corpus, MACHINE, ALONE, free)


def test_a_run_whose_rows_fit_one_at_a_time_is_not_refused(
    run: tuple[Recipe, Corpus], monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe, corpus = run
    measurement, measured = measurement_of(recipe, corpus), Measurement.activations
    free = FreeMemory(GB, "what is there")
    expected = measured_memory(measurement, corpus, MACHINE, ALONE, free)

    def fails_for_several(self: Measurement, rows: Sequence[int], count: int) -> Activations:
        if count > 1:
            raise MemoryError
        return measured(self, rows, count)

    monkeypatch.setattr(Measurement, "activations", fails_for_several)
    assert 0.5 * GB < measured_memory(measurement, corpus, MACHINE, ALONE, free) < expected


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="address space is Linux's limit")
def test_what_is_measured_may_not_take_more_than_there_is(
    run: tuple[Recipe, Corpus], monkeypatch: pytest.MonkeyPatch
) -> None:
    import resource

    recipe, corpus = run
    before, taken = resource.getrlimit(resource.RLIMIT_AS), []

    def greedy(*_: object) -> Activations:
        taken.append(torch.empty(3 * GB, dtype=torch.uint8))
        return Activations(1, ())

    monkeypatch.setattr(Measurement, "activations", greedy)
    measurement, free = measurement_of(recipe, corpus), FreeMemory(GB, "what is there")
    with pytest.raises(DataError, match=r"^en:5: .* needs more than 1\.0 GB"):
        measured_memory(measurement, corpus, MACHINE, ALONE, free)
    assert not taken and resource.getrlimit(resource.RLIMIT_AS) == before


@pytest.mark.parametrize(
    ("dtype", "threads", "world", "sharded", "weights", "gradients"),
    [
        (torch.float32, 1, ALONE, False, 4 + 8 + 4, 4),
        (torch.bfloat16, 1, ALONE, False, 2 + 4 + 8 + 4, 2 + 4),
        # Two models side by side share weights, and each has gradients.
        (torch.bfloat16, 2, ALONE, False, 2 + 4 + 8 + 4, 2 * 2 + 4),
        # Of four processes that share all, the first has those to validate with besides.
        (torch.bfloat16, 2, World(0, 4, 0, 4), True, (2 + 4 + 8) / 4 + 4, (2 + 4) / 4),
        (torch.bfloat16, 2, World(1, 4, 1, 4), True, (2 + 4 + 8) / 4, (2 + 4) / 4),
        (torch.bfloat16, 2, World(1, 4, 1, 4), False, 2 + 4 + 8, 2 + 4),
    ],
)
def test_what_hangs_on_a_weight(
    dtype: torch.dtype, threads: int, world: World, sharded: bool, weights: float, gradients: float
) -> None:
    train = compose("tiny", assignments=[f"sharded={str(sharded).lower()}"]).train
    machine = Machine(CPU, threads, dtype, "as asked")
    assert weight_bytes(400, train, machine, world) == (400 * weights, 400 * gradients)
    averaging = train.model_copy(update={"ema": 0.999})
    share = world.size if sharded else 1
    expected = 400 * (weights + 4 / share), 400 * gradients
    assert weight_bytes(400, averaging, machine, world) == expected


def test_what_fits_in_shares_is_not_refused(run: tuple[Recipe, Corpus]) -> None:
    recipe, corpus = run
    parameters = sum(each.numel() for each in measurement_of(recipe, corpus).model.parameters())
    free = FreeMemory(15 * parameters, "what is there")
    world = World(0, 4, 0, 4)
    fault = too_large(recipe, corpus, MACHINE, world, free)
    assert fault.endswith("choose a smaller model, or set train.sharded")
    shares = recipe.model_copy(update={"train": recipe.train.model_copy(update={"sharded": True})})
    assert not too_large(shares, corpus, MACHINE, world, free)


STATUS = """Name:	python
VmSize:	 3000 kB
VmRSS:	 1900 kB
RssAnon:	 800 kB
RssFile:	 900 kB
RssShmem:	 200 kB
Threads:	1
"""


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
    monkeypatch.setattr(memory, "PROC", tmp_path)
    monkeypatch.setattr(memory, "CGROUPS", tmp_path / "groups")
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
    monkeypatch.setattr(memory, "PROC", tmp_path)
    monkeypatch.setattr("sys.platform", platform)
    monkeypatch.setattr("resource.getrusage", lambda who: SimpleNamespace(ru_maxrss=5))
    assert peak_memory(CPU) == expected


def test_peak_memory_is_that_of_this_process_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self/status").write_text("Name:\tpython\nVmHWM:\t    7 kB\nVmRSS:\t    5 kB\n")
    monkeypatch.setattr(memory, "PROC", tmp_path)
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
