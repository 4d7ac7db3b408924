"""The origin of an imported model, which its bundle and those tuned from it name."""

from pydantic import Field

from crosshead.bundle.card import inline_code
from crosshead.config import Config


class ImportOrigin(Config):
    """The origin of an imported model, which a model that is fine-tuned from it keeps."""

    # The kind of model that was imported, such as `huggingface`.
    kind: str
    # The name of its directory, without the folders above.
    name: str
    # The SHA-256 of the file of its weights.
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")

    def __str__(self) -> str:
        """Return the origin as a clause of a model card."""
        return (
            f"{inline_code(self.name)}, a model of kind {self.kind} (SHA-256 of its weights: "
            f"`{self.sha256}`)"
        )
