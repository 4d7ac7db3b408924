"""The data of a run: the interface between training and the data of all tasks."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import torch

from crosshead.bundle.base import Bundle, BundleConfig
from crosshead.bundle.card import CardFile
from crosshead.bundle.origin import ImportOrigin
from crosshead.models.base import Model
from crosshead.text.batching import Plan


class Stopped(Exception):
    """The run was asked to stop while it read data or validated weights."""


def stop_check(should_stop: Callable[[], bool]) -> Callable[[], None]:
    """Return a function that raises `Stopped` if the run should stop."""

    def check() -> None:
        if should_stop():
            raise Stopped

    return check


class TaskBatch(Protocol):
    """A batch of any task. Only the task's loss knows its other contents."""

    @property
    def count(self) -> int:
        """The number of predictions in the loss, as `Loss.count`."""
        ...

    def to(self, device: torch.device) -> Self:
        """Return the batch on a device.

        Args:
            device: The device.
        """
        ...


class Epoch(Protocol):
    """The training rows of one epoch, in batches. Each batch is made when it is needed.

    Training splits the rows of a batch into microbatches before it collates them.
    """

    row: str
    """The noun for a row in messages."""
    bound: str
    """The setting that bounds the length of a row."""

    @property
    def lengths(self) -> np.ndarray:
        """The lengths of every row, "n 1", or "n 2" for rows of source and target.

        The unit is the unit of `train.batch_tokens`.
        """
        ...

    def plan(self, max_tokens: int, seed: int, epoch: int) -> Plan:
        """Return the rows of each batch, a function of (seed, epoch).

        Args:
            max_tokens: The largest size of a batch, padding included.
            seed: The random seed of the run.
            epoch: The number of the epoch.
        """
        ...

    def collate(self, rows: Sequence[int]) -> TaskBatch:
        """Return the given rows as a batch.

        Args:
            rows: The numbers of the rows.
        """
        ...

    def extent(self, row: int) -> str:
        """Return the length of a row, for messages, such as `12 and 9 tokens`.

        Args:
            row: The number of the row.
        """
        ...


@dataclass(frozen=True)
class Corpus(ABC):
    """The training and validation data of a run."""

    files: list[CardFile]
    """The files that were read."""
    data_fault: str = field(default="", kw_only=True)
    """Clauses about training data that probably spoils the model, and what to do, or ""."""

    kind: ClassVar[type[Bundle]]
    """The class of the bundles of models of such data."""
    unit: ClassVar[str] = "row"
    """The noun for what `size` counts."""
    unit_name: ClassVar[str] = "rows"
    """The plural noun on the model card."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The amount of training data."""

    @property
    @abstractmethod
    def longest_input(self) -> int:
        """The number of positions of the longest input in training."""

    @property
    @abstractmethod
    def lengths(self) -> np.ndarray:
        """The lengths of all rows, as `Epoch.lengths`, to find the origin of a row of an epoch."""

    @abstractmethod
    def epochs(self, recipe: Any) -> Callable[[int], Epoch]:
        """Return a function that gives the training rows of an epoch by its number.

        Args:
            recipe: The settings of the run.
        """

    def with_origin(self, origin: ImportOrigin | None) -> Self:
        """Return the same data for a model that is tuned from an imported one.

        Args:
            origin: The origin, which the bundle names if its kind can; None if there is none.
        """
        return self

    @abstractmethod
    def sha256(self) -> str:
        """Return the checksum of all training and validation data, in this order."""

    @abstractmethod
    def origin(self, row: int) -> str:
        """Return the origin of a row, for messages."""

    @abstractmethod
    def opening(self, data: Any) -> list[str]:
        """Return messages: a line about the training and validation data, then warnings.

        Args:
            data: The section `[data]` of the recipe.
        """

    @abstractmethod
    def validation(self, data: Any) -> str:
        """Return a clause about the validation set.

        Args:
            data: The section `[data]` of the recipe.
        """

    @abstractmethod
    def bundle_config(self, recipe: Any, longest_input: int) -> BundleConfig:
        """Return the configuration of the run's bundle, before its model is scored.

        Args:
            recipe: The settings of the run.
            longest_input: The number of positions of the longest input in training.
        """

    def bundle(self, config: BundleConfig, model: Model) -> Any:
        """Return the bundle of a model of this data.

        Args:
            config: The configuration of the bundle.
            model: The model.
        """
        return self.kind(config, model)

    def completed(self, recipe: Any) -> Any:
        """Return the recipe with the settings chosen while reading the data.

        Args:
            recipe: The settings of the run.
        """
        return recipe

    def facts(self) -> str:
        """Return a clause about the data for the message about the model, or an empty string."""
        return ""

    def left_out(self) -> dict[str, int]:
        """Return the number of rows left out of training, by reason."""
        return {}

    def write_files(self, out: Path, names: Mapping[str, str]) -> None:
        """Write the files that resuming needs, and files about the data, into the run directory.

        The names of files that are not `Bundle.own_files` have to be in `Task.run_files`.

        Args:
            out: The run directory.
            names: The displayed name of each data file, by the name in the recipe.
        """
        return
