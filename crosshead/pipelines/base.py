"""The base of all pipelines."""

from typing import ClassVar

import torch

from crosshead.bundle.io import Bundle
from crosshead.models.base import Model


class Pipeline:
    """A bundle as a function on text: what all of them are."""

    does: ClassVar[str]
    """A phrase that says in a message what the bundle does."""
    verb: ClassVar[str]
    """The command that does it."""

    def __init__(self, bundle: Bundle) -> None:
        self.bundle = bundle
        self.tokenizer = bundle.target_tokenizer

    @property
    def model(self) -> Model:
        """The bundle's model, a plain `torch.nn.Module`."""
        return self.bundle.model

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return next(self.model.parameters()).device

    @property
    def context(self) -> int:
        """The tokens that the model saw at once in training: of sources, or of text by itself."""
        return self.bundle.config.longest_source
