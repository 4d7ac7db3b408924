"""Several processes are one: the same sentences, the same loss, the same weights."""

import json
import os
import signal
import subprocess
import sys
import time
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from crosshead.errors import ConfigError
from crosshead.training.distributed import ALONE, joined
from crosshead.training.run import train
from tests.training.runs import SMALL, logged, recipe_for

ROOT = Path(__file__).parent.parent.parent
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]

SAME = """
import json, sys
from pathlib import Path
import torch
from crosshead.data.batching import plan_batches, example_lengths
from crosshead.data.synthetic import copy_task
from crosshead.models.transformer import Transformer, TransformerConfig
from crosshead.training.checkpoint import Progress, load_checkpoint, save_checkpoint
from crosshead.training.distributed import ALONE, joined, shard
from crosshead.training.memory import recompute_activations
from crosshead.training.optimizer import Optimizer
from crosshead.training.recipe import TrainConfig
from crosshead.training import updater as module

torch.set_num_threads(1)
pairs, seen = copy_task(120, 20, 12, seed=1), []
collate = module.collate
def spy(examples, rows, start):
    seen[-1].append(rows)
    return collate(examples, rows, start)
module.collate = spy

def trained(world, how, parts, dropout, updates, place):
    torch.manual_seed(0)
    shape = TransformerConfig(
        encoder_layers=1, decoder_layers=2, d_model=16, d_ff=32, heads=2, dropout=dropout
    )
    model = Transformer(shape, 21, 21).double()  # not to be halved
    config = TrainConfig(
        max_updates=99, learning_rate=0.01, batch_tokens=160, clip_norm=1.5, sharded=how == SHARDED
    )
    if config.sharded:
        recompute_activations(model)
        shard(model)
    optimizer, progress = Optimizer(model, config), Progress(parts=parts)
    if place and Path(place).is_dir():
        progress = load_checkpoint(sorted(Path(place).iterdir())[-1], optimizer)
    world.wait()  # all have read before one writes
    world = ALONE if how == "alone" else world
    made = module.Updater(model, optimizer, config, progress, print, world)
    losses = []
    while progress.update < updates:
        plan = plan_batches(example_lengths(pairs), 160, 1, progress.epoch)
        for rows in plan[progress.batch :][: updates - progress.update]:
            seen.append([])
            losses.append(made.take(pairs, rows, 0.01))
            progress.update, progress.batch = progress.update + 1, progress.batch + 1
        if progress.batch == len(plan):
            progress.epoch, progress.batch = progress.epoch + 1, 0
    if place and rank == 0:
        save_checkpoint(Path(place), optimizer, progress, 1)
    elif place:
        optimizer.weights(), optimizer.state()
    weights = {name: w.flatten().tolist() for name, w in optimizer.weights().items()}
    held = sum(
        (w.to_local() if config.sharded else w).numel() for w in optimizer.masters.values()
    )
    return {"losses": losses, "weights": weights, "held": held / optimizer.size()}

SHARDED = "sharded"
with joined() as world:
    rank, answers = world.rank, []
    for run in json.loads(sys.argv[2]):
        answers.append(trained(world, *run))
        world.wait()
    open(f"{sys.argv[1]}.{rank}", "w").write(json.dumps({"runs": answers, "seen": seen}))
"""


class Run(NamedTuple):
    """How some processes train, one for each of all in torchrun unless they are `alone`."""

    how: str
    parts: int
    dropout: float
    updates: int
    checkpoints: str = ""
    """A directory that the run goes on from, if it is there, and leaves a checkpoint in."""


PLAIN, DRAWN = Run("alone", 1, 0.0, 20), Run("alone", 4, 0.3, 6)


def trained(out: Path, processes: int, *runs: Run) -> list[dict[str, Any]]:
    """What each of so many processes says of some runs."""
    script = out.with_suffix(".py")
    script.write_text(SAME)
    start = [sys.executable] if processes == 1 else [*TORCHRUN, str(processes)]
    done = run(*start, str(script), str(out), json.dumps(runs))
    assert done.returncode == 0, done.stderr
    return [json.loads(Path(f"{out}.{rank}").read_text()) for rank in range(processes)]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        arguments, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=240
    )


def assert_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    np.testing.assert_allclose(found["losses"], expected["losses"], rtol=1e-9)
    for name, weights in expected["weights"].items():
        np.testing.assert_allclose(found["weights"][name], weights, rtol=0, atol=1e-9)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What one process does."""
    [found] = trained(tmp_path_factory.mktemp("alone") / "one", 1, PLAIN, DRAWN)
    return found


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each of two processes does: the same replicated, then sharded, then both by turns."""
    place = tmp_path_factory.mktemp("two")
    runs = [
        run._replace(how=how, parts=max(1, run.parts // 2))
        for how in ("replicated", "sharded")
        for run in (PLAIN, DRAWN)
    ]
    ways = [("sharded", 4), ("alone", 8), ("sharded", 11), ("replicated", 15), ("sharded", 20)]
    legs = [Run(how, 1, 0.0, updates, str(place / "kept")) for how, updates in ways]
    return trained(place / "two", 2, *runs, *legs)


def test_two_processes_are_one(alone: dict[str, Any], two: list[dict[str, Any]]) -> None:
    """Loss and weights to 1e-9, with the dropout of the same parts too; all see what one sees."""
    for each in two:
        for found, expected in zip(each["runs"], alone["runs"], strict=False):
            assert_same(found, expected)
    shares = zip(*(each["seen"] for each in two), strict=True)
    shared = [sorted(chain(*first, *second)) for first, second in shares][: len(alone["seen"])]
    assert shared == [sorted(chain(*rows)) for rows in alone["seen"]]
    assert all(len(set(rows)) == len(rows) for rows in shared)


def test_two_processes_that_share_weights_are_one(
    alone: dict[str, Any], two: list[dict[str, Any]]
) -> None:
    """The first has the whole in the end; on the way each holds half of all weights."""
    first, second = (each["runs"][2:4] for each in two)
    for found, other, expected in zip(first, second, alone["runs"], strict=True):
        assert_same(found, expected)
        assert other["losses"] == found["losses"] and other["weights"] == {}
        assert 0.49 < other["held"] < 0.51 and found["held"] + other["held"] == pytest.approx(1)


def test_a_checkpoint_is_the_same_shared_or_not(
    alone: dict[str, Any], two: list[dict[str, Any]]
) -> None:
    """Begun sharded, it goes on alone, sharded, replicated, sharded: as if without a break."""
    legs = two[0]["runs"][4:]
    losses = list(chain.from_iterable(leg["losses"] for leg in legs))
    assert_same({**legs[-1], "losses": losses}, alone["runs"][0])


@pytest.mark.slow
@pytest.mark.parametrize("how", ["replicated", "sharded"])
def test_four_processes_are_one(how: str, alone: dict[str, Any], tmp_path: Path) -> None:
    """Of a small batch some of them may have nothing."""
    runs = [run._replace(how=how, parts=1) for run in (PLAIN, DRAWN)]
    first, *_ = trained(tmp_path / "four", 4, *runs)
    for found, expected in zip(first["runs"], alone["runs"], strict=True):
        assert_same(found, expected)


def test_what_torchrun_did_not_say_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with joined() as world:
        assert world is ALONE
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "two")
    with pytest.raises(ConfigError, match="torchrun"), joined():
        pass


def command(out: Path, text: Path, *settings: str, processes: int = 2) -> list[str]:
    files = ["--source", str(text / "en"), "--target", str(text / "de"), "--out", str(out)]
    given = [part for each in (*SMALL, *settings) for part in ("--set", each)]
    return [*TORCHRUN, str(processes), "-m", "crosshead", "train", *files, *given]


def test_the_command_line_trains_in_two_processes_and_goes_on_in_one(
    text: Path, tmp_path: Path
) -> None:
    settings = ["dropout=0", "average=0"]
    train(recipe_for(text, *settings), tmp_path / "one")
    done = run(*command(tmp_path / "two", text, *settings, "max_updates=9", "sharded=true"))
    assert done.returncode == 0, done.stderr
    assert "2 processes of 1 thread" in done.stderr
    assert done.stdout.count("Translate with") == 1
    alone = recipe_for(text, *settings, "max_updates=13", "sharded=true")  # of no effect
    train(alone, tmp_path / "two", resume=True)
    again = run(*command(tmp_path / "two", text, *settings, "sharded=false"), "--resume")
    assert again.returncode == 0, again.stderr
    one, two = (
        [line["loss"] for line in logged(tmp_path / name) if line["kind"] == "train"]
        for name in ("one", "two")
    )
    assert len(two) == 18 and two == pytest.approx(one, rel=1e-4)


def test_a_signal_to_torchrun_saves_a_checkpoint(text: Path, tmp_path: Path) -> None:
    settings = ["max_updates=100000", "valid_every=0"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command(tmp_path / "run", text, *settings),
        env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, cwd=ROOT,
    ) as process:  # fmt: skip
        assert process.stderr
        for line in process.stderr:
            if "update 20 " in line:
                break
        process.send_signal(signal.SIGTERM)
        said = process.stderr.read()
    assert "go on with: " in said
    [place] = (tmp_path / "run/checkpoints").iterdir()
    assert int(place.name.removeprefix("update-")) >= 20


def test_a_process_that_dies_ends_the_run_and_is_named(text: Path, tmp_path: Path) -> None:
    settings = ["max_updates=100000", "valid_every=0", "checkpoint_every=50"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command(tmp_path / "run", text, *settings),
        env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
        cwd=ROOT,
    ) as process:  # fmt: skip
        assert process.stderr
        for line in process.stderr:
            if "update 20 " in line:
                break
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        [victim] = [
            pid
            for pid in children
            if b"LOCAL_RANK=1\0" in Path(f"/proc/{pid}/environ").read_bytes()
        ]
        began = time.monotonic()
        os.kill(int(victim), signal.SIGKILL)
        said = process.stderr.read()
        assert process.wait() != 0
        assert time.monotonic() - began < 10
    assert f"rank      : 1 (local_rank: 1)\n  exitcode  : -9 (pid: {victim})" in said
