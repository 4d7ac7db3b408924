"""Training runs and stored results of studies: each is computed once by the same code."""

import hashlib
import json
import multiprocessing
import os
import statistics
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch

from crosshead.addons.studies.study import Trial
from crosshead.bundle.places import CHECKPOINTS, CONFIG
from crosshead.recipe.compose import compose
from crosshead.recipe.recipe import Recipe
from crosshead.system.files import atomic_write, make_directory
from crosshead.system.stored import read_metadata
from crosshead.training.checkpoint import list_checkpoints
from crosshead.training.run import train


class MissingDataError(Exception):
    """Data that a study needs is not there; its text says so as a clause."""


K = TypeVar("K", bound=Hashable)
R = TypeVar("R")
T = TypeVar("T")

ALIKE = {"precision": "float32", "device": "cpu", "threads": 1, "keep_last": 1}
"""Settings of all runs. `auto` would choose by a measurement."""


def digest(package: Path) -> str:
    """Return eight digits that change with any source file of a package."""
    found = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        found.update(f"{path.relative_to(package).as_posix()} {content}\n".encode())
    return found.hexdigest()[:8]


THIS_CODE = digest(Path(__file__).parents[2])
"""The digest of this package, taken when it was loaded; later changes of the files do not count."""


def _named(text: str) -> str:
    return hashlib.sha256(f"{THIS_CODE} {text}".encode()).hexdigest()[:16]


class Run(NamedTuple):
    """A training run, by its recipe; `folder` holds the directories of several runs."""

    folder: Path
    recipe: Recipe

    @property
    def place(self) -> Path:
        """The directory of the run, which depends on the recipe and the code."""
        named = _named(self.recipe.model_dump_json())
        return self.folder / f"{self.recipe.model.architecture}-{named}"

    @property
    def finished(self) -> Path:
        """The file that the run has once it has ended."""
        return self.place / CONFIG

    def trained(self) -> Path:
        """Train, or continue, if the run has not ended; return its directory."""
        if not self.finished.is_file():
            begun = bool(list_checkpoints(self.place / CHECKPOINTS))
            threads = torch.get_num_threads()
            try:
                train(
                    self.recipe, self.place, resume=begun, force=not begun,
                    command="crosshead study",
                )  # fmt: skip
            finally:
                torch.set_num_threads(threads)
        return self.place

    def scores(self) -> dict[str, float]:
        """Return the scores of the trained model by their names."""
        found = read_metadata(self.trained() / CONFIG)["scores"]
        return {each["metric"]: each["value"] for each in found}


def run_of(
    trial: Trial, folder: str, train: Mapping[str, Any], **sections: Mapping[str, Any]
) -> Run:
    """Return the run of a recipe in a folder of the trial, with the settings of all runs."""
    recipe = compose(recipe={**sections, "train": {**ALIKE, **train}})
    run = Run(trial.folder / folder, recipe)
    trial.keeps(run.finished)
    return run


class Stored(NamedTuple):
    """A result that follows from settings, a NamedTuple, by this code, and its file."""

    file: Path
    settings: Any

    def result(self, compute: Callable[[Any], Any]) -> Any:
        """Return the stored result; compute it from the settings and store it if there is none."""
        if not self.file.is_file():
            found = compute(self.settings)
            make_directory(self.file.parent)
            atomic_write(self.file, json.dumps(found).encode())
        return json.loads(self.file.read_text())


def stored(trial: Trial, folder: str, settings: Any) -> Stored:
    """Return the result that follows from settings, in a folder of the trial."""
    text = json.dumps(settings._asdict(), default=lambda config: config.model_dump())
    found = Stored(trial.folder / folder / f"{_named(text)}.json", settings)
    trial.keeps(found.file)
    return found


def results(
    trial: Trial,
    names: Iterable[K],
    plan: Callable[[K, int], R],
    compute: Callable[[R], T],
    seeds: int = 2,
) -> dict[K, list[T]]:
    """Compute what `plan` makes of a name and a seed; return results by name, one for each seed.

    This takes as many processes as PyTorch has threads, so `compute` and what is planned have to be
    picklable. With one thread, and in a quick form, it happens here.
    """
    planned = {(name, seed): plan(name, seed) for name in names for seed in trial.seeds(seeds)}
    done: dict[tuple[K, int], T] = {}

    def keep(name: K, seed: int, found: T) -> None:
        done[name, seed] = found
        trial.say(f"{len(done)} of {len(planned)} done: {name}, seed {seed}")

    workers = 1 if trial.quick else min(torch.get_num_threads(), len(planned))
    if workers == 1:
        for (name, seed), each in planned.items():
            keep(name, seed, compute(each))
    else:
        spawn = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(workers, spawn, torch.set_num_threads, (1,))
        try:
            started = {pool.submit(compute, each): name for name, each in planned.items()}
            for future in as_completed(started):
                keep(*started[future], future.result())
        finally:
            pool.shutdown(cancel_futures=True)
    by_name: dict[K, list[T]] = {}
    for case in planned:
        by_name.setdefault(case[0], []).append(done[case])
    return by_name


def means(found: Mapping[K, Sequence[float]]) -> dict[K, float]:
    """Return the mean over seeds of each result."""
    return {name: statistics.mean(values) for name, values in found.items()}


def data_at(*paths: str) -> Path:
    """Return the first of these paths that is in $CROSSHEAD_DATA, by default in `data`."""
    root = Path(os.environ.get("CROSSHEAD_DATA") or "data")
    for path in paths:
        if (root / path).exists():
            return root / path
    raise MissingDataError(
        f"no {paths[0]} in {root}: see `crosshead data get --help`, or set CROSSHEAD_DATA"
    )
