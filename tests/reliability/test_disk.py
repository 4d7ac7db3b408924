"""A disk that fails in the middle of a save leaves the earlier checkpoint as it was."""

import errno
import os
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from crosshead.errors import UserError
from crosshead.system import files
from crosshead.training.checkpoint import load_newest, save_checkpoint
from crosshead.training.progress import Progress
from tests.reliability.tools import (
    SEED,
    program,
    save_two,
    small_optimizer,
    take_step,
    train_flags,
    tree,
    write_corpus,
)

Record = Callable[[str], None]
PAGE = 4096
WIDTH = 96
"""Of a model whose checkpoint takes more than 20 pages."""


@contextmanager
def small_disk(place: Path, size: int) -> Iterator[Path]:
    """A file system of `size` bytes; the test is skipped where none may be mounted."""
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def remount(disk: Path, mode: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{mode}", str(disk)], check=True)


def fill(disk: Path, pages: int) -> None:
    """Leave so many pages of a disk free."""
    (disk / "ballast").unlink(missing_ok=True)
    free = os.statvfs(disk).f_bavail
    (disk / "ballast").write_bytes(bytes(PAGE * (free - pages)))


def refused_save(directory: Path) -> str:
    """What is said of a third checkpoint, which cannot be saved; the earlier two are unchanged."""
    before = tree(directory)
    optimizer = small_optimizer(WIDTH)
    take_step(optimizer)
    with pytest.raises(UserError) as caught:
        save_checkpoint(directory, optimizer, Progress(30), keep=5)
    assert tree(directory) == before
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_full_disk(tmp_path: Path, record: Record) -> None:
    with small_disk(tmp_path / "disk", 200 * PAGE) as disk:
        _, newest = save_two(disk / "checkpoints", WIDTH)
        pages = sum(-(-path.stat().st_size // PAGE) for path in newest.iterdir())
        refusals = []
        for free in range(pages):
            fill(disk, free)
            said = refused_save(disk / "checkpoints")
            assert "No space left on device" in said
            refusals.append(said)
        (disk / "ballast").unlink()
        assert load_newest(disk / "checkpoints", small_optimizer(WIDTH))[0].update == 20
    assert len(refusals) >= 20
    record(f"a full disk at {len(refusals)} fillings: as many refusals, earlier checkpoints equal")


def test_a_disk_that_may_only_be_read(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 200 * PAGE) as disk:
        save_two(disk / "checkpoints", WIDTH)
        remount(disk, "ro")
        assert "Read-only file system" in refused_save(disk / "checkpoints")


class Failing:
    """The calls with which a save changes the disk; from number `first` on they fail."""

    def __init__(self, first: int, number: int) -> None:
        self.first, self.number, self.calls = first, number, 0

    def wrapped(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            self.calls += 1
            if self.calls >= self.first:
                raise OSError(self.number, os.strerror(self.number))
            return function(*arguments, **named)

        return call

    def install(self, patch: pytest.MonkeyPatch) -> None:
        for name in ("fsync", "replace", "rename", "mkdir"):
            patch.setattr(os, name, self.wrapped(getattr(os, name)))
        patch.setattr(files, "write_all", self.wrapped(files.write_all))


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EROFS], ids=os.strerror)
def test_a_save_that_fails_at_any_of_its_calls(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record: Record
) -> None:
    directory = tmp_path / "checkpoints"
    earlier = save_two(directory)
    before = [tree(place) for place in earlier]
    optimizer = small_optimizer()
    point = 0
    while True:
        point += 1
        failing = Failing(point, number)
        with monkeypatch.context() as patch:
            failing.install(patch)
            said = ""
            try:
                save_checkpoint(directory, optimizer, Progress(30), keep=5)
            except UserError as error:
                said = str(error)
        if failing.calls < point:
            break  # it has fewer calls than that
        assert os.strerror(number) in said and "\n" not in said
        assert [tree(place) for place in earlier] == before
        progress, damaged = load_newest(directory, small_optimizer())
        assert progress.update in (20, 30) and not damaged
        shutil.rmtree(directory / "update-00000030", ignore_errors=True)
    assert point > 12
    record(f"{os.strerror(number)}, from each of the {point - 1} calls of a save on: all refused")


@pytest.mark.slow
def test_a_run_on_a_disk_that_fills_up(tmp_path: Path, record: Record) -> None:
    write_corpus(tmp_path)
    rng = random.Random(SEED)
    times = 20
    with small_disk(tmp_path / "disk", 4 << 20) as disk:
        out = disk / "run"
        assert program("train", *train_flags(tmp_path, out, max_updates="10")).returncode == 0
        before = tree(out / "checkpoints")
        for _ in range(times):
            fill(disk, rng.randint(0, 28))  # a checkpoint takes 30 pages
            done = program("train", "--out", out, "--resume", "--max-updates", 15)
            assert done.returncode == 2, done.stderr
            assert "Traceback" not in done.stderr
            assert "cannot be written: No space left on device" in done.stderr.splitlines()[-1]
            assert tree(out / "checkpoints") == before
        (disk / "ballast").unlink()
        assert program("train", "--out", out, "--resume", "--max-updates", 15).returncode == 0
    record(f"{times} of {times} runs on a full disk ended with code 2 and their checkpoints equal")


@pytest.mark.slow
def test_a_run_on_a_disk_that_may_only_be_read(tmp_path: Path, record: Record) -> None:
    write_corpus(tmp_path)
    with small_disk(tmp_path / "disk", 4 << 20) as disk:
        out = disk / "run"
        assert program("train", *train_flags(tmp_path, out, max_updates="10")).returncode == 0
        before = tree(out)
        remount(disk, "ro")
        done = program("train", "--out", out, "--resume", "--max-updates", 15)
        assert done.returncode == 2
        assert "Traceback" not in done.stderr
        assert "cannot be written: Read-only file system" in done.stderr.splitlines()[-1]
        assert tree(out) == before
    record("a run on a disk that may only be read ended with code 2, and its files are equal")
