"""Several processes are one: the same sentences, the same loss, the same weights."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor

from crosshead.errors import ConfigError, UserError
from crosshead.models.transformer import Transformer, TransformerConfig
from crosshead.system.processor import available_cores
from crosshead.training import distributed
from crosshead.training.directory import stored_recipe
from crosshead.training.distributed import ALONE, World, joined_process_group, shard
from crosshead.training.run import train
from tests import preloaded
from tests.training.runs import SMALL, Remembering, logged, own_text, recipe_for, tree

pytestmark = pytest.mark.usefixtures("all_cores")

ROOT = Path(__file__).parent.parent.parent
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]

SAME = """
import json, sys
from pathlib import Path
import torch
from crosshead.text.batching import Pairs
from crosshead.text.parallel.examples import Examples
from crosshead.text.parallel.word_aligner import WordAligner
from tests.sequences import copy_task
from tests.training.setups import update_of
from crosshead.models.transformer import Transformer, TransformerConfig
from crosshead.training.checkpoint import load_checkpoint, save_checkpoint
from crosshead.training.progress import Progress
from crosshead.training.distributed import ALONE, joined_process_group, shard
from crosshead.training.setup import recompute_activations
from crosshead.training.optimizer import Optimizer
from crosshead.recipe.train import TrainConfig
from crosshead.tasks.registry import TASKS
from crosshead.training import updater as module

torch.set_num_threads(1)
seen = []

class Spied(Pairs):
    def collate(self, rows):
        seen[-1].append(rows)
        return super().collate(rows)

examples = copy_task(120, 20, 12, seed=1)
pairs = Spied(examples)
guided = Spied(examples, aligner=WordAligner(Examples.of(examples), 21))

def trained(world, how, microbatches, dropout, updates, place):
    torch.manual_seed(0)
    shape = TransformerConfig(
        encoder_layers=1, decoder_layers=2, d_model=16, d_ff=32, heads=2, dropout=dropout
    )
    model = Transformer(shape, 21, 21).double()  # not to be halved
    config = TrainConfig(
        max_updates=99, learning_rate=0.01, batch_tokens=160, clip_norm=1.5, weight_decay=0.5,
        sharded=how == SHARDED, ema=0.8, consistency="simcut" if dropout else "none",
        guided_alignment=0.4 if dropout else 0.0, optimizer="muon" if dropout else "adam",
    )
    epoch = guided if dropout else pairs
    if config.sharded:
        if not config.guided_alignment:
            recompute_activations(model)
        shard(model)
    optimizer, progress = Optimizer(model, config), Progress(microbatches=microbatches)
    if place and Path(place).is_dir():
        progress = load_checkpoint(sorted(Path(place).iterdir())[-1], optimizer)
    world.any(False)  # all have read before one writes
    world = ALONE if how == "alone" else world
    made = module.Updater(TASKS["translation"], model, optimizer, config, progress, print, world)
    losses = []
    while progress.update < updates:
        plan = pairs.plan(160, 1, progress.epoch)
        for rows in plan[progress.batch :][: updates - progress.update]:
            seen.append([])
            found = update_of(made, epoch, rows, 0.01)
            losses.append([*found.sums.values(), found.count, found.norm])
            progress.update, progress.batch = progress.update + 1, progress.batch + 1
        if progress.batch == len(plan):
            progress.epoch, progress.batch = progress.epoch + 1, 0
    if place and rank == 0:
        save_checkpoint(Path(place), optimizer, progress, 1)
    elif place:
        optimizer.weights(), optimizer.state()
    several = optimizer.weights(), optimizer.weights_to_validate()
    weights, averages = ({name: w.flatten().tolist() for name, w in e.items()} for e in several)
    held = sum(
        (w.to_local() if config.sharded else w).numel() for w in optimizer.masters.values()
    )
    found = {"losses": losses, "weights": weights, "averages": averages}
    return {**found, "held": held / optimizer.size()}

SHARDED = "sharded"
with joined_process_group() as world:
    rank, answers = world.rank, []
    for run in json.loads(sys.argv[2]):
        answers.append(trained(world, *run))
        world.any(False)
    open(f"{sys.argv[1]}.{rank}", "w").write(json.dumps({"runs": answers, "seen": seen}))
"""


class Run(NamedTuple):
    """How some processes train, together unless each is `alone`."""

    how: str
    microbatches: int
    dropout: float
    updates: int
    checkpoints: str = ""
    """A directory that the run goes on from, if it is there, and leaves a checkpoint in."""


PLAIN, DRAWN = Run("alone", 1, 0.0, 10), Run("alone", 4, 0.3, 4)


def trained(out: Path, processes: int, *runs: Run) -> list[dict[str, Any]]:
    """What each of so many processes says of some runs."""
    script = out.with_suffix(".py")
    script.write_text(SAME)
    arguments = [str(script), str(out), json.dumps(runs)]
    for code, said in ended(together(arguments, out.parent, processes)):
        assert code == 0, said
    return [json.loads(Path(f"{out}.{rank}").read_text()) for rank in range(processes)]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        arguments, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=240
    )


def assert_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    np.testing.assert_allclose(found["losses"], expected["losses"], rtol=1e-9)
    for kind in ("weights", "averages"):
        for name, weights in expected[kind].items():
            np.testing.assert_allclose(found[kind][name], weights, rtol=0, atol=1e-9)
    assert expected["averages"] != expected["weights"]


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
        run._replace(how=how, microbatches=max(1, run.microbatches // 2))
        for how in ("replicated", "sharded")
        for run in (PLAIN, DRAWN)
    ]
    ways = [("sharded", 2), ("alone", 4), ("sharded", 6), ("replicated", 8), ("sharded", 10)]
    legs = [Run(how, 1, 0.0, updates, str(place / "kept")) for how, updates in ways]
    return trained(place / "two", 2, *runs, *legs)


def test_two_processes_are_one(alone: dict[str, Any], two: list[dict[str, Any]]) -> None:
    """Loss and weights to 1e-9, also with dropout; together the processes see what one sees."""
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
    runs = [run._replace(how=how, microbatches=1) for run in (PLAIN, DRAWN)]
    first, *_ = trained(tmp_path / "four", 4, *runs)
    for found, expected in zip(first["runs"], alone["runs"], strict=True):
        assert_same(found, expected)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What a process group is begun with, in the second of two processes; none is."""
    found: dict[str, Any] = {}

    def begin(backend: str, **named: Any) -> None:
        found.update(backend=backend, **named)

    monkeypatch.setattr(dist, "init_process_group", begin)
    for name, value in zip(NAMES, "1212", strict=True):
        monkeypatch.setenv(name, value)
    return found


NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")


@pytest.mark.parametrize(("gpus", "backend"), [(0, "gloo"), (2, "cpu:gloo,cuda:nccl")])
def test_what_is_in_main_memory_is_sent_by_gloo_on_every_machine(
    gpus: int, backend: str, started: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
    with (
        joined_process_group() as world
    ):  # without a GPU it can set no device: the run has not chosen one
        assert world == World(1, 2, 1, 2)
    assert started["backend"] == backend
    assert started["timeout"].total_seconds() >= 24 * 3600


@pytest.mark.parametrize(
    ("name", "world", "found", "words"),
    [
        ("auto", World(5, 8, 1, 4), "cuda:1", ""),
        ("cuda", World(5, 8, 1, 4), "cuda:1", ""),
        ("cuda:2", World(1, 2, 0, 1), "cuda:2", ""),
        ("cpu", World(5, 8, 1, 4), "cpu", ""),
        ("cuda:2", World(5, 8, 1, 4), "", "train.device is cuda:2, one GPU for 4 processes"),
    ],
)
def test_a_process_of_several_has_a_gpu_of_its_own(
    name: str, world: World, found: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    monkeypatch.setattr(distributed, "choose_device", torch.device)
    if words:
        with pytest.raises(ConfigError, match=words) as caught:
            world.device(name)
        assert "\n" not in str(caught.value)
        return
    device = world.device(name)
    assert str(device) == found
    assert chosen == ([device] if device.type == "cuda" else [])


@contextmanager
def group_of_one(tmp_path: Path) -> Iterator[None]:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        yield
    finally:
        dist.destroy_process_group()


def test_a_model_in_main_memory_is_shared_out_there_though_there_is_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape = TransformerConfig(encoder_layers=1, decoder_layers=1, d_model=16, d_ff=16, heads=2)
    model = Transformer(shape, 9, 9)
    with group_of_one(tmp_path):
        monkeypatch.setattr("torch._C._get_accelerator", lambda: torch.device("cuda"))
        shard(model)
    held = list(model.parameters())
    assert all(isinstance(each, DTensor) and each.device_mesh.device_type == "cpu" for each in held)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("[/pytorch/gloo/transport/tcp/pair.cc:547] Connection closed by peer [::1]"),
        dist.DistBackendError("NCCL error in: ...\nLast error: ..."),
        dist.DistNetworkError("failed to recv, got 0 bytes"),
    ],
)
@pytest.mark.usefixtures("started")
def test_a_lost_process_is_one_line_wherever_it_is_noticed(error: Exception) -> None:
    words = "process 1 of the run: another process died"
    with pytest.raises(UserError, match=words) as caught, joined_process_group():
        raise error
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB"),
        RuntimeError("shape '[2]' is invalid for input of size 3"),
    ],
)
@pytest.mark.usefixtures("started")
def test_a_failure_of_its_own_is_not_taken_for_the_loss_of_another(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, joined_process_group():
        raise error
    assert caught.value is error


def test_what_torchrun_did_not_say_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with joined_process_group() as world:
        assert world is ALONE
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "two")
    with pytest.raises(ConfigError, match="torchrun"), joined_process_group():
        pass


def command(out: Path, text: Path, *settings: str) -> list[str]:
    """The words behind `python` or `torchrun`."""
    files = ["--source", str(text / "en"), "--target", str(text / "de"), "--out", str(out)]
    given = [part for each in (*SMALL, *settings) for part in ("--set", each)]
    return ["-m", "crosshead", "train", "--preset", "tiny", *files, *given]


@pytest.mark.slow
def test_the_command_line_trains_in_two_processes_and_goes_on_in_one(
    text: Path, tmp_path: Path
) -> None:
    settings = ["dropout=0", "average=0"]
    train(recipe_for(text, *settings), tmp_path / "one")
    first = command(tmp_path / "two", text, *settings, "max_updates=9", "sharded=true")
    done = run(*TORCHRUN, "2", *first)
    assert done.returncode == 0, done.stderr
    assert "2 processes of 1 thread" in done.stderr
    assert done.stdout.count("Translate with") == 1
    alone = recipe_for(text, *settings, "max_updates=13", "sharded=true")  # of no effect
    display = Remembering()
    train(alone, tmp_path / "two", resume=True, display=display)
    [change] = [line for line in display.lines if "bit-identical" in line]
    assert change.startswith("with 1 thread, where the run had 2 processes of 1 thread: ")
    again = [*command(tmp_path / "two", text, *settings, "sharded=false"), "--resume"]
    for code, said in ended(together(again, tmp_path)):
        assert code == 0, said
    one, two = (
        [line["loss"] for line in logged(tmp_path / name) if line["kind"] == "train"]
        for name in ("one", "two")
    )
    assert len(two) == 18 and two == pytest.approx(one, rel=1e-4)


@pytest.mark.slow
def test_threads_that_were_left_open_are_shared_out_when_more_processes_go_on(
    text: Path, tmp_path: Path
) -> None:
    out, cores = tmp_path / "run", available_cores()
    train(recipe_for(text, "max_updates=1", "threads=0"), out)
    resume = ["--resume", "--out", str(out), "--max-updates", "2"]
    done = run(*TORCHRUN, "2", "-m", "crosshead", "train", *resume)
    assert done.returncode == 0, done.stderr
    assert f"on cpu, 2 processes of {max(1, cores // 2)} thread" in done.stderr
    assert f"thread, where the run had {cores} thread" in done.stderr
    assert stored_recipe(out).train.threads == 0


@pytest.mark.slow
def test_all_processes_end_where_there_is_nothing_to_train(text: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    train(recipe_for(text, "max_updates=1"), out)
    before = tree(out)
    done = run(*TORCHRUN, "2", "-m", "crosshead", "train", "--resume", "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("nothing to train") == 1
    assert done.stdout.count("no update was made") == 1 and "BLEU" not in done.stdout
    assert tree(out) == before


class Process(NamedTuple):
    """One of several, as torchrun would have started it, with what it says to itself."""

    popen: subprocess.Popen[str]
    said: Path


def together(arguments: list[str], folder: Path, count: int = 2) -> list[Process]:
    """Processes that run the same command, or the same script as it sees fit."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    started = []
    for rank in map(str, range(count)):
        place = dict(zip(NAMES, (rank, str(count), rank, str(count)), strict=True))
        environment = {
            **os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
            "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT),
        }  # fmt: skip
        if count > 1:
            environment |= place
        said = folder / f"said.{rank}"
        with said.open("w") as file:
            popen = subprocess.Popen(
                [*preloaded.command(), *arguments], env=environment, cwd=ROOT, stderr=file,
                stdout=subprocess.DEVNULL, text=True,
            )  # fmt: skip
        started.append(Process(popen, said))
    return started


def ended(processes: list[Process]) -> list[tuple[int, str]]:
    """Exit codes, and what was said."""
    try:
        return [(each.popen.wait(120), each.said.read_text()) for each in processes]
    finally:
        for each in processes:
            each.popen.kill()
            each.popen.wait()


@pytest.mark.parametrize(
    ("victim", "sharded"), [pytest.param(1, "false", marks=pytest.mark.slow), (0, "true")]
)
def test_a_process_that_is_killed_ends_the_other_with_one_line(
    victim: int, sharded: str, text: Path, tmp_path: Path
) -> None:
    settings = ["max_updates=100000", "valid_every=0", f"sharded={sharded}"]
    arguments = command(tmp_path / "run", text, *settings)
    processes = together(arguments, tmp_path)
    log = tmp_path / "run/log.jsonl"
    while not log.is_file() or '"update": 20,' not in log.read_text():
        assert processes[0].popen.poll() is None, processes[0].said.read_text()
        time.sleep(0.05)
    processes[victim].popen.kill()
    code, said = ended(processes)[1 - victim]
    assert code == 2 and "Traceback" not in said
    assert f"process {1 - victim} of the run: another process died" in said.splitlines()[-1]


@pytest.mark.slow
def test_of_a_run_that_diverges_the_first_process_alone_speaks(text: Path, tmp_path: Path) -> None:
    settings = ["learning_rate=1e30", "clip_norm=0", "max_updates=60", "valid_every=50"]
    arguments = command(tmp_path / "run", text, *settings)
    (first, said), (second, nothing) = ended(together(arguments, tmp_path))
    assert (first, second) == (2, 2)
    assert said.count("10 updates in a row") == 1
    assert "crosshead: " not in nothing and "Traceback" not in nothing


READING = """
import json, sys
from pathlib import Path
from crosshead.errors import UserError
from crosshead.training import new
from crosshead.recipe.compose import compose
from crosshead.training.run import train
import os
given = json.loads(sys.argv[1])
rank = int(os.environ["RANK"])
if rank and given["other"]:  # what another machine has under the same names
    stored = new.stored_recipe
    def renamed(out):
        recipe = stored(out)
        data = recipe.data.renamed(given["other"])
        return recipe.model_copy(update={"data": data})
    new.stored_recipe = renamed
recipe = compose(flags={"data": given["data"]}, assignments=given["settings"])
try:
    ended = train(recipe, Path(given["out"]), should_stop=lambda: rank == given["stopped"])
    print(ended.interrupted, ended.reason, file=sys.stderr)
except UserError as error:
    print(error, file=sys.stderr)
    sys.exit(2)
"""


def reading(text: Path, folder: Path, **more: Any) -> list[tuple[int, str]]:
    """How two processes end that begin a run, one of them stopped or with another text."""
    data = {"source": str(text / "en"), "target": str(text / "de")}
    given = {"data": data, "settings": [*SMALL, "max_updates=2"], "out": str(folder / "run")}
    given |= {"stopped": None, "other": []} | more
    (folder / "script.py").write_text(READING)
    return ended(together([str(folder / "script.py"), json.dumps(given)], folder))


@pytest.mark.slow
@pytest.mark.parametrize("stopped", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_a_stop_while_one_reads_the_text_ends_all_alike(
    stopped: int, text: Path, tmp_path: Path
) -> None:
    expected = (0, "True it was asked to stop\n")
    assert reading(text, tmp_path, stopped=stopped) == [expected, expected]
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_process_that_reads_another_text_says_so(text: Path, tmp_path: Path) -> None:
    stale = own_text(text, tmp_path)
    lines = (stale / "de").read_text(encoding="utf-8").splitlines()
    (stale / "de").write_text("\n".join([*lines[:5], lines[6], lines[5], *lines[7:]]) + "\n")
    names = [str(stale / "en"), str(stale / "de")]
    (first, _), (second, said) = reading(text, tmp_path, other=names)
    assert (first, second) == (2, 2)
    assert said.startswith("process 1 of the run reads other data")
    assert said.count("\n") == 1 and all(name in said for name in names)


@pytest.mark.slow
def test_a_signal_to_torchrun_saves_a_checkpoint(text: Path, tmp_path: Path) -> None:
    settings = ["max_updates=100000", "valid_every=0"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [*TORCHRUN, "2", *command(tmp_path / "run", text, *settings)],
        env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, cwd=ROOT,
    ) as process:  # fmt: skip
        assert process.stderr
        for line in process.stderr:  # figures come by time, so that update 20 may have none
            if any(int(number) >= 20 for number in re.findall(r"update (\d+) ", line)):
                break
        process.send_signal(signal.SIGTERM)
        said = process.stderr.read()
    assert "resume with: " in said
    newest = max((tmp_path / "run/checkpoints").glob("update-*"))
    assert int(newest.name.removeprefix("update-")) >= 20


@pytest.mark.slow
def test_a_process_that_dies_ends_the_run_and_is_named(text: Path, tmp_path: Path) -> None:
    settings = ["max_updates=100000", "valid_every=0", "checkpoint_every=50"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [*TORCHRUN, "2", *command(tmp_path / "run", text, *settings)],
        env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
        cwd=ROOT,
    ) as process:  # fmt: skip
        assert process.stderr
        for line in process.stderr:  # figures come by time, so that update 20 may have none
            if any(int(number) >= 20 for number in re.findall(r"update (\d+) ", line)):
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
