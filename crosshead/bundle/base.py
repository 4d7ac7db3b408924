"""The base of bundles and of their configurations, which each task extends."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import Field, model_validator

from crosshead.bundle.config import FORMAT, BundleScore
from crosshead.bundle.origin import ImportOrigin
from crosshead.config import Config
from crosshead.models.base import Model
from crosshead.models.registry import AnyConfig
from crosshead.version import __version__


class BundleConfig(Config):
    """The settings in every `config.json`. Each kind of bundle adds its own."""

    format: int = Field(default=FORMAT, ge=1)
    # The version of crosshead that wrote the bundle.
    crosshead: str = __version__
    task: str = "translation"
    model: AnyConfig
    # Scores of the model at the end of its training.
    scores: list[BundleScore] = Field(default_factory=list)

    @model_validator(mode="after")
    def _check_task(self) -> Self:
        if self.task != self.model.task:
            raise ValueError(
                f"task is {self.task!r}, but the task of architecture "
                f"{self.model.architecture!r} is {self.model.task!r}"
            )
        return self


@dataclass(frozen=True)
class Bundle(ABC):
    """A trained model, its configuration, and everything else that its task needs.

    Each kind of bundle adds fields, which are stored in its own files.
    """

    config: BundleConfig
    model: Model

    config_type: ClassVar[type[BundleConfig]] = BundleConfig
    own_files: ClassVar[tuple[str, ...]] = ()
    """The names of files that only this kind of bundle may have."""

    @property
    def longest_input(self) -> int:
        """The number of positions of the longest input in training, or 0 if it is unknown."""
        return 0

    @property
    def origin(self) -> ImportOrigin | None:
        """The origin of the model if it was imported or tuned from an imported one, or None."""
        return None

    @classmethod
    @abstractmethod
    def build(cls, config: BundleConfig) -> Model:
        """Build a freshly initialised model.

        Args:
            config: The configuration of the bundle.

        Returns:
            The model.
        """

    @classmethod
    def read(cls, directory: Path, config: BundleConfig) -> dict[str, Any]:
        """Read the fields of this kind, by name, from its own files.

        Args:
            directory: The bundle.
            config: Its configuration.

        Returns:
            The fields; none if this kind has no files of its own.

        Raises:
            DamagedBundle: If a file is missing or invalid.
        """
        return {}

    def files(self) -> dict[str, bytes]:
        """Return the contents of the bundle's own files, by name."""
        return {}

    def merged(self, others: list[Self]) -> BundleConfig:
        """Return the configuration of the average of this bundle and others.

        Args:
            others: The other bundles of the average.
        """
        return self.config

    def why_not_averaged(self, other: "Bundle") -> str:
        """Return why another bundle of the same model cannot be averaged with this one, or "".

        `{first}` in the text stands for the path of this bundle.

        Args:
            other: The other bundle.
        """
        return ""


Kinds = Mapping[str, type[Bundle]]
"""The class of the bundles of each task."""
