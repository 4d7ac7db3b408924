"""The registry of tasks, and bundles by task."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch

from crosshead.bundle import io
from crosshead.bundle.base import Bundle, Kinds
from crosshead.bundle.config_file import load_config
from crosshead.bundle.weights import build_without_memory
from crosshead.extensions import Table
from crosshead.models.base import Model, ModelConfig
from crosshead.models.registry import CONFIGS, MODELS
from crosshead.recipe.presets import PRESETS, Sections
from crosshead.system.files import StrPath
from crosshead.tasks.base import Task
from crosshead.tasks.language.task import LanguageTask
from crosshead.tasks.masked.task import MaskedTask
from crosshead.tasks.translation.task import TranslationTask

TASKS: Table[Task] = Table(
    {
        "translation": TranslationTask(),
        "language": LanguageTask(),
        "masked": MaskedTask(),
    }
)
"""The tasks by the `task` of a model's configuration."""

_own: dict[str, type[ModelConfig]] = {}
"""The architectures that a program has registered itself, which it may register anew."""


def register_architecture(
    config: type[ModelConfig],
    model: type[Model],
    presets: Mapping[str, Sections] | None = None,
) -> None:
    """Register an architecture, so that recipes, training and bundles know it.

    Its name is the default of `architecture` in its configuration. A program that loads a bundle
    of the architecture has to register it first.

    Args:
        config: The configuration class, of a task that is registered.
        model: The model class.
        presets: Sections of a recipe by preset name. By default there is one preset, `tiny`: the
            defaults of the configuration, with the other sections of the task's own `tiny`.

    Raises:
        TypeError: If `config` or `model` is not such a class, or the model lacks a method.
        ValueError: If no task has the name `config.task`, or crosshead has an architecture of this
            name.
    """
    if not (isinstance(config, type) and issubclass(config, ModelConfig)):
        raise TypeError(f"expected a class derived from ModelConfig, found {config!r}")
    if not (isinstance(model, type) and issubclass(model, Model)):
        raise TypeError(f"expected a class derived from Model, found {model!r}")
    if lacking := sorted(model.__abstractmethods__):
        raise TypeError(f"{model.__name__} must define {', '.join(lacking)}")
    if config.task not in TASKS:
        known = ", ".join(map(repr, TASKS))
        raise ValueError(f"unknown task {config.task!r}; known: {known}; register it first")
    name = config.model_fields["architecture"].default
    if name in CONFIGS and name not in _own and CONFIGS[name] is not config:
        raise ValueError(f"there is an architecture {name!r} already; choose another name")
    if presets is None:
        usual = PRESETS.get(TASKS[config.task].architecture, {}).get("tiny", {"train": {}})
        presets = {"tiny": {**usual, "model": {}}}
    CONFIGS[name], MODELS[name], PRESETS[name] = config, model, dict(presets)
    if Table.complete:
        _own[name] = config


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
        register_architecture(config, model, presets)


def task_of(config: Any) -> Task:
    """Return the task of a recipe, or of the configuration of a bundle."""
    return TASKS[config.model.task]


def kinds() -> Kinds:
    """Return the class of the bundles of each task, by the task's name."""
    return {name: task.bundle for name, task in TASKS.items()}


def run_files() -> set[str]:
    """Return the names of the files that runs of any task write besides those of the bundle."""
    return {name for task in TASKS.values() for name in task.run_files}


def load_bundle(path: StrPath, device: torch.device | str = "cpu") -> Bundle:
    """Load a bundle of any task: see `crosshead.bundle.io.load_bundle`."""
    return io.load_bundle(path, kinds(), device)


def outline_bundle(path: Path | str) -> Bundle:
    """Read a bundle without the weights of its model: see `crosshead.bundle.io.outline_bundle`."""
    return io.outline_bundle(path, kinds())


def sections_of(path: Path) -> Sections:
    """Return the settings of a bundle as sections of a recipe. No weights are read."""
    kind, config = load_config(path, kinds())
    model = build_without_memory(partial(kind.build, config))
    bundle = kind(config, model, **kind.read(path, config))
    return TASKS[config.task].sections(bundle)
