"""The registry of tasks, and bundles by task."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch

from crosshead.bundle import io
from crosshead.bundle.io import Bundle, Kinds
from crosshead.bundle.weights import build_without_memory
from crosshead.models.base import Model, ModelConfig
from crosshead.models.registry import register_architecture
from crosshead.recipe.presets import PRESETS, Sections
from crosshead.system.files import StrPath
from crosshead.tasks.base import Task
from crosshead.tasks.language import LanguageTask
from crosshead.tasks.masked import MaskedTask
from crosshead.tasks.translation import TranslationTask

TASKS: dict[str, Task] = {
    "translation": TranslationTask(),
    "language": LanguageTask(),
    "masked": MaskedTask(),
}
"""The tasks by the `task` of a model's configuration."""


def register_task(
    task: Task,
    architectures: Mapping[type[ModelConfig], type[Model]],
    presets: Mapping[str, Sections] | None = None,
) -> None:
    """Register a task, so that every command trains, loads and describes its models.

    Args:
        task: The task.
        architectures: The models of the task by their configuration classes.
        presets: Sections of a recipe by preset name, for each of these architectures. By default
            there is one preset, `tiny`, with the defaults of the configuration.
    """
    TASKS[task.name] = task
    for config, model in architectures.items():
        register_architecture(config, model)
        name = config.model_fields["architecture"].default
        PRESETS[name] = dict(presets or {"tiny": {"model": {}, "train": {}}})


def task_of(config: Any) -> Task:
    """Return the task of a recipe, or of the configuration of a bundle."""
    return TASKS[config.model.task]


def kinds() -> Kinds:
    """Return the class of the bundles of each task, by the task's name."""
    return {name: task.bundle for name, task in TASKS.items()}


def load_bundle(path: StrPath, device: torch.device | str = "cpu") -> Bundle:
    """Load a bundle of any task: see `crosshead.bundle.io.load_bundle`."""
    return io.load_bundle(path, kinds(), device)


def outline_bundle(path: Path | str) -> Bundle:
    """Read a bundle without the weights of its model: see `crosshead.bundle.io.outline_bundle`."""
    return io.outline_bundle(path, kinds())


def sections_of(path: Path) -> Sections:
    """Return the settings of a bundle as sections of a recipe. No weights are read."""
    kind, config = io.load_config(path, kinds())
    model = build_without_memory(partial(kind.build, config))
    bundle = kind(config, model, **kind.read(path, config))
    return TASKS[config.task].sections(bundle)
