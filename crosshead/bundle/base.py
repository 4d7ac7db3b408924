"""The base of bundles, which each task extends by its own files, and the origin of a model."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import Field

from crosshead.bundle.card import inline_code
from crosshead.bundle.config import BundleConfig, SparseConfig
from crosshead.bundle.places import HubPlace
from crosshead.models.base import Model

BUNDLE = "crosshead"
"""The kind of a bundle that was downloaded from a hub."""


class ImportOrigin(SparseConfig):
    """The origin of an imported model, which a model that is fine-tuned from it keeps."""

    sparse: ClassVar[tuple[str, ...]] = ("hub",)
    # The kind of model that was imported, such as `huggingface`.
    kind: str
    # The name of its directory, without the folders above.
    name: str
    # The SHA-256 of the file of its weights.
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    # The repository and the commit, if the model was downloaded from a hub.
    hub: HubPlace | None = None

    def __str__(self) -> str:
        """Return the origin as a clause of a model card."""
        hub = f", downloaded as {inline_code(str(self.hub))}" if self.hub else ""
        return (
            f"{inline_code(self.name)}, a model of kind {self.kind} (SHA-256 of its weights: "
            f"`{self.sha256}`){hub}"
        )


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
