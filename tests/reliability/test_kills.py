"""Kills lose at most one interval, and a resumed run ends in the weights of an unbroken one."""

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from crosshead.system.processor import available_cores
from crosshead.training.checkpoint import load_newest, save_checkpoint
from crosshead.training.progress import Progress
from tests.cores import on_all_cores
from tests.reliability.tools import (
    PROGRAM,
    SEED,
    counts,
    environment,
    fresh_copy,
    program,
    small_optimizer,
    train_flags,
    tree,
    write_corpus,
)

Record = Callable[[str], None]


def save_for_ever(directory: Path, update: int, interim: int, pipe: int) -> None:
    """Save checkpoint after checkpoint, saying before and after each which it is.

    The weights of a checkpoint are its number. Every third gives way to the next, and every fifth
    is written twice.
    """
    optimizer = small_optimizer(width=64)
    while True:
        update += 1
        for parameter in optimizer.parameters.values():
            parameter.grad = torch.ones_like(parameter)
        optimizer.step(0.01)
        optimizer.set_weights(
            {name: torch.full_like(each, update) for name, each in optimizer.weights().items()}
        )
        replaced, interim = interim, update if update % 3 == 0 else 0
        progress = Progress(update, interim=interim)
        os.write(pipe, b"begin %d\n" % update)
        for _ in range(2 if update % 5 == 0 else 1):
            save_checkpoint(directory, optimizer, progress, keep=2, replaced=replaced)
        os.write(pipe, b"end %d\n" % update)


def killed_saver(directory: Path, update: int, interim: int, seconds: float) -> list[str]:
    """What a process that saves said until it was killed, so long after its first save began."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(reader)
            torch.set_num_threads(1)  # OpenMP's threads do not survive a fork
            save_for_ever(directory, update, interim, writer)
        finally:
            os._exit(1)
    os.close(writer)
    with os.fdopen(reader) as said:
        lines = [said.readline().strip()]
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
        lines += [line.strip() for line in said if line.endswith("\n")]
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    return lines


@counts(quick=8, full=200)
def test_a_kill_while_checkpoints_are_saved(count: int, tmp_path: Path, record: Record) -> None:
    rng = random.Random(SEED)
    optimizer = small_optimizer(width=64)
    ones = {name: torch.ones_like(each) for name, each in optimizer.weights().items()}
    optimizer.set_weights(ones)
    save_checkpoint(tmp_path, optimizer, Progress(1), keep=2)  # so that there is one to lose
    update, interim, inside, saved = 1, 0, 0, 0
    for _ in range(count):
        lines = killed_saver(tmp_path, update, interim, rng.uniform(0, 0.2))
        ended = [int(line.split()[1]) for line in lines if line.startswith("end")]
        begun = [int(line.split()[1]) for line in lines if line.startswith("begin")]
        progress, damaged = load_newest(tmp_path, optimizer)
        assert not damaged
        assert max([update, *ended]) <= progress.update <= max(begun)
        for weights in optimizer.weights().values():
            assert torch.equal(weights, torch.full_like(weights, progress.update))
        kept = sorted(int(place.name[-8:]) for place in tmp_path.glob("update-*"))
        assert kept[-1] == progress.update
        assert all(other % 3 for other in kept[:-1])  # those that were to give way did
        saved += len(ended)
        inside += len(begun) > len(ended)
        update, interim = progress.update, progress.interim
    assert inside
    record(
        f"{count} of {count} kills of a save loop left a whole checkpoint, none lost one that was "
        f"reported as saved ({inside} kills fell inside a save, {saved} saves in all)"
    )


class Form(NamedTuple):
    """A run that is begun again and again: on which text, and with which settings."""

    name: str
    corpus: Path
    settings: dict[str, str]

    def flags(self, out: Path) -> list[str]:
        """Those of `crosshead train`."""
        return train_flags(self.corpus, out, **self.settings)


@pytest.fixture(scope="module", params=["one thread", pytest.param("two", marks=pytest.mark.slow)])
def form(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Form]:
    """In float32 one microbatch at a time, or in bfloat16 two microbatches in parallel."""
    folder = tmp_path_factory.mktemp("corpus")
    if request.param == "one thread":
        write_corpus(folder)
        yield Form("one thread, float32", folder, {})
        return
    with on_all_cores():
        if available_cores() < 2:
            pytest.skip("there is one core")
        write_corpus(folder, pairs=2000)
        settings = {"threads": "2", "batch_tokens": "8192", "precision": "bfloat16"}
        yield Form("two microbatches in parallel, bfloat16", folder, settings)


@pytest.fixture(scope="module")
def unbroken(form: Form) -> dict[str, str]:
    """The files of a run that nothing happened to."""
    out = form.corpus / "unbroken"
    done = program("train", *form.flags(out))
    assert done.returncode == 0, done.stderr
    average = "the average of 3 checkpoints, updates 24 to 30"
    assert average in done.stderr
    assert average in done.stdout or form.settings  # in the first form it is what was kept
    return results(out)


def results(out: Path) -> dict[str, str]:
    """The checksums of what a run found: its weights and tokenizer, its best, its checkpoints'."""
    wanted = ("model.safetensors", "tokenizer.model", "best.safetensors")
    found = tree(out)
    return {
        name: found[name]
        for name in found
        if name.endswith(wanted) or (name.startswith("checkpoints/") and "state" not in name)
    }


def interrupted(command: list[str], update: int, pause: float, number: int) -> tuple[int, float]:
    """Send a signal to a run a moment after that update; its exit code, and how long it took."""
    started = subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE)
    with started as process:
        assert process.stderr
        log = Path(command[command.index("--out") + 1]) / "log.jsonl"
        while not log.is_file() or f'"update": {update},' not in log.read_text():
            assert process.poll() is None
            time.sleep(0.005)
        time.sleep(pause)
        process.send_signal(number)
        sent = time.monotonic()
        process.stderr.read()
        code = process.wait(timeout=60)
    return code, time.monotonic() - sent


def resume(form: Form, out: Path) -> None:
    """Bring a run that was killed to its end, as a user does."""
    goes_on = any((out / "checkpoints").glob("update-*"))
    flags = ["--out", str(out), "--resume"] if goes_on else [*form.flags(out), "--force"]
    done = program("train", *flags)
    assert done.returncode == 0, done.stderr


@counts(quick=1, full=20)
def test_a_killed_run_ends_in_the_same_weights(
    count: int, form: Form, unbroken: dict[str, str], tmp_path: Path, record: Record
) -> None:
    rng = random.Random(SEED)
    updates = []
    for number in range(count):
        out = tmp_path / f"run-{number}"
        updates.append(rng.randint(1, 30))
        command = [*PROGRAM, "train", *form.flags(out)]
        code, _ = interrupted(command, updates[-1], rng.uniform(0, 0.03), signal.SIGKILL)
        assert code == -signal.SIGKILL
        resume(form, out)
        assert results(out) == unbroken
    record(
        f"{form.name}: {count} of {count} runs, killed after updates {sorted(updates)} of 30 and "
        f"resumed, ended in the weights, the best and the checkpoints of the unbroken run (sha256)"
    )


def test_resume_takes_the_newest_that_is_whole_and_says_so(
    form: Form, unbroken: dict[str, str], tmp_path: Path
) -> None:
    out = fresh_copy(form.corpus / "unbroken", tmp_path / "run")
    damaged = out / "checkpoints/update-00000030/weights.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    done = program("train", "--out", out, "--resume")
    assert done.returncode == 0, done.stderr
    (line,) = (line for line in done.stderr.splitlines() if line.startswith(f"{damaged}: "))
    assert line.endswith("passed over")
    assert f"resuming from update 27 in {out}" in done.stderr
    assert results(out) == unbroken


@pytest.mark.slow
def test_three_runs_of_1000_updates_end_in_the_same_weights(
    form: Form, tmp_path: Path, record: Record
) -> None:
    settings = {**form.settings, "max_updates": "1000", "checkpoint_every": "100"}
    found = []
    for number in range(3):
        out = tmp_path / f"run-{number}"
        flags = train_flags(form.corpus, out, **settings, valid_every="500")
        done = program("train", *flags)
        assert done.returncode == 0, done.stderr
        found.append(results(out))
    assert found[0] == found[1] == found[2]
    record(f"{form.name}: 3 of 3 runs of 1,000 updates ended in the same weights (sha256)")


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_stopped_run_ends_in_the_same_weights(
    number: int,
    code: int,
    form: Form,
    unbroken: dict[str, str],
    tmp_path: Path,
    record: Record,
) -> None:
    rng = random.Random(SEED)
    longest = 0.0
    for update in (2, 9, 10, 17, 24):
        out = tmp_path / f"run-{update}"
        command = [*PROGRAM, "train", *form.flags(out)]
        found, seconds = interrupted(command, update, rng.uniform(0, 0.03), number)
        assert found == code
        assert seconds < 10
        assert not (out / "config.json").exists()
        longest = max(longest, seconds)
        resume(form, out)
        assert results(out) == unbroken
    record(
        f"{form.name}: 5 of 5 runs that {signal.Signals(number).name} stopped left a checkpoint "
        f"and ended within {longest:.1f} s; resumed, each ended in the weights of the unbroken run "
        "(sha256)"
    )


@pytest.mark.slow
@pytest.mark.parametrize("update", [30, 10])
def test_a_run_that_is_stopped_while_it_validates_ends_soon(
    update: int, tmp_path: Path, record: Record
) -> None:
    """On the way, and at the end: validation takes long here, and is owed when it goes on."""
    write_corpus(tmp_path)
    out = tmp_path / "out"
    flags = train_flags(tmp_path, out, checkpoint_every="100")
    for side in ("source", "target"):
        valid = tmp_path / f"valid.{side}"
        valid.write_text((tmp_path / f"{side}.txt").read_text() * 100)
        flags += [f"--valid-{side}", str(valid)]
    command = [*PROGRAM, "train", *flags]
    code, seconds = interrupted(command, update, 0.3, signal.SIGTERM)
    assert code == 143
    assert seconds < 10
    kept = [place.name for place in (out / "checkpoints").glob("update-*")]
    assert kept == [f"update-{update:08}"]
    record(f"stopped in a validation after update {update}: ended within {seconds:.1f} s, all kept")
