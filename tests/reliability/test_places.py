"""Kills in front of every system call of commands that write: the old or the new is there."""

import contextlib
import importlib
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from crosshead import cli
from crosshead.addons.experiments import synthetic
from crosshead.system import files
from tests.addons.interop.imports.gpt2_directories import write_gpt2
from tests.parameters import mostly_slow
from tests.reliability.syscalls import can_tell, killed
from tests.reliability.tools import SEALED, SEED, fresh_copy, tree, write_corpus

Record = Callable[[str], None]


class Command(NamedTuple):
    """A command, in a folder; `{in}` stands for the folder of what it reads."""

    words: str
    before: str = ""
    """A command that has written to the folder earlier, or nothing."""
    is_whole: bool = False
    """True if all that it writes takes its place at once."""
    refuses: str = ""
    """What the command says once its output is there; an empty text if it replaces it."""
    exchanges: bool = True
    """False to do as on a file system that cannot exchange two names."""


DISTILL = "distill {in}/bundle --source {in}/source.txt --out set --beam 1"
CHECK = "data check --source {in}/source.txt --target {in}/target.txt --out checked"
CTRANSLATE2 = "export {in}/bundle --to ctranslate2 --out exported --no-verify"
ARGOS = "export {in}/bundle --to argos --out x.argosmodel --no-verify"
COMMANDS = {
    "import": Command("import {in}/gpt2 --out new/gpt2", "", True, "already exists"),
    "import into a directory": Command(
        "import {in}/gpt2 --out out", "mkdir", refuses="already exists"
    ),
    "average": Command("average {in}/bundle {in}/bundle --out mean", "", True, "already exists"),
    "average into a directory": Command(
        "average {in}/bundle {in}/bundle --out out", "mkdir", refuses="already exists"
    ),
    "pack": Command("pack {in}/bundle --out x.crosshead.zip", "", True),
    "export": Command(CTRANSLATE2, "", True, "exists already"),
    "export --force": Command(f"{CTRANSLATE2} --type int8 --force", CTRANSLATE2, True),
    "export --force without exchange": Command(
        f"{CTRANSLATE2} --type int8 --force", CTRANSLATE2, True, exchanges=False
    ),
    "export of a file": Command(ARGOS, "", refuses="exists already"),
    "export of a file --force": Command(f"{ARGOS} --type int8 --force", ARGOS),
    "distill": Command(DISTILL),
    "backtranslate": Command("backtranslate {in}/bundle {in}/source.txt --out set --beam 1"),
    "data check --apply": Command(f"{CHECK} --apply", CHECK, refuses="there is such a file"),
    "data check --apply --force": Command(
        f"{CHECK} --skip duplicate,near-duplicate --apply --force", f"{CHECK} --apply"
    ),
}

LIKE_ANOTHER = (
    "average", "average into a directory", "export", "export of a file", "backtranslate",
    "data check --apply",
)  # fmt: skip
"""Commands that put their output in its place in the way of another one."""


IMPORTED = (
    "crosshead.cli.program", "crosshead.addons.interop.export",
    "crosshead.addons.interop.imports.writing", "crosshead.training.average",
    "crosshead.addons.checks.files", "crosshead.text.parallel.corpora",
    "crosshead.bundle.files", "ctranslate2", "ctranslate2.specs", "google.protobuf.message",
    "langcodes.language_distance", "language_data.names",
)  # fmt: skip
"""Modules that the commands import at their first use."""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the commands read; what they import is imported, so that each process need not."""
    folder = tmp_path_factory.mktemp("in")
    write_corpus(folder, pairs=12)
    for side in ("source", "target"):  # with a repeated pair, so that something is suspect
        path = folder / f"{side}.txt"
        path.write_text(path.read_text() + path.read_text().splitlines()[0] + "\n")
    shutil.copytree(SEALED, folder / "bundle")
    write_gpt2(folder / "gpt2")
    for module in IMPORTED:
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    cli.run(["--help"])  # which imports the verbs
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory, where the system has one: disks take long to synchronise."""
    memory = Path("/dev/shm")
    place = Path(tempfile.mkdtemp(dir=memory if os.access(memory, os.W_OK) else tmp_path))
    yield place
    shutil.rmtree(place)


def doing(command: Command, words: str, inputs: Path, work: Path, said: Path) -> Callable[[], None]:
    """What a process does for a command in the folder `work`; it writes its messages to `said`."""

    def run() -> None:
        from crosshead.cli import main

        sys.stdout = sys.stderr = said.open("w", buffering=1)
        os.chdir(work)
        synthetic.BLOCK = 4
        if not command.exchanges:
            files.exchange = lambda one, other: False
        sys.dont_write_bytecode = True
        sys.argv = ["crosshead", *words.replace("{in}", str(inputs)).split()]
        main()

    return run


def done(command: Command, words: str, inputs: Path, work: Path) -> tuple[int, str]:
    """Run a command to its end; its exit code and its messages."""
    said = work.with_suffix(".said")
    child = os.fork()
    if not child:
        code: object = 99
        try:
            doing(command, words, inputs, work, said)()
            code = 0
        except SystemExit as end:
            code = end.code
        finally:
            sys.stdout.flush()
            os._exit(code if isinstance(code, int) else 1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code, said.read_text()


def hidden(work: Path) -> list[str]:
    return sorted(str(each.relative_to(work)) for each in work.rglob(".*"))


def visible(work: Path) -> dict[str, str]:
    return {name: sha for name, sha in tree(work).items() if "/." not in f"/{name}"}


@pytest.mark.parametrize(
    "name", mostly_slow(COMMANDS, [name for name in COMMANDS if name not in LIKE_ANOTHER])
)
@pytest.mark.parametrize("count", mostly_slow([2, None], [2]))
def test_a_kill_leaves_the_old_or_the_new_and_the_same_command_goes_on(
    count: int | None, name: str, inputs: Path, folder: Path, record: Record
) -> None:
    if not can_tell():
        pytest.skip("this system does not tell a process of another's system calls")
    if "export" in name:
        pytest.importorskip("ctranslate2")
    command = COMMANDS[name]
    before, work = folder / "before", folder / "work"
    before.mkdir()
    if command.before == "mkdir":
        (before / "out").mkdir()
    elif command.before:
        code, said = done(command, command.before, inputs, before)
        assert code == 0, said
    fresh_copy(before, work)
    calls = killed(doing(command, command.words, inputs, work, folder / "said"), None)
    old, new = visible(before), visible(work)
    assert new != old and not hidden(work), (folder / "said").read_text()
    rng = random.Random(SEED)
    points = list(range(len(calls)))
    # Most calls are writes to one file; the last ones are those that put the output in its place.
    some = points if count is None else [rng.choice(points), rng.choice(points[-12:])]
    for point in some:
        fresh_copy(before, work)
        killed(doing(command, command.words, inputs, work, folder / "said"), point)
        found = visible(work)
        if command.is_whole:
            between = not command.exchanges and found.items() <= old.items()
            assert found in (old, new) or between, (point, calls[point])
        for each, sha in found.items():
            assert sha in (old.get(each), new.get(each)) or each.endswith("translations.txt")
        assert all(each in found for each in old) or not command.exchanges
        code, said = done(command, command.words, inputs, work)
        if code:
            assert command.refuses and command.refuses in said and found == new, (point, said)
        assert visible(work) == new, (point, said)
        assert not hidden(work), (point, calls[point], hidden(work))
    record(f"{name}: killed in front of {len(some)} of {len(calls)} calls")
