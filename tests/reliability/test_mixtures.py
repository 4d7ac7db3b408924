"""A bundle changes as one: what a kill leaves between two of its files is refused and mended."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from crosshead.bundle.files import verify_bundle
from crosshead.bundle.io import save_bundle
from crosshead.errors import BundleError
from crosshead.tasks.registry import load_bundle, outline_bundle
from tests.reliability.tools import (
    SEALED,
    environment,
    fresh_copy,
    program,
    train_flags,
    write_corpus,
)

Record = Callable[[str], None]

MOVED = ["tokenizer.json", "tokenizer.model", "model.safetensors", "README.md", "config.json"]
"""The files of a bundle in the order in which they take their places."""


def contents(directory: Path) -> list[bytes]:
    return [(directory / name).read_bytes() for name in MOVED]


def refusal(directory: Path) -> str:
    """Why a mixture is refused, however it is read: by the name of the file that does not fit."""
    said = set()
    for read in (load_bundle, outline_bundle):
        with pytest.raises(BundleError) as caught:
            read(directory)
        said.add(str(caught.value))
    [line] = said
    assert line.startswith(f"{directory / 'model.safetensors'}: ") and "\n" not in line
    assert dict(verify_bundle(directory))["model.safetensors"]
    return line


def test_a_bundle_between_two_of_its_files(tmp_path: Path, record: Record) -> None:
    """After every rename that takes the files of one bundle to the place of those of another."""
    run = Path(shutil.copytree(SEALED, tmp_path / "run"))
    later = load_bundle(SEALED)
    with torch.no_grad():
        for parameter in later.model.parameters():
            parameter *= 1.01
    save_bundle(tmp_path / "later", later, "# A later card\n")
    old, new = contents(SEALED), contents(tmp_path / "later")
    (run / "recipe.toml").touch()
    (run / "checkpoints").mkdir()
    refused = 0
    for moved in range(len(MOVED) + 1):
        mixture = new[:moved] + old[moved:]
        for name, data in zip(MOVED, mixture, strict=True):
            (run / name).write_bytes(data)
        if mixture in (old, new):
            load_bundle(run)
            assert all(differs is None for _, differs in verify_bundle(run))
        else:
            command = refusal(run).rpartition("again: ")[2]
            assert shlex.split(command) == ["crosshead", "train", "--resume", "--out", str(run)]
            refused += 1
    assert refused == 2
    record(f"bundles after each of {len(MOVED)} renames: {refused} mixtures, {refused} refusals")


@pytest.mark.slow
def test_what_may_be_deleted_of_a_run_may(tmp_path: Path) -> None:
    write_corpus(tmp_path)
    out = tmp_path / "run"
    assert program("train", *train_flags(tmp_path, out, max_updates="6")).returncode == 0
    said = program("info", out).stdout
    for name in ("log.jsonl", "left-out.tsv", "held-out.tsv", "training.png"):
        assert (name in said) == (out / name).exists()
        (out / name).unlink(missing_ok=True)
    shutil.rmtree(out / "tensorboard", ignore_errors=True)
    resumed = program("train", "--resume", "--out", out, "--set", "max_updates=9")
    assert resumed.returncode == 0, resumed.stderr
    (out / "recipe.toml").unlink()
    shutil.rmtree(out / "checkpoints")
    assert program("translate", out, os.devnull).returncode == 0


KILLED = f"""
import os, signal, sys
from crosshead.system import files
from crosshead.cli import main
move, names, left = files._Unfinished.move, {MOVED[2:]}, [int(sys.argv.pop(1))]
def move_or_die(self):
    if self.path.name in names and left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    left[0] -= self.path.name in names
    move(self)
files._Unfinished.move = move_or_die
main()
"""
"""The command line, killed when so many of the last three files have taken their places."""


@pytest.mark.slow
def test_a_run_that_is_killed_between_two_files_of_its_bundle(
    tmp_path: Path, record: Record
) -> None:
    write_corpus(tmp_path)
    out = tmp_path / "run"
    # With the metric of the last update the weights change when the run goes on.
    done = program("train", *train_flags(tmp_path, out, max_updates="6", average="1"))
    assert done.returncode == 0, done.stderr
    before = fresh_copy(out, tmp_path / "before")
    arguments = ["train", "--resume", "--out", str(out), "--set", "max_updates=30"]
    for moved in range(3):
        fresh_copy(before, out)
        killed = subprocess.run(
            [sys.executable, "-c", KILLED, str(moved), *arguments],
            env=environment(), capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        changed = [a != b for a, b in zip(contents(out), contents(before), strict=True)]
        assert sum(changed) == moved
        if moved == 0:
            load_bundle(out)
        else:
            refused = program("translate", out, os.devnull)
            assert refused.returncode == 2 and refusal(out) in refused.stderr
        mend = shlex.split(f"crosshead train --resume --out {shlex.quote(str(out))}")
        assert moved == 0 or refusal(out).endswith(shlex.join(mend))
        mended = program(*mend[1:])
        assert mended.returncode == 0, mended.stderr
        assert all(differs is None for _, differs in verify_bundle(out))
        assert load_bundle(out)
        assert program("translate", out, os.devnull).returncode == 0
    record("killed after 0, 1 and 2 of the last 3 renames: 2 refusals, 3 bundles written again")
