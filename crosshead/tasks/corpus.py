"""The data of a run, for all tasks: the interface between training and its data."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from crosshead.bundle.card import CardFile
from crosshead.bundle.config import BundleConfig
from crosshead.bundle.io import Bundle
from crosshead.data.batching import Epoch
from crosshead.models.base import Model


class Stopped(Exception):
    """Somebody has asked for the end while data was read, or weights were validated."""


@dataclass(frozen=True)
class Corpus(ABC):
    """The data of a run: what is trained on and what is validated on."""

    files: list[CardFile]
    """The files that were read."""

    kind: ClassVar[type[Bundle]]
    """The kind of bundle of a model of such data."""
    unit: ClassVar[str] = "row"
    """Noun for what `size` counts."""
    unit_name: ClassVar[str] = "rows"
    """Plural of the noun on the model card."""
    bound: ClassVar[str] = ""
    """The setting that bounds the length of a row."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The amount of training data."""

    @property
    @abstractmethod
    def reach(self) -> int:
        """The positions of the longest input in training."""

    @property
    @abstractmethod
    def lengths(self) -> np.ndarray:
        """The lengths of all rows, side by side: as `Epoch.lengths`."""

    @abstractmethod
    def epochs(self, recipe: Any) -> Callable[[int], Epoch]:
        """Return the training rows of an epoch, as a function of the epoch's number."""

    @abstractmethod
    def sha256(self) -> str:
        """Return the checksum of all training and validation data, in this order."""

    @abstractmethod
    def origin(self, row: int) -> str:
        """Return the origin of a row, for messages."""

    @abstractmethod
    def extent(self, row: int) -> str:
        """Return the length of a row, for messages, such as `12 and 9 tokens`."""

    @abstractmethod
    def opening(self, data: Any) -> list[str]:
        """Return a line about the training and validation data, followed by warnings."""

    @abstractmethod
    def validation(self, data: Any) -> str:
        """Return a clause on the origin of the validation set; `data` names its files."""

    @abstractmethod
    def records(self, epoch: Any, rows: Sequence[int]) -> tuple[str, str]:
        """Return rows of an epoch as the text of a file to train on, and a clause that says how."""

    @abstractmethod
    def bundle_config(self, recipe: Any, reach: int) -> BundleConfig:
        """Return the configuration of a bundle of this run, before its model is scored.

        Args:
            recipe: The run.
            reach: The positions of the longest input that the weights have seen.
        """

    def bundle(self, config: BundleConfig, model: Model) -> Any:
        """Return the bundle of a model of this data."""
        return self.kind(config, model)

    def completed(self, recipe: Any) -> Any:
        """Return the recipe with the settings that reading the data has chosen."""
        return recipe

    def facts(self) -> str:
        """Return a clause about the data for the line about the model, or nothing."""
        return ""

    def left_out(self) -> dict[str, int]:
        """Return the number of rows left out of training, by reason."""
        return {}

    def write_files(self, out: Path, names: Mapping[str, str]) -> None:
        """Write the files that a resumed run needs, and those about the data, into `out`.

        Args:
            out: The run directory.
            names: The shown name of each file of data, by the name it is read under.
        """
        return
