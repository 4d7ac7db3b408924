"""Training runs of studies: each is trained once, and an interrupted one continues."""

import hashlib
import multiprocessing
from collections.abc import Callable, Hashable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import TypeVar

import torch

from crosshead.addons.studies.sources import THIS_CODE
from crosshead.bundle.places import CHECKPOINTS, CONFIG, RECIPE
from crosshead.recipe.recipe import Recipe
from crosshead.training.checkpoint import list_checkpoints
from crosshead.training.run import train
from crosshead.training.settings import check_resumed, stored_recipe

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

RUNS = Path("runs") / "studies"
"""The directory of training runs, which studies share. An interrupted study continues there."""


def place_of(folder: Path, recipe: Recipe, *settings: object) -> Path:
    """Return the directory of a run, which depends on the model, the seed and the code."""
    model = recipe.model
    named = " ".join([THIS_CODE, model.model_dump_json(), *map(str, settings)])
    digest = hashlib.sha256(named.encode()).hexdigest()[:8]
    return folder / f"{model.architecture}-{digest}-{recipe.train.seed}"


def finished(place: Path) -> Path:
    """Return the file that a run has once it has ended, for `Result.kept`."""
    return place / CONFIG


def ensure_trained(place: Path, recipe: Recipe) -> None:
    """Train a run, or continue it, if it has not ended yet."""
    if (place / RECIPE).is_file():
        check_resumed(stored_recipe(place), recipe, place)
    if finished(place).is_file():
        return
    begun = bool(list_checkpoints(place / CHECKPOINTS))
    threads = torch.get_num_threads()
    try:
        train(recipe, place, resume=begun, force=not begun, command="crosshead study")
    finally:
        torch.set_num_threads(threads)


def side_by_side(jobs: Mapping[K, Callable[[], T]], *, quick: bool) -> Iterator[tuple[K, T]]:
    """Run jobs in as many processes as PyTorch has threads, and give results as they are done.

    The jobs have to be picklable. With one thread, and in a quick form, they run here, one after
    the other.
    """
    workers = 1 if quick else min(torch.get_num_threads(), len(jobs))
    if workers == 1:
        for name, job in jobs.items():
            yield name, job()
        return
    spawn = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, spawn, torch.set_num_threads, (1,))
    try:
        started = {pool.submit(job): name for name, job in jobs.items()}
        for done in as_completed(started):
            yield started[done], done.result()
    finally:
        pool.shutdown(cancel_futures=True)
