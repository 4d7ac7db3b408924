"""A task: everything that differs between kinds of data."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch

from crosshead.bundle.base import Bundle
from crosshead.models.base import Model
from crosshead.recipe.presets import Sections
from crosshead.recipe.recipe import Recipe
from crosshead.recipe.train import TrainConfig
from crosshead.tasks.corpus import Corpus
from crosshead.tasks.pipeline import Pipeline
from crosshead.tasks.validation import Loss, Metric, Validator

Say = Callable[[str], None]

WriteLines = Callable[[str, Iterable[str]], str]
"""Writes lines to a file of a name such as `train.csv`, and returns the path of the file."""


@dataclass(frozen=True)
class Speed:
    """The speed of a machine, and the time that a run has on it."""

    seconds_per_update: Callable[[Recipe], float | None]
    """Measures the seconds of an update with a recipe; None if memory does not suffice."""
    seconds_left: Callable[[], float | None]
    """Returns the time for updates that `train.max_minutes` leaves from now on, in seconds; None
    without a limit."""


class Task(ABC):
    """Everything that differs between kinds of data.

    Training, bundles, model cards and the command line ask the task, instead of testing which task
    it is. The exceptions in training are features for pairs of texts alone: `--mix`, and the check
    of the languages of a bundle to fine-tune.
    """

    name: ClassVar[str]
    """The name of the task, which model configurations give as their `task`."""
    recipe: ClassVar[type[Recipe]]
    """The class of its recipes. A recipe validates itself."""
    bundle: ClassVar[type[Bundle]]
    """The class of its bundles."""
    pipeline: ClassVar[type[Pipeline]]
    """The class of the pipelines that `crosshead.load` returns for its bundles."""
    validator: ClassVar[type[Validator[Any, Any, Any]]]
    """The class that validates its models."""
    metrics: ClassVar[tuple[Metric, ...]]
    """The metrics that validation computes; one of them chooses checkpoints."""
    chooses: ClassVar[str] = "loss"
    """The metric that chooses checkpoints by default."""
    architecture: ClassVar[str]
    """The default architecture."""
    batch_units: ClassVar[str] = "tokens"
    """The noun for what `train.batch_tokens` counts."""
    units: ClassVar[str] = "tokens"
    """The noun for the predictions that the loss counts."""
    counter: ClassVar[str] = "target_tokens"
    """The name of their number in the log."""
    check_data: ClassVar[str] = "check the training data"
    """Advice for a model that is not usable after many updates, in a clause."""
    validation_bound: ClassVar[str] = ""
    """The setting whose lower value makes validation take less memory, if there is one."""
    run_files: ClassVar[tuple[str, ...]] = ()
    """The names of the files that `Corpus.write_files` writes besides those of the bundle. A new
    run with `--force` may remove them."""

    def recognizes(self, data: Mapping[str, Any]) -> bool:
        """Return whether a `[data]` section belongs to this task, whatever the model.

        Args:
            data: The keys of the section and their values.
        """
        return False

    def prepare(self, recipe: Any) -> tuple[Recipe, list[str]]:
        """Return the recipe with facts from the names of its files, and messages about them.

        Args:
            recipe: The settings of the run.
        """
        return recipe, []

    def stored(self, given: Mapping[str, Any], write: WriteLines) -> dict[str, Any]:
        """Return the keys of `[data]` for data that `crosshead.train` was given.

        By default they are names of files. A task that takes data in memory writes them to files.

        Args:
            given: Values of keys that name files, and `target` if there is one.
            write: Writes lines to a file and returns its path.
        """
        return {key: given[key] for key in self.recipe.data_class().file_keys if key in given}

    @abstractmethod
    def read(
        self,
        recipe: Any,
        base: Bundle | None,
        resumed: Path | None,
        say: Say = lambda line: None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> Corpus:
        """Read the data of a recipe.

        Args:
            recipe: The settings of the run.
            base: The bundle that training starts from, or None.
            resumed: The run directory that is resumed, or None.
            say: A callback that gets messages for people.
            should_stop: Returns whether the run should stop.

        Returns:
            The training and validation data.

        Raises:
            Stopped: Soon after `should_stop` returns true.
            UserError: If the data cannot be used.
        """

    def settle(self, recipe: Any, corpus: Any, speed: Speed) -> tuple[Recipe, list[str]]:
        """Return the recipe with values for its open keys, and messages about the choice.

        By default the values stay those of the preset `tiny`.

        Args:
            recipe: The settings of the run, with the open keys `recipe.open`.
            corpus: The data, as `read` returns it.
            speed: The speed of the machine and the time of the run.
        """
        return recipe, []

    @abstractmethod
    def loss(self, model: Any, batch: Any, settings: TrainConfig) -> Loss:
        """Return the loss of a batch. Training may split the batch along its first axis.

        Args:
            model: A model of the task.
            batch: A `TaskBatch`, which an epoch of the corpus has collated.
            settings: The section `[train]`.
        """

    def sections(self, bundle: Bundle) -> dict[str, dict[str, Any]]:
        """Return the settings of a bundle as sections of a recipe, for fine-tuning.

        Args:
            bundle: The bundle that training starts from.
        """
        return {"model": bundle.config.model.model_dump()}

    def example(self, model: Any, preset: Sections) -> tuple[str, Callable[[], Model]] | None:
        """Return a model of a preset without data, for the table of presets, or None without one.

        Args:
            model: The configuration of the model.
            preset: The sections of the preset.

        Returns:
            The size of the vocabulary as text, or "" without a vocabulary; `to N` stands for the
            largest size. And a function that builds the model.
        """
        return None

    def make_validator(
        self,
        recipe: Recipe,
        corpus: Corpus,
        longest_input: int,
        device: torch.device,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> Validator[Any, Any, Any]:
        """Return the validator of a run.

        Args:
            recipe: The settings of the run.
            corpus: The data of the run.
            longest_input: The positions of the longest input in training (`Corpus.longest_input`).
            device: The device of the validated model.
            should_stop: Returns whether the run should stop.
        """

        def loss(model: Any, batch: Any) -> Loss:
            return self.loss(model, batch, recipe.train)

        return self.validator(recipe, corpus, longest_input, device, loss, should_stop)
