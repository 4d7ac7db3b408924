import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import Tensor, nn

from crosshead.errors import BundleError, UserError
from crosshead.recipe.train import TrainConfig
from crosshead.system import files
from crosshead.training.checkpoint import (
    BEST,
    OPTIMIZER,
    STATE,
    WEIGHTS,
    DamagedCheckpoint,
    average_weights,
    list_checkpoints,
    load_best,
    load_checkpoint,
    load_newest,
    load_validated,
    load_weights,
    save_best,
    save_checkpoint,
)
from crosshead.training.optimizer import Optimizer
from crosshead.training.progress import Progress
from tests import preloaded

CONFIG = TrainConfig(max_updates=1, learning_rate=0.1)


def new_optimizer(
    seed: int = 0, width: int = 5, dtype: torch.dtype = torch.float32, ema: float = 0.0
) -> Optimizer:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(4, width), nn.Linear(width, 3)).to(dtype)
    return Optimizer(model, CONFIG.model_copy(update={"ema": ema}))


def take_steps(optimizer: Optimizer, count: int) -> None:
    """With gradients that are a function of where the optimiser stands."""
    for _ in range(count):
        taken = [int(value) for name, value in optimizer.state().items() if name.endswith(".step")]
        generator = torch.Generator().manual_seed(max(taken, default=0))
        for parameter in optimizer.parameters.values():
            drawn = torch.randn(parameter.shape, generator=generator)
            parameter.grad = drawn.to(parameter.dtype)
        optimizer.step(0.01)


def copies(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in tensors.items()}


def assert_equal(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert torch.equal(found[name], tensor), name


def contents(directory: Path) -> dict[str, bytes]:
    paths = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in paths}


@pytest.mark.parametrize("ema", [0.0, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_all_comes_back_to_the_bit(tmp_path: Path, dtype: torch.dtype, ema: float) -> None:
    optimizer = new_optimizer(dtype=dtype, ema=ema)
    take_steps(optimizer, 3)
    progress = Progress(
        update=3, epoch=1, batch=2, batches=7, seconds=1.25, predictions=300, skipped=1,
        best_update=2, best_score=[-0.1, 3.5], since_best=1, validated=3, log_bytes=999,
        commands=["crosshead train --out höhe"], names=["a", "b"],
    )  # fmt: skip
    place = save_checkpoint(tmp_path, optimizer, progress, keep=5)
    weights, state = copies(optimizer.weights()), copies(optimizer.state())
    take_steps(optimizer, 2)
    later = [copies(optimizer.weights()), copies(optimizer.weights_to_validate())]

    again = new_optimizer(seed=9, dtype=dtype, ema=ema)
    assert load_checkpoint(place, again) == progress
    assert_equal(again.weights(), weights)
    assert_equal(again.state(), state)
    take_steps(again, 2)
    assert_equal(again.weights(), later[0])
    assert_equal(again.weights_to_validate(), later[1])


@pytest.mark.parametrize("ema", [0.0, 0.9])
def test_the_weights_that_validation_saw_come_back(tmp_path: Path, ema: float) -> None:
    optimizer = new_optimizer(ema=ema)
    take_steps(optimizer, 3)
    place = save_checkpoint(tmp_path, optimizer, Progress(3), keep=5)
    assert_equal(load_weights(place), optimizer.weights())
    assert_equal(load_validated(place), optimizer.weights_to_validate())


@pytest.mark.parametrize(("saved", "recipe"), [(0.0, 0.9), (0.9, 0.0)])
def test_a_moving_average_of_another_recipe_is_refused(
    tmp_path: Path, saved: float, recipe: float
) -> None:
    optimizer = new_optimizer(ema=saved)
    take_steps(optimizer, 1)
    place = save_checkpoint(tmp_path, optimizer, Progress(1), keep=1)
    with pytest.raises(DamagedCheckpoint, match="not those that the optimiser keeps"):
        load_checkpoint(place, new_optimizer(ema=recipe))


def test_no_file_of_a_checkpoint_is_a_pickle(tmp_path: Path) -> None:
    optimizer = new_optimizer()
    take_steps(optimizer, 1)
    place = save_checkpoint(tmp_path, optimizer, Progress(1), keep=1)
    assert {path.name for path in place.iterdir()} == {WEIGHTS, OPTIMIZER, STATE}
    for name in (WEIGHTS, OPTIMIZER):
        raw = (place / name).read_bytes()
        json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])  # safetensors' header
    json.loads((place / STATE).read_bytes())


def test_the_newest_are_kept(tmp_path: Path) -> None:
    optimizer = new_optimizer()
    for update in (9, 10, 99, 100, 100_000_000):
        save_checkpoint(tmp_path, optimizer, Progress(update), keep=3)
    kept = [load_checkpoint(place, optimizer).update for place in list_checkpoints(tmp_path)]
    assert kept == [99, 100, 100_000_000]
    assert len(list(tmp_path.iterdir())) == 3


def test_an_interim_checkpoint_gives_way_to_the_next(tmp_path: Path) -> None:
    optimizer = new_optimizer()
    for update, replaced in ((4, 0), (8, 0), (9, 0), (12, 9)):
        save_checkpoint(tmp_path, optimizer, Progress(update), keep=2, replaced=replaced)
    assert [place.name for place in list_checkpoints(tmp_path)] == [
        "update-00000008",
        "update-00000012",
    ]


def test_the_same_update_is_written_again(tmp_path: Path) -> None:
    optimizer = new_optimizer()
    save_checkpoint(tmp_path, optimizer, Progress(4), keep=2)
    place = save_checkpoint(tmp_path, optimizer, Progress(4, epoch=1), keep=2, replaced=4)
    assert list_checkpoints(tmp_path) == [place]
    assert load_checkpoint(place, optimizer).epoch == 1


def test_the_state_is_written_for_people_to_read(tmp_path: Path) -> None:
    """A value a line; a state in another form is refused, so this form has to stay."""
    text = (save_checkpoint(tmp_path, new_optimizer(), Progress(1), keep=1) / STATE).read_text()
    assert text == json.dumps(json.loads(text), indent=2) + "\n"


@pytest.mark.parametrize("value", ["1", True, 1.5, None])
def test_a_state_with_a_value_of_another_type_is_refused(value: object, tmp_path: Path) -> None:
    """Even if its checksum is right: it was written by something else."""
    optimizer = new_optimizer()
    place = save_checkpoint(tmp_path, optimizer, Progress(4, epoch=value), keep=2)
    with pytest.raises(DamagedCheckpoint, match="is not the state of a run"):
        load_checkpoint(place, optimizer)


def _remove(path: Path) -> None:
    path.unlink()


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _flip(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[0 if path.name == STATE else -1] ^= 1
    path.write_bytes(bytes(raw))


@pytest.mark.parametrize("damage", [_remove, _truncate, _empty, _flip])
@pytest.mark.parametrize("name", [WEIGHTS, OPTIMIZER, STATE])
def test_damage_is_refused_by_the_files_name(
    tmp_path: Path, name: str, damage: Callable[[Path], None]
) -> None:
    optimizer = new_optimizer()
    take_steps(optimizer, 1)
    place = save_checkpoint(tmp_path, optimizer, Progress(1), keep=1)
    damage(place / name)
    other = new_optimizer(seed=1)
    before = copies(other.weights())
    with pytest.raises(BundleError) as caught:
        load_checkpoint(place, other)
    assert str(place / name) in str(caught.value) and "\n" not in str(caught.value)
    assert_equal(other.weights(), before)


@pytest.mark.parametrize("state", ["[]", "{}", '{"progress": 3}', '{"progress": {"steps": 3}}'])
def test_a_state_that_is_none_is_refused(tmp_path: Path, state: str) -> None:
    place = save_checkpoint(tmp_path, new_optimizer(), Progress(1), keep=1)
    (place / STATE).write_text(state)
    with pytest.raises(BundleError, match=STATE):
        load_checkpoint(place, new_optimizer())


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    place = save_checkpoint(tmp_path, new_optimizer(), Progress(1), keep=1)
    with pytest.raises(BundleError, match=r"0\.weight has shape \(5, 4\).*\(6, 4\)"):
        load_checkpoint(place, new_optimizer(width=6))
    other = Optimizer(nn.Linear(4, 3), CONFIG)
    with pytest.raises(BundleError, match="do not fit the recipe's model"):
        load_checkpoint(place, other)


@pytest.mark.parametrize("change", ["one missing", "one more"])
def test_moments_that_are_not_of_adam_are_refused(
    tmp_path: Path, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if their checksum is right: they were written by something else."""
    optimizer = new_optimizer()
    take_steps(optimizer, 1)
    state = optimizer.state()
    if change == "one missing":
        del state["0.weight.exp_avg"]
    else:
        state["0.weight.momentum"] = state["0.weight.exp_avg"].clone()
    monkeypatch.setattr(optimizer, "state", lambda: state)
    place = save_checkpoint(tmp_path, optimizer, Progress(1), keep=1)
    with pytest.raises(DamagedCheckpoint, match="not those that the optimiser keeps"):
        load_checkpoint(place, new_optimizer())


def _three(directory: Path) -> list[Path]:
    """Checkpoints of updates 1, 2 and 3."""
    optimizer = new_optimizer()
    places = []
    for update in (1, 2, 3):
        take_steps(optimizer, 1)
        places.append(save_checkpoint(directory, optimizer, Progress(update), keep=5))
    return places


def test_the_newest_that_is_whole_is_loaded_and_what_is_passed_over_is_said(tmp_path: Path) -> None:
    first, second, third = _three(tmp_path)
    (second / STATE).unlink()
    _flip(third / OPTIMIZER)
    expected, found = new_optimizer(seed=3), new_optimizer(seed=4)
    load_checkpoint(first, expected)
    progress, lines = load_newest(tmp_path, found)
    assert progress.update == 1
    assert_equal(found.weights(), expected.weights())
    assert_equal(found.state(), expected.state())
    assert [line.split(": ")[0] for line in lines] == [str(third / OPTIMIZER), str(second / STATE)]
    assert list_checkpoints(tmp_path) == [first]

    # Where the damaged ones stood they would have pushed the good ones out.
    place = save_checkpoint(tmp_path, found, Progress(2), keep=1)
    assert list(tmp_path.iterdir()) == [place]
    assert load_newest(tmp_path, found) == (Progress(2), [])


def test_a_damaged_checkpoint_that_is_copied_back_is_set_aside_again(tmp_path: Path) -> None:
    directory, copy = tmp_path / "checkpoints", tmp_path / "copy"
    third = _three(directory)[-1]
    _truncate(third / WEIGHTS)
    shutil.copytree(third, copy)
    for _ in range(2):
        progress, [line] = load_newest(directory, new_optimizer())
        assert progress.update == 2 and line.startswith(f"{third / WEIGHTS}: ")
        assert not third.exists()
        shutil.copytree(copy, third)


def test_where_none_is_whole_the_newest_is_named_and_all_stay(tmp_path: Path) -> None:
    places = _three(tmp_path)
    for place in places:
        _truncate(place / WEIGHTS)
    before = contents(tmp_path)
    with pytest.raises(BundleError, match="no earlier checkpoint is whole") as caught:
        load_newest(tmp_path, new_optimizer())
    assert str(caught.value).startswith(f"{places[-1] / WEIGHTS}: ")
    assert contents(tmp_path) == before
    with pytest.raises(BundleError, match="no checkpoint"):
        load_newest(tmp_path / "absent", new_optimizer())


def test_a_checkpoint_of_another_model_is_not_passed_over(tmp_path: Path) -> None:
    _three(tmp_path)
    with pytest.raises(BundleError, match="has shape"):
        load_newest(tmp_path, new_optimizer(width=6))
    assert len(list_checkpoints(tmp_path)) == 3


def test_what_was_to_be_replaced_goes_after_a_kill(tmp_path: Path) -> None:
    """Between the rename of a checkpoint and the removal of the one that it replaces."""
    optimizer = new_optimizer()
    for update, interim in ((2, 0), (3, 0), (4, 0), (6, 6), (8, 0)):
        save_checkpoint(tmp_path, optimizer, Progress(update, interim=interim), keep=5)
    assert load_newest(tmp_path, optimizer)[0].update == 8
    assert [place.name[-1] for place in list_checkpoints(tmp_path)] == ["2", "3", "4", "8"]


def test_what_a_kill_left_unfinished_goes_with_the_next(tmp_path: Path) -> None:
    optimizer = new_optimizer()
    left = tmp_path / ".update-00000007.9.crosshead"
    left.mkdir()
    (left / WEIGHTS).write_bytes(b"half")
    place = save_checkpoint(tmp_path, optimizer, Progress(1), keep=1)
    assert list(tmp_path.iterdir()) == [place]


def test_every_digit_of_the_state_is_covered_by_its_checksum(tmp_path: Path) -> None:
    place = save_checkpoint(tmp_path, new_optimizer(), Progress(1, commands=["a"]), keep=1)
    whole = (place / STATE).read_bytes()
    for at in range(len(whole)):
        changed = bytearray(whole)
        changed[at] ^= 1 << at % 8
        (place / STATE).write_bytes(bytes(changed))
        with pytest.raises(BundleError, match=r"state\.json: (its checksum|is not the state)"):
            load_weights(place)


def test_a_checkpoint_under_another_name_is_refused(tmp_path: Path) -> None:
    place = save_checkpoint(tmp_path, new_optimizer(), Progress(1), keep=1)
    moved = place.rename(place.with_name("update-00000002"))
    with pytest.raises(BundleError, match="of another checkpoint"):
        load_checkpoint(moved, new_optimizer())


@pytest.mark.parametrize("failing", [1, 2, 3])
def test_a_failed_write_leaves_nothing_behind(
    tmp_path: Path, failing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    optimizer = new_optimizer()
    save_checkpoint(tmp_path, optimizer, Progress(1), keep=1)
    before = contents(tmp_path)
    calls = 0

    def fsync(descriptor: int) -> None:
        nonlocal calls
        calls += 1
        if calls >= 2 * failing - 1:  # a file, then its directory
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", fsync)
    with pytest.raises(UserError, match="No space left on device"):
        save_checkpoint(tmp_path, optimizer, Progress(2), keep=1)
    assert contents(tmp_path) == before
    assert len(list(tmp_path.iterdir())) == 1


def test_a_full_disk_leaves_the_earlier_checkpoint_whole(tmp_path: Path) -> None:
    """The system itself refuses to write more than 2,000 bytes into a file."""
    script = f"""
import resource, torch
from pathlib import Path
from torch import nn
from crosshead.errors import UserError
from crosshead.training.checkpoint import *
from crosshead.training.optimizer import Optimizer
from tests import preloaded
from crosshead.recipe.train import TrainConfig
optimizer = Optimizer(nn.Linear(100, 100), TrainConfig(max_updates=1, learning_rate=0.1))
directory = Path({str(tmp_path)!r})
save_checkpoint(directory, optimizer, Progress(1), keep=1)
save_best(directory, optimizer.weights())
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
for save in (
    lambda: save_checkpoint(directory, optimizer, Progress(2), keep=1),
    lambda: save_best(directory, optimizer.weights()),
):
    try:
        save()
    except UserError as error:
        print("refused:", error)
print([place.name for place in list_checkpoints(directory)])
load_checkpoint(list_checkpoints(directory)[0], optimizer)
load_best(directory)
"""
    done = subprocess.run([*preloaded.command(), "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.startswith("refused:") for line in lines] == [True, True, False]
    assert lines[2] == "['update-00000001']"
    assert {path.name for path in tmp_path.iterdir()} == {"update-00000001", BEST}


def test_the_best_weights_are_kept_beside(tmp_path: Path) -> None:
    directory = tmp_path / "checkpoints"
    first, second = new_optimizer(1), new_optimizer(2)
    save_best(directory, first.weights())
    save_best(directory, second.weights())
    assert_equal(load_best(directory), second.weights())
    assert list_checkpoints(directory) == []
    whole = (directory / BEST).read_bytes()
    for at in range(0, len(whole), 7):
        changed = bytearray(whole)
        changed[at] ^= 4
        (directory / BEST).write_bytes(bytes(changed))
        with pytest.raises(BundleError, match=BEST):
            load_best(directory)
    (directory / BEST).write_bytes(b"no tensors")
    with pytest.raises(BundleError, match=BEST):
        load_best(directory)
    (directory / BEST).unlink()
    with pytest.raises(BundleError, match=BEST):
        load_best(directory)


def test_the_best_weights_of_an_older_run_are_read(tmp_path: Path) -> None:
    weights = {"b": torch.ones(2, 3), "a": torch.zeros(2)}
    digest = hashlib.sha256()
    for name, tensor in sorted(weights.items()):
        digest.update(json.dumps([name, "torch.float32", list(tensor.shape)]).encode())
        digest.update(tensor.numpy().tobytes())
    header = {"sha256": digest.hexdigest()}
    (tmp_path / BEST).write_bytes(safetensors.torch.save(weights, header))
    assert_equal(load_best(tmp_path), weights)
    weights["a"][0] = 1
    (tmp_path / BEST).write_bytes(safetensors.torch.save(weights, header))
    with pytest.raises(BundleError, match="its checksum differs"):
        load_best(tmp_path)


def test_the_weights_of_a_checkpoint_are_float32(tmp_path: Path) -> None:
    optimizer = new_optimizer(dtype=torch.bfloat16)
    take_steps(optimizer, 1)
    place = save_checkpoint(tmp_path, optimizer, Progress(1), keep=1)
    assert_equal(load_weights(place), optimizer.weights())
    assert {weight.dtype for weight in load_weights(place).values()} == {torch.float32}


def test_an_average_is_the_mean() -> None:
    several = [{"a": torch.tensor([x, 2 * x]), "b": torch.tensor(-x)} for x in (1.0, 2.0, 6.0)]
    assert_equal(average_weights(several), {"a": torch.tensor([3.0, 6.0]), "b": torch.tensor(-3.0)})
    # In float32 the ones would be lost beside 2^25.
    large = [{"a": torch.tensor(x)} for x in (2.0**25, 1.0, 1.0, -(2.0**25))]
    assert_equal(average_weights(large), {"a": torch.tensor(0.5)})


SERIALIZED = """
import resource, sys, torch
from pathlib import Path
from crosshead.training.checkpoint import save_best
weights = {"w": torch.zeros(25_000_000)}
[size] = [line for line in open("/proc/self/status") if line.startswith("VmSize")]
limit = 1024 * int(size.split()[1]) + int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    save_best(Path("out"), weights)
except MemoryError:
    print("not enough")
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="address space is Linux's limit")
def test_memory_that_ends_in_a_save_is_an_error_and_aborts_nothing(tmp_path: Path) -> None:
    for room, said in ((150_000_000, "not enough\n"), (600_000_000, "")):
        command = [*preloaded.command(), "-c", SERIALIZED, str(room)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (0, said), done.stderr
        assert (tmp_path / "out" / "best.safetensors").exists() == (not said)
