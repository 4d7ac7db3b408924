"""The origin of an imported model."""

from pydantic import Field

from crosshead.bundle.places import HubPlace
from crosshead.config import Config

BUNDLE = "crosshead"
"""The kind of a bundle that was downloaded from a hub."""


class ImportOrigin(Config):
    """The origin of an imported model, which a model that is fine-tuned from it keeps."""

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
        from crosshead.bundle.card import inline_code  # others need no cards

        hub = f", downloaded as {inline_code(str(self.hub))}" if self.hub else ""
        return (
            f"{inline_code(self.name)}, a model of kind {self.kind} (SHA-256 of its weights: "
            f"`{self.sha256}`){hub}"
        )
