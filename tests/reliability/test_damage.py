"""Damaged and hostile files are refused, quickly and by name, and never run code."""

import ast
import hashlib
import json
import pickle
import random
import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import safetensors.torch

from crosshead.bundle.base import Bundle
from crosshead.bundle.files import pack, verify_bundle
from crosshead.bundle.weights import build_without_memory, weights_of
from crosshead.config import MOST_LAYERS
from crosshead.errors import UserError
from crosshead.models.convolutional import ConvolutionalConfig
from crosshead.models.registry import CONFIGS, build_model
from crosshead.recipe.toml import read_toml
from crosshead.tasks.registry import load_bundle
from crosshead.training.checkpoint import (
    BEST,
    OPTIMIZER,
    STATE,
    WEIGHTS,
    load_best,
    load_checkpoint,
    load_newest,
    save_best,
)
from crosshead.training.directory import stored_recipe
from tests.reliability.hostile import IRREGULAR, hostile_configurations, hostile_files
from tests.reliability.tools import (
    BUNDLE,
    ROOT,
    SEALED,
    SEED,
    counts,
    save_two,
    small_optimizer,
)
from tests.training.states import state_bytes

Record = Callable[[str], None]


def refusal(load: Callable[[], object], path: Path) -> float:
    """The seconds it took to refuse `path`, in one line that names it.

    Of the processor, and once more where it took long: others may keep this process waiting while
    the tests run, and garbage is collected now and then.
    """
    times: list[float] = []
    while not times or (times[-1] > 0.05 and len(times) < 3):
        began = time.process_time()
        with pytest.raises(UserError) as caught:
            load()
        times.append(time.process_time() - began)
        said = str(caught.value)
        assert str(path) in said and "\n" not in said and len(said) < 1000
    return min(times)


def cut(path: Path, rng: random.Random) -> None:
    path.write_bytes(path.read_bytes()[: rng.randrange(1, path.stat().st_size)])


def flip_a_bit(path: Path, rng: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(bytes(data))


def zero_a_range(path: Path, rng: random.Random) -> None:
    data = bytearray(path.read_bytes())
    first = rng.choice([at for at, byte in enumerate(data) if byte])
    last = min(len(data), first + rng.choice((1, 16, 512, 4096)))
    data[first:last] = bytes(last - first)
    path.write_bytes(bytes(data))


def take_from_the_earlier(path: Path, rng: random.Random) -> None:
    path.write_bytes((path.parent.with_name("update-00000010") / path.name).read_bytes())


def empty(path: Path, rng: random.Random) -> None:
    path.write_bytes(b"")


def remove(path: Path, rng: random.Random) -> None:
    path.unlink()


DAMAGES = [cut, flip_a_bit, zero_a_range, take_from_the_earlier, empty, remove]


@counts(quick=120, full=1000)
def test_a_corrupted_checkpoint(count: int, tmp_path: Path, record: Record) -> None:
    rng = random.Random(SEED)
    save_two(tmp_path / "whole")
    optimizer = small_optimizer()
    directory = tmp_path / "checkpoints"
    slowest = 0.0
    for number in range(count):
        damage = DAMAGES[number % len(DAMAGES)]
        shutil.rmtree(directory, ignore_errors=True)
        shutil.copytree(tmp_path / "whole", directory)
        place = directory / "update-00000020"
        path = place / rng.choice((WEIGHTS, OPTIMIZER, STATE))
        damage(path, rng)
        slowest = max(slowest, refusal(lambda place=place: load_checkpoint(place, optimizer), path))
        progress, lines = load_newest(directory, optimizer)
        assert progress.update == 10
        assert len(lines) == 1 and lines[0].startswith(f"{path}: ")
    assert slowest < 1
    record(
        f"{count} of {count} corrupted checkpoints refused by the file's name, the slowest in "
        f"{1000 * slowest:.1f} ms; each time the one before was loaded"
    )


def sealed(place: Path, name: str, data: bytes) -> None:
    """Put a file into a checkpoint, and the checksums that go with it."""
    (place / name).write_bytes(data)
    state = json.loads((place / STATE).read_bytes())
    sums = {**state["sha256"], name: hashlib.sha256(data).hexdigest()}
    (place / STATE).write_bytes(state_bytes(state["progress"], sums))


@pytest.mark.slow
def test_hostile_safetensors_files(tmp_path: Path, record: Record) -> None:
    """In every place where such a file is read, with checksums that fit."""
    _, place = save_two(tmp_path)
    optimizer = small_optimizer()
    save_best(tmp_path, optimizer.weights())
    bundle = Path(shutil.copytree(BUNDLE, tmp_path / "bundle"))
    cases = {
        place / WEIGHTS: lambda: load_checkpoint(place, optimizer),
        place / OPTIMIZER: lambda: load_checkpoint(place, optimizer),
        tmp_path / BEST: lambda: load_best(tmp_path),
        bundle / "model.safetensors": lambda: load_bundle(bundle),
    }
    refused, slowest = 0, {}
    for path, load in cases.items():
        load()  # once, so that nothing is imported while time is taken
        good = path.read_bytes()
        files = hostile_files(good)
        if path.name == OPTIMIZER:
            del files["no tensors"]  # it is that of a run that has skipped all its updates
        for what, data in files.items():
            if path.parent == place:
                sealed(place, path.name, data)
            else:
                path.write_bytes(data)
            try:
                slowest[path.name, what] = refusal(load, path)
            except BaseException as error:
                raise AssertionError(f"{path.name}, {what}") from error
            refused += 1
        if path.parent == place:
            sealed(place, path.name, good)
        else:
            path.write_bytes(good)
        load()
    assert len(files) >= 100
    worst = max(slowest, key=lambda each: slowest[each])
    assert slowest[worst] < 0.5, worst
    record(
        f"{len(files)} hostile safetensors files in {len(cases)} places: {refused} refusals, the "
        f"slowest in {1000 * slowest[worst]:.0f} ms ({', '.join(worst)})"
    )


def hostile_states(good: str) -> list[str]:
    """Texts in the place of a state.json."""
    state = json.loads(good)
    progress = state["progress"]
    wrong = [
        {**progress, key: value}
        for key in progress
        for value in ("x", None, [[]], {}, float("nan"), -1e400, "9" * 5000)
        if not (key in ("best_score", "best_alone", "origin") and value is None)
        and not (isinstance(progress[key], str) and isinstance(value, str))
        and not (isinstance(progress[key], float) and isinstance(value, float))
    ]  # fmt: skip
    fitting = [state_bytes(each, state["sha256"]).decode() for each in wrong]
    return [
        *fitting,
        "", "null", "[]", "{}", "1", '"state"', "NaN", "[" * 200_000, '{"a":' * 200_000,
        "[" * 200_000 + "]" * 200_000, '{"progress": ' + "9" * 10_000 + "}",
        good.replace('"epoch": 0', '"epoch": 0, "epoch": 0'),
        good + good, good + " ", "\ufeff" + good, good[:-3],
    ]  # fmt: skip


def test_hostile_states(tmp_path: Path, record: Record) -> None:
    _, place = save_two(tmp_path)
    optimizer = small_optimizer()
    texts = hostile_states((place / STATE).read_text())
    slowest = 0.0
    for text in texts:
        (place / STATE).write_text(text, encoding="utf-8")
        slowest = max(slowest, refusal(lambda: load_checkpoint(place, optimizer), place / STATE))
    assert slowest < 0.5
    record(f"{len(texts)} hostile state.json refused, the slowest in {1000 * slowest:.0f} ms")


LOADED = ["config.json", "model.safetensors", "tokenizer.json", "tokenizer.model"]
"""The files of a bundle that loading reads: all but the card, which its owner may edit."""


def same_as(bundle: Bundle) -> tuple[object, ...]:
    """What is equal of bundles that are."""
    tensors = {name: each.numpy().tobytes() for name, each in weights_of(bundle.model).items()}
    return bundle.config, tensors, bundle.source_tokenizer.encode("One two three.")


@counts(quick=12, full=1000)
def test_flipped_bits_of_a_bundle(count: int, tmp_path: Path, record: Record) -> None:
    """In every file, by whatever way the bundle is read, and in the file that it is packed as."""
    rng = random.Random(SEED)
    bundle = Path(shutil.copytree(SEALED, tmp_path / "bundle"))
    packed = pack(bundle, tmp_path / "packed.zip")
    for name in LOADED:
        path = bundle / name
        whole = path.read_bytes()
        for _ in range(count):
            flip_a_bit(path, rng)
            refusal(lambda: load_bundle(bundle), path)
            path.write_bytes(whole)
    whole, expected = packed.read_bytes(), same_as(load_bundle(SEALED))
    unharmed = 0
    for _ in range(count):
        flip_a_bit(packed, rng)
        try:
            found = load_bundle(packed)
        except UserError:
            refusal(lambda: load_bundle(packed), packed)
        else:  # in the card, or in what zip says of dates and the like
            assert same_as(found) == expected
            unharmed += 1
        packed.write_bytes(whole)
    (bundle / "README.md").write_bytes(b"")
    load_bundle(bundle)
    assert [name for name, differs in verify_bundle(bundle) if differs] == ["README.md"]
    record(
        f"{count} bits flipped in each of {len(LOADED)} files of a bundle: {count * len(LOADED)} "
        f"refusals by the file's name; {count} in the packed file: {count - unharmed} refusals, "
        f"{unharmed} loaded as the bundle that was packed"
    )


@counts(quick=200, full=5000)
def test_hostile_configurations(count: int, tmp_path: Path, record: Record) -> None:
    """A sample of them all, or all of them."""
    bundle = Path(shutil.copytree(BUNDLE, tmp_path / "bundle"))
    path = bundle / "config.json"
    shapes = {
        each().architecture: {**each().model_dump(), "task": each.task} for each in CONFIGS.values()
    }
    load_bundle(bundle)
    build_without_memory(
        partial(build_model, ConvolutionalConfig(), 10, 10)
    )  # once, for what it imports
    slowest = (0.0, "")
    cases = list(hostile_configurations(path.read_text(), shapes))
    count = min(count, len(cases))
    for what, text in random.Random(SEED).sample(cases, count):
        path.write_text(text)
        try:
            slowest = max(slowest, (refusal(lambda: load_bundle(bundle), bundle), what))
        except BaseException as error:
            raise AssertionError(what) from error
    assert slowest[0] < 1, slowest
    record(
        f"{count} hostile config.json of {len(shapes)} architectures refused, the slowest in "
        f"{1000 * slowest[0]:.0f} ms ({slowest[1]})"
    )


@pytest.mark.parametrize("key", ["encoder_layers", "decoder_layers"])
def test_layers_that_are_not_there_are_refused_before_they_are_built(
    key: str, tmp_path: Path
) -> None:
    bundle = Path(shutil.copytree(BUNDLE, tmp_path / "bundle"))
    path = bundle / "config.json"
    values = json.loads(path.read_text())
    values["model"][key] = MOST_LAYERS
    path.write_text(json.dumps(values))
    assert refusal(lambda: load_bundle(bundle), bundle / "model.safetensors") < 0.5


def test_what_is_no_file_in_the_place_of_one(tmp_path: Path, record: Record) -> None:
    """In a bundle with checksums, in an older one, in a checkpoint and in a run."""
    save_two(tmp_path / "run")
    (tmp_path / "run" / "recipe.toml").write_text("[train]\nmax_updates = 1\n")
    place = tmp_path / "run" / "update-00000020"
    optimizer = small_optimizer()
    save_best(tmp_path / "run", optimizer.weights())
    cases: dict[Path, Callable[[], object]] = {}
    for stored in (BUNDLE, SEALED):
        bundle = Path(shutil.copytree(stored, tmp_path / stored.name))
        for name in LOADED:
            cases[bundle / name] = lambda bundle=bundle: load_bundle(bundle)
    for name in (WEIGHTS, OPTIMIZER, STATE):
        cases[place / name] = lambda: load_checkpoint(place, optimizer)
    cases[place.parent / BEST] = lambda: load_best(place.parent)
    count = 0
    for path, load in cases.items():
        whole = path.read_bytes()
        load()
        for what, put in IRREGULAR.items():
            path.unlink(missing_ok=True)
            put(path)
            try:
                assert refusal(load, path.parent) < 0.5
            except BaseException as error:
                raise AssertionError(f"{path}, {what}") from error
            if path.is_dir():
                path.rmdir()
            else:
                path.unlink()
            count += 1
        path.write_bytes(whole)
        load()
    record(f"{len(IRREGULAR)} things in the place of {len(cases)} files: {count} refusals")


@counts(quick=40, full=1000)
def test_a_tokenizer_that_was_changed_with_its_checksums(
    count: int, tmp_path: Path, record: Record
) -> None:
    """Whoever changes a file may write fitting checksums; nothing crashes, and nothing hangs."""
    rng = random.Random(SEED)
    bundle = Path(shutil.copytree(BUNDLE, tmp_path / "bundle"))
    model, metadata = bundle / "tokenizer.model", bundle / "tokenizer.json"
    whole, values = model.read_bytes(), json.loads(metadata.read_text())
    refused = loaded = 0
    for _ in range(count):
        flip_a_bit(model, rng)
        digest = hashlib.sha256(model.read_bytes()).hexdigest()
        metadata.write_text(json.dumps({**values, "model_sha256": digest}))
        try:
            tokenizer = load_bundle(bundle).source_tokenizer
        except UserError:
            refusal(lambda: load_bundle(bundle), bundle)
            refused += 1
        else:
            tokenizer.decode(tokenizer.encode("One two three, é."))
            loaded += 1
        model.write_bytes(whole)
    assert refused and loaded
    record(f"{count} tokenizers changed with their checksums: {refused} refused, {loaded} loaded")


@pytest.mark.parametrize(
    "changes",
    [
        {"special": ["\ud800"]}, {"special": ["a"] * 20_000}, {"special": ["a" * 300_000]},
        {"special": [""] * 10**5}, {"kind": "\ud800"}, {"kind": "words"},
        {"kind": "words", "pieces": ["\udfff"]}, {"kind": "characters", "pieces": [1]},
        {"kind": "words", "pieces": [""] * 10**6}, {"sampling": 1e400}, {"sampling": 1},
        {"model_sha256": None}, {"model_sha256": "\ud800"},
    ],
)  # fmt: skip
def test_hostile_metadata_of_a_tokenizer(changes: dict[str, object], tmp_path: Path) -> None:
    bundle = Path(shutil.copytree(BUNDLE, tmp_path / "bundle"))
    path = bundle / "tokenizer.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    assert refusal(lambda: load_bundle(bundle), bundle) < 1


class Payload:
    """What leaves a file behind when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.marker,)


def test_no_pickle_is_run(tmp_path: Path, record: Record) -> None:
    marker = tmp_path / "marker"
    payloads = [pickle.dumps(Payload(marker), protocol) for protocol in range(6)]
    pickle.loads(payloads[0])
    assert marker.exists()  # it works
    marker.unlink()

    directory, run = tmp_path / "checkpoints", tmp_path / "run"
    _, place = save_two(directory)
    optimizer = small_optimizer()
    save_best(directory, optimizer.weights())
    bundle = Path(shutil.copytree(BUNDLE, tmp_path / "bundle"))
    run.mkdir()
    (run / "recipe.toml").write_text("[train]\nmax_updates = 1\n")
    cases = {
        **{
            place / name: lambda: load_checkpoint(place, optimizer)
            for name in (WEIGHTS, OPTIMIZER, STATE)
        },
        directory / BEST: lambda: load_best(directory),
        **{
            bundle / name: lambda: load_bundle(bundle)
            for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer.model")
        },
        run / "recipe.toml": lambda: stored_recipe(run),
        run / "other.toml": lambda: read_toml(run / "other.toml"),
    }  # fmt: skip
    for path, load in cases.items():
        good = path.read_bytes() if path.exists() else b""
        for payload in payloads:
            path.write_bytes(payload)
            refusal(load, path)
            if path.name in (WEIGHTS, OPTIMIZER):  # also with the checksum that goes with it
                sealed(place, path.name, payload)
                refusal(load, path)
        if path.name in (WEIGHTS, OPTIMIZER):
            sealed(place, path.name, good)
        path.write_bytes(good)
    assert not marker.exists()
    record(f"pickles of {len(payloads)} protocols under {len(cases)} file names: none ran")


RUNNING = {"pickle", "_pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal", "joblib"}


def unsafe_calls(source: str) -> list[str]:
    """Where a module could run what it reads: imports and calls of such functions."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [each.name for each in node.names if each.name.partition(".")[0] in RUNNING]
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            found += [module] if module.partition(".")[0] in RUNNING else []
            if module.partition(".")[0] in ("torch", "numpy"):
                found += [each.name for each in node.names if each.name in ("load", "save")]
        elif isinstance(node, ast.Attribute):
            name = ast.unparse(node)
            if name in ("torch.load", "torch.save", "torch.hub", "np.load", "numpy.load"):
                found.append(name)
        elif isinstance(node, ast.Name) and node.id in ("eval", "exec", "compile", "__import__"):
            found.append(node.id)
        elif isinstance(node, ast.keyword) and node.arg in ("allow_pickle", "weights_only"):
            found += (
                [] if ast.unparse(node.value) == f"{node.arg == 'weights_only'}" else [node.arg]
            )
    return found


@pytest.mark.parametrize(
    "source",
    [
        "import pickle", "from pickle import loads", "import torch\ntorch.load('a')",
        "from torch import load", "import numpy as np\nnp.load('a')", "import joblib.memory",
        "read(allow_pickle=True)", "eval('1')",
    ],
)  # fmt: skip
def test_the_static_check_finds(source: str) -> None:
    assert unsafe_calls(source)


def test_nothing_in_the_package_could_run_what_it_reads() -> None:
    """The import of foreign models reads pickles of weights, with PyTorch's reader for them.

    The server and its own processes exchange values by marshal, which runs nothing.
    """
    modules = sorted((ROOT / "crosshead").rglob("*.py"))
    assert len(modules) > 40
    found = {path.relative_to(ROOT).as_posix(): unsafe_calls(path.read_text("utf-8"))
             for path in modules}  # fmt: skip
    reader = "crosshead/addons/interop/imports/reading.py"
    pipes = {"crosshead/addons/serving/reading.py": ["marshal"]}
    calls = {path: calls for path, calls in found.items() if calls}
    assert calls == pipes | {reader: ["torch.load"]}
    loads = [node for node in ast.walk(ast.parse((ROOT / reader).read_text("utf-8")))
             if isinstance(node, ast.Call) and ast.unparse(node.func) == "torch.load"]  # fmt: skip
    assert loads and all("weights_only=True" in ast.unparse(call) for call in loads)


def test_weights_on_the_disk_are_safetensors(tmp_path: Path) -> None:
    _, place = save_two(tmp_path)
    for name in (WEIGHTS, OPTIMIZER):
        assert safetensors.torch.load((place / name).read_bytes())
