"""Change the code in small ways, and see whether the tests notice.

    python tools/mutants.py --log build/mutants.jsonl

A seed draws a sample of mutants (see `mutations.py`) of the modules below. Stage 1 runs the
module's own tests, stage 2 its neighbours', stage 3 tests of dependent modules. Each stage runs
only the survivors.

A process that has loaded PyTorch forks one process per mutant, which runs the tests on a changed
copy of the package. The first test that fails kills the mutant. Each result is a line of the log.
A second run with the same log continues after the last result. `mutants-equivalent.toml` lists
mutants that no test can detect; they do not count.
"""

import argparse
import contextlib
import importlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import tomllib
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from mutations import Mutant, mutants

ROOT = Path(__file__).parent.parent
EQUIVALENT = Path(__file__).with_name("mutants-equivalent.toml")

MODULES = (
    *("attention/*.py", "layers/*.py", "decoding/*.py", "evaluation/*.py"),
    *(f"training/{name}.py" for name in ("optimizer", "schedule", "checkpoint", "average")),
)
MODELS = [f"tests/models/test_{name}.py" for name in ("transformer", "language", "transformer_xl")]
BUILT_ON = {
    "attention": [*MODELS, "tests/models/test_transformer_decoding.py"],
    "layers": [*MODELS, "tests/models/test_recurrent.py", "tests/models/test_convolutional.py"],
    "decoding": [
        "tests/models/test_transformer_decoding.py",
        "tests/tasks/test_batched_search.py",
    ],
    "training": [f"tests/training/test_{name}.py" for name in ("updater", "loop", "run")],
    "evaluation": [
        f"tests/{name}.py"
        for name in (
            "tasks/test_validation",
            "tasks/masked/test_mask_filler",
            "tasks/language/test_text_generator",
        )
    ],
}
"""The tests of what is built on a module, by its folder."""
BESIDE = ("attention", "layers", "decoding", "evaluation")
"""Folders whose modules are tested by the tests of their neighbours too."""

TEST_SECONDS, STAGE_SECONDS = 60, 3600
"""Processor time of a test, and time of a stage, after which a mutant counts as killed."""
SLOW_TO_LOAD = (
    *("torch", "torch._dynamo", "torch.nn.parallel", "numpy.testing", "safetensors.torch"),
    *("pytest", "beartype", "pydantic", "sacrebleu", "sentencepiece", "typer", "rich"),
)
STAGES = ("own", "neighbours", "built on")
KILLED, SURVIVED, TIMEOUT = "killed", "survived", "timeout"


class Result(NamedTuple):
    """A line of the log: what became of a mutant when it met the tests of a stage."""

    mutant: str
    tests: str
    result: str
    by: str
    seconds: float


def main() -> int:
    """Run the mutants that the log does not hold, and print the score."""
    options = _options()
    sample = draw(options.number, options.seed)
    equivalent = {entry["mutant"] for entry in tomllib.loads(EQUIVALENT.read_text())["equivalent"]}
    if options.list:
        print(*(mutant.key for mutant in sample), sep="\n")
        return 0
    options.log.parent.mkdir(parents=True, exist_ok=True)
    results = read(options.log)
    if options.again:
        results = {key: result for key, result in results.items() if result.result != SURVIVED}
    counted = [mutant for mutant in sample if mutant.key not in equivalent]
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, options.log.open("a") as log:
        for mutant, result in run(counted, results, Path(folder)):
            results[mutant.key] = result
            print(json.dumps(result._asdict()), file=log, flush=True)
            print(f"{result.tests}: {result.result} {mutant.key}", flush=True)
    survivors = [mutant for mutant in counted if results[mutant.key].result == SURVIVED]
    for mutant in survivors:
        print(f"\n{mutant.path}:{mutant.line} ({mutant.function})")
        print(f"- {mutant.before}\n+ {mutant.after}")
    killed = len(counted) - len(survivors)
    print(
        f"\n{killed} of {len(counted)} mutants killed ({killed / len(counted):.1%}), "
        f"{len(sample) - len(counted)} equivalent ones not counted; seed {options.seed}"
    )
    return 0


def draw(number: int, seed: int) -> list[Mutant]:
    """Draw mutants from the modules, each in proportion to the places that can be changed."""
    rng = random.Random(seed)
    places = []
    for pattern in MODULES:
        for file in sorted((ROOT / "crosshead").glob(pattern)):
            name = file.relative_to(ROOT).as_posix()
            places.append(mutants(name, file.read_text(encoding="utf-8")))
    total = sum(map(len, places))
    chosen = [
        rng.choice(variants)
        for sites in places
        for variants in rng.sample(sites, round(number * len(sites) / total))
    ]
    rng.shuffle(chosen)  # so that a part of the run is a sample too
    return chosen


def run(
    todo: Sequence[Mutant], known: Mapping[str, Result], folder: Path
) -> Iterator[tuple[Mutant, Result]]:
    """Yield each new result of each mutant; the copy of the package is in `folder`.

    Raises `SystemExit` if the tests fail on the code as it is.
    """
    results, prepared = dict(known), False
    for stage in STAGES:
        alive = [
            mutant
            for mutant in todo
            if tests_of(mutant.path)[stage] and _meets(results.get(mutant.key), stage)
        ]
        files = sorted({file for mutant in alive for file in tests_of(mutant.path)[stage]})
        if not files:
            continue
        if not prepared:
            _prepare(folder)
            prepared = True
        print(f"{stage}: {len(alive)} mutants; first the code as it is", flush=True)
        result, found = _tested(folder, files)
        if result != SURVIVED:
            raise SystemExit(f"the tests fail on the code as it is: {found}")
        for number, mutant in enumerate(alive):
            start = time.monotonic()
            with _changed(folder / mutant.path, mutant.source, number):
                result, found = _tested(folder, tests_of(mutant.path)[stage])
            seconds = round(time.monotonic() - start, 1)
            results[mutant.key] = Result(mutant.key, stage, result, found, seconds)
            yield mutant, results[mutant.key]


def _meets(result: Result | None, stage: str) -> bool:
    """Return whether a mutant with this last result is to meet the tests of a stage."""
    if result is None:
        return True
    return result.result == SURVIVED and STAGES.index(result.tests) < STAGES.index(stage)


@contextlib.contextmanager
def _changed(file: Path, source: str, number: int) -> Iterator[None]:
    """Hold another source in a file for a while."""
    original, times = file.read_text(encoding="utf-8"), file.stat()
    file.write_text(source, encoding="utf-8")
    os.utime(file, (number, number))  # compiled files are known by the second of the last change
    try:
        yield
    finally:
        file.write_text(original, encoding="utf-8")
        os.utime(file, (times.st_atime, times.st_mtime))


def tests_of(path: str) -> dict[str, list[str]]:
    """Return the files of tests that the mutants of a module meet in each stage."""
    parts = Path(path).relative_to("crosshead").with_suffix("").parts
    folder = ROOT / "tests" / Path(*parts[:-1])
    own = sorted(folder.glob(f"test_{parts[-1]}*.py"))
    beside = sorted(folder.glob("test_*.py")) if parts[0] in BESIDE else []
    wider = [ROOT / name for name in BUILT_ON[parts[0]]]
    stages, seen = {}, set[Path]()
    for stage, files in zip(STAGES, (own, beside, wider), strict=True):
        stages[stage] = [file.relative_to(ROOT).as_posix() for file in files if file not in seen]
        seen.update(files)
    return stages


def read(log: Path) -> dict[str, Result]:
    """Return the last result of each mutant in a log, if there is one."""
    if not log.is_file():
        return {}
    lines = log.read_text(encoding="utf-8").splitlines()
    results = [Result(**json.loads(line)) for line in lines]
    return {result.mutant: result for result in results}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--number", type=int, default=300, help="mutants in the sample (300)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the sample (1)")
    parser.add_argument("--log", type=Path, required=True, help="results, one JSON object a line")
    parser.add_argument("--again", action="store_true", help="run the survivors of the log again")
    parser.add_argument("--list", action="store_true", help="print the sample and run nothing")
    return parser.parse_args()


def _prepare(folder: Path) -> None:
    """Copy what the tests need, and load what is slow to load."""
    for name in ("crosshead", "tests", "tools"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    os.environ |= {
        "PYTHONPATH": str(folder),
        "OMP_NUM_THREADS": "1",
        "CROSSHEAD_DATA": os.environ.get("CROSSHEAD_DATA", str(ROOT.parent / "shared" / "data")),
    }
    sys.path[:0] = [str(folder)]
    for name in SLOW_TO_LOAD:
        importlib.import_module(name)


def _tested(folder: Path, files: Sequence[str]) -> tuple[str, str]:
    """Run tests in another process; return what became of the mutant, and which test failed."""
    said = folder / "failed"
    said.unlink(missing_ok=True)
    child = os.fork()
    if not child:
        os.setsid()
        code = 3
        try:
            code = _in_child(folder, files, said)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)
    deadline = time.monotonic() + STAGE_SECONDS
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        if time.monotonic() > deadline:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return TIMEOUT, ""
        time.sleep(0.05)
    found = said.read_text(encoding="utf-8") if said.exists() else ""
    if found.startswith(TIMEOUT):
        return TIMEOUT, found.removeprefix(TIMEOUT).strip()
    if status and not found:
        raise RuntimeError(
            (folder / "output").read_text(encoding="utf-8", errors="replace")[-3000:]
        )
    return (KILLED if status else SURVIVED), found


def _in_child(folder: Path, files: Sequence[str], said: Path) -> int:
    """Run tests up to the first that fails, silently, and write its name into `said`."""
    import pytest

    output = os.open(folder / "output", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    os.chdir(folder)

    class Watch:
        """Names the first test that fails, and stops one that takes too long."""

        @pytest.hookimpl(wrapper=True)
        def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
            def stop(*_: object) -> None:
                said.write_text(f"{TIMEOUT} {item.nodeid}", encoding="utf-8")
                os.killpg(0, signal.SIGKILL)

            signal.signal(signal.SIGPROF, stop)
            signal.setitimer(signal.ITIMER_PROF, TEST_SECONDS)
            try:
                return (yield)
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)

        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            if report.failed and not said.exists():
                said.write_text(report.nodeid, encoding="utf-8")

        def pytest_collectreport(self, report: pytest.CollectReport) -> None:
            if report.failed and not said.exists():
                said.write_text(f"collecting {report.nodeid}", encoding="utf-8")

    options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--rootdir", str(folder)]
    return int(pytest.main([*options, *files], plugins=[Watch()]))


if __name__ == "__main__":
    sys.exit(main())
