"""A task: everything that differs between kinds of data."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch

from crosshead.bundle.io import Bundle
from crosshead.pipelines.base import Pipeline
from crosshead.recipe.recipe import Recipe
from crosshead.recipe.train import TrainConfig
from crosshead.tasks.corpus import Corpus
from crosshead.tasks.validation import Loss, Metric, Validator

Say = Callable[[str], None]


class Task(ABC):
    """Everything that differs between kinds of data.

    Training, bundles, model cards and the command line ask the task; none of them tests which task
    it is.
    """

    name: ClassVar[str]
    """Its name, which configurations of models state as their task."""
    recipe: ClassVar[type[Recipe]]
    """Its recipe, which checks itself."""
    bundle: ClassVar[type[Bundle]]
    """Its kind of bundle."""
    pipeline: ClassVar[type[Pipeline]]
    """What `crosshead.load` makes of such a bundle."""
    validator: ClassVar[type[Validator[Any, Any, Any]]]
    """Validates its models."""
    metrics: ClassVar[tuple[Metric, ...]]
    """The metrics that validation computes; one of them chooses checkpoints."""
    chooses: ClassVar[str] = "loss"
    """The metric that chooses checkpoints by default."""
    architecture: ClassVar[str]
    """The default architecture."""
    units: ClassVar[str] = "tokens"
    """Noun for the predictions that its loss counts."""
    counter: ClassVar[str] = "target_tokens"
    """The name of their number in the log."""

    def claims(self, data: Mapping[str, Any]) -> bool:
        """Return whether `[data]` with these keys is meant for this task, whatever the model."""
        return False

    def prepare(self, recipe: Any) -> tuple[Recipe, list[str]]:
        """Return the recipe with what the names of its files tell, and lines that say so."""
        return recipe, []

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
            recipe: The run.
            base: The bundle that training begins with, or None.
            resumed: The run directory that is resumed, or None.
            say: Receives lines for people.
            should_stop: Returns whether somebody has asked for the end.

        Raises:
            Stopped: Soon after `should_stop` returns true.
            UserError: If the data cannot be used.
        """

    @abstractmethod
    def loss(self, model: Any, batch: Any, settings: TrainConfig) -> Loss:
        """Return the loss of a batch, whose first axis training may split."""

    def sections(self, bundle: Bundle) -> dict[str, dict[str, Any]]:
        """Return the settings of a bundle as sections of a recipe, for fine-tuning."""
        return {"model": bundle.config.model.model_dump()}

    def validates(
        self,
        recipe: Recipe,
        corpus: Corpus,
        reach: int,
        device: torch.device,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> Validator[Any, Any, Any]:
        """Return the validator of a run."""

        def loss(model: Any, batch: Any) -> Loss:
            return self.loss(model, batch, recipe.train)

        return self.validator(recipe, corpus, reach, device, loss, should_stop)
