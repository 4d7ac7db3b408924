"""Kills in front of every system call of a run: whatever is left, a named command goes on."""

import os
import random
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from crosshead.recipe.recipe import Recipe
from crosshead.system.plotting import new_figure, rendered
from crosshead.training.directory import earlier_run_path
from crosshead.training.log import RunLog
from crosshead.training.run import train
from tests.parameters import mostly_slow
from tests.recipe.composing import resumed_recipe
from tests.reliability.syscalls import can_tell, killed
from tests.reliability.tools import SEED, said, small_optimizer, write_corpus
from tests.training.runs import digest, recipe_for

Record = Callable[[str], None]

SETTINGS = [
    "max_updates=3", "valid_every=2", "checkpoint_every=1", "keep_last=2", "average=2",
    "train.batch_tokens=400", "data.max_length=40", "decode.beam=1", "max_extra=1",
    "data.valid_size=2",
]  # fmt: skip
TOKENIZERS = {
    "words": ["tokenizer.kind=words"],
    "bpe": ["tokenizer.kind=bpe", "tokenizer.vocab_size=290"],
}

PLAIN, RESUME, FORCE = "the same command again", "--resume", "--force"


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text of 60 pairs; what runs import later is imported, so that each process need not."""
    folder = tmp_path_factory.mktemp("text")
    write_corpus(folder, pairs=60)
    for side, name in (("source", "en"), ("target", "de")):
        (folder / f"{side}.txt").rename(folder / name)
    rendered(new_figure())
    small_optimizer()
    RunLog(folder).close()
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory, where the system has one: disks take long to synchronise."""
    memory = Path("/dev/shm")
    place = Path(tempfile.mkdtemp(dir=memory if os.access(memory, os.W_OK) else tmp_path))
    yield place
    shutil.rmtree(place)


@pytest.fixture(autouse=True)
def _telling() -> None:
    if not can_tell():
        pytest.skip("this system does not tell a process of another's system calls")


def begun(recipe: Recipe, out: Path, way: str) -> Callable[[], object]:
    """What a command does; to resume a run it reads the recipe in its directory."""

    def command() -> None:
        given = resumed_recipe(out, None, {}, []) if way == RESUME else recipe
        train(given, out, resume=way == RESUME, force=way == FORCE)

    return command


def named(message: str) -> set[str]:
    """The commands that a refusal names."""
    found = {way for way in (RESUME, FORCE) if way in message.replace(f"without {RESUME}", "")}
    return found | ({PLAIN} if f"without {RESUME}" in message else set())


def signature(folder: Path) -> str:
    """What stands below a folder, but for what differs each time: times, and numbers of processes.

    A file is there as a whole or under the name of an unfinished one, so names tell all but which
    run it is and how long its log is.
    """
    names = [f"{path.relative_to(folder)}{'/' * path.is_dir()}" for path in folder.rglob("*")]
    lines = [path.read_bytes().count(b"\n") for path in sorted(folder.rglob("log.jsonl"))]
    recipes = [digest(path) for path in sorted(folder.rglob("recipe.toml"))]
    return re.sub(r"\.\d+\.crosshead|tfevents\S+", ".tmp", f"{sorted(names)} {lines} {recipes}")


def copied(folder: Path, place: Path) -> Path:
    shutil.rmtree(place, ignore_errors=True)
    return Path(shutil.copytree(folder, place, symlinks=True))


def check_left(recipe: Recipe, left: Path, place: Path, weights: set[str]) -> str:
    """See what was left accepted, and brought to the end of an unbroken run, as `weights` tell.

    Each command is tried on a copy. One that is refused has to name others, each of which works.

    Returns:
        The first command that works.
    """
    works: dict[str, bool] = {}

    def does_work(way: str) -> bool:
        if way not in works:
            out = copied(left, place) / "run"
            message = said(begun(recipe, out, way))
            works[way] = not message
            if not message:
                assert digest(out / "model.safetensors") in weights, way
                assert not list(place.rglob("*.crosshead*")), way
                assert not earlier_run_path(out).exists(), way
            else:
                assert "\n" not in message and not message.startswith("traceback"), message
                ways = named(message)
                assert ways and way not in ways, message
                assert all(does_work(other) for other in ways), message
        return works[way]

    for way in (PLAIN, RESUME):
        does_work(way)
    return next(way for way, answer in works.items() if answer)


PHASES = ["fresh", "fresh with bpe", "forced", "resumed"]


def prepared(phase: str, text: Path, folder: Path) -> tuple[Recipe, Callable[[Path], object]]:
    """The recipe of a phase, and its command; what it begins with stands in `folder`."""
    kind = "bpe" if phase.endswith("bpe") else "words"
    recipe = recipe_for(text, *SETTINGS, *TOKENIZERS[kind])
    folder.mkdir()
    if phase == "forced":
        earlier = recipe_for(text, *SETTINGS, *TOKENIZERS[kind], "train.seed=2")
        assert not said(begun(earlier, folder / "run", PLAIN))
    if phase == "resumed":
        out = folder / "run"
        first = out / "checkpoints/update-00000001"
        assert not said(lambda: train(recipe, out, should_stop=first.is_dir))
    way = {"forced": FORCE, "resumed": RESUME}.get(phase, PLAIN)
    return recipe, lambda place: begun(recipe, place / "run", way)()


@pytest.mark.parametrize("phase", mostly_slow(PHASES, ["resumed"]))
@pytest.mark.parametrize("count", mostly_slow([1, None], [1]))
def test_whatever_a_kill_leaves_one_named_command_goes_on(
    count: int | None, phase: str, text: Path, folder: Path, record: Record
) -> None:
    before, work, place = (folder / name for name in ("before", "work", "copy"))
    recipe, command = prepared(phase, text, before)
    copied(before, work)
    calls = killed(lambda: command(work), None)
    ended = [place / "run/model.safetensors" for place in (before, work)]
    weights = {digest(path) for path in ended if path.exists()}
    rng = random.Random(SEED)
    points = list(range(len(calls)))
    accepted: Counter[str] = Counter()
    answers: dict[str, str] = {}
    for point in points if count is None else sorted(rng.sample(points, count)):
        copied(before, work)
        made = killed(lambda: command(work), point)
        assert len(made) == point
        state = signature(work)
        if state not in answers:
            answers[state] = check_left(recipe, work, place, weights)
        accepted[answers[state]] += 1
    simply = accepted[PLAIN]
    kinds = Counter(calls)
    record(
        f"{phase}: killed in front of {accepted.total()} of {len(calls)} calls "
        f"({', '.join(f'{number} {name}' for name, number in kinds.most_common())}), which left "
        f"{len(answers)} different directories: all went on, "
        f"{simply} of them by {PLAIN}, and ended in the weights of the unbroken run"
    )
