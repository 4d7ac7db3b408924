import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from crosshead.training.hardware import Machine
from crosshead.training.memory import memory_estimate
from crosshead.training.recipe import compose

MACHINE = Machine(torch.device("cpu"), 1, torch.float32, "as asked")

RUN = """
import sys
from pathlib import Path
import torch
from crosshead.training.loop import peak_memory
from crosshead.training.recipe import compose
from crosshead.training.run import train
data = {"source": "en", "target": "de"}
summary = train(compose("tiny", flags={"data": data}, assignments=sys.argv[1:]), Path("out"))
print(summary.parameters, peak_memory(torch.device("cpu")))
"""


@pytest.mark.usefixtures("short_run")
@pytest.mark.parametrize(
    ("more", "tokens", "recompute"),
    [([], 4096, False), (["accumulate=4"], 1024, False), (["recompute=true"], 4096, True)],
)
def test_the_estimate_is_near_the_memory_that_a_run_takes(
    more: list[str], tokens: int, recompute: bool
) -> None:
    """Most of the first is the batch's: 0.63 GB, against 0.53 of all the rest."""
    settings = [
        "tokenizer.kind=words", "train.batch_tokens=4096", "max_updates=4", "precision=float32",
        "threads=1", "average=0", "valid_size=2", "decode.beam=1", "max_extra=0",
    ]  # fmt: skip
    command = [sys.executable, "-c", RUN, *settings, *more]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    parameters, peak = map(int, done.stdout.split())
    estimate = memory_estimate(
        compose("tiny").model, tokens, parameters, MACHINE, recompute=recompute
    )
    assert peak == pytest.approx(estimate, rel=0.3)


LIMITED = """
import resource, sys
from pathlib import Path
from crosshead.training import run
from crosshead.training.recipe import compose
from crosshead.training.log import Silent
class Said(Silent):
    def say(self, line): print(line, flush=True)
room = int(sys.argv[1])
fit = run.fit
def limited(training):
    [size] = [line for line in open("/proc/self/status") if line.startswith("VmSize")]
    limit = 1024 * int(size.split()[1]) + room
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    return fit(training)
run.fit = limited
data = {"source": "en", "target": "de"}
recipe = compose("tiny", flags={"data": data}, assignments=sys.argv[2:])
summary = run.train(recipe, Path("out"), display=Said())
print("parts", summary.progress.parts, "updates", summary.progress.update)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="address space is Linux's limit")
@pytest.mark.usefixtures("short_run")
def test_a_run_under_a_limit_of_memory_splits_its_batches_and_goes_on() -> None:
    settings = [
        "tokenizer.kind=words", "train.batch_tokens=8192", "max_updates=3", "precision=float32",
        "threads=1", "average=0", "valid_size=2", "decode.beam=1", "max_extra=0",
    ]  # fmt: skip
    command = [sys.executable, "-c", LIMITED, str(280 * 2**20), *settings]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    *said, last = done.stdout.splitlines()
    assert any("not enough memory for update 1: batches are computed in 2 parts" in x for x in said)
    assert last in [f"parts {parts} updates 3" for parts in (2, 4, 8, 16)]


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
