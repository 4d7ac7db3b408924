"""Runs for tests of parts of training, without a recipe of their own and without files of data."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import nn

from crosshead.recipe.train import TrainConfig
from crosshead.tasks.corpus import Epoch
from crosshead.tasks.registry import TASKS
from crosshead.text.batching import Example, Pairs
from crosshead.training.context import Context
from crosshead.training.hardware import Machine
from crosshead.training.optimizer import Optimizer
from crosshead.training.progress import Progress, UpdateResult
from crosshead.training.setup import Setup
from crosshead.training.updater import Updater


def setup_of(
    config: TrainConfig,
    progress: Progress | None = None,
    context: Context | None = None,
    *,
    task: str = "translation",
    model: nn.Module | None = None,
    optimizer: Optimizer | None = None,
    examples: list[Example] | None = None,
) -> Setup:
    """A run on one thread of a CPU with these settings."""
    recipe: Any = SimpleNamespace(train=config)
    corpus: Any = SimpleNamespace(epochs=lambda recipe: lambda epoch: Pairs(examples or []))
    machine = Machine(torch.device("cpu"), 1, torch.float32, "as the test says")
    built: Any = (model, optimizer)
    return Setup(
        TASKS[task], recipe, machine, corpus, *built, progress or Progress(), context or Context()
    )


def update_of(made: Updater, epoch: Epoch, rows: np.ndarray, rate: float) -> UpdateResult:
    """An update as the loop makes it."""
    sums, count = made.gradients(epoch, rows)
    return UpdateResult(sums, count, made.optimizer.step(rate, made.replicas))


def of_pairs(count: int) -> Any:
    """A corpus with so many pairs, as what checks its size sees it."""
    return SimpleNamespace(size=count)
