"""The base of all pipelines: a bundle as a callable."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from crosshead.bundle.base import Bundle
from crosshead.bundle.card import Words
from crosshead.bundle.text_bundle import TextBundle
from crosshead.errors import ConfigError
from crosshead.models.base import AttentionKind, Model
from crosshead.text.streams import pieces_of
from crosshead.text.tokenizers import Tokenizer

LONGEST_SCORED = 4096
"""The largest number of tokens of a side that can be scored. The memory of attention grows with its
square."""


class AttentionInputs(NamedTuple):
    """The inputs of a model, and the labels on the axes of its attention."""

    inputs: tuple[Tensor, ...]
    queries: list[str]
    keys: list[str]
    pixels: np.ndarray | None = None
    """The image whose patches are the keys, "H W C"; None if the keys are no patches."""


class Pipeline(ABC):
    """The base of pipelines, which make a bundle a callable on raw input.

    Args:
        bundle: The bundle of a trained model.
    """

    does: ClassVar[str]
    """A phrase for messages that says what the model does."""
    verb: ClassVar[str]
    """The command of the task."""
    usage: ClassVar[str]
    """A line on how to use the bundle. `{command}` stands for the program with this verb, and
    `{bundle}` for the bundle."""

    @classmethod
    def usage_of(cls, config: Any) -> str:
        """Return `usage` with the options that a bundle needs.

        Args:
            config: The configuration of the bundle.
        """
        return cls.usage

    def __init__(self, bundle: Any) -> None:
        self.bundle: Bundle = bundle

    def __repr__(self) -> str:
        """Return a short description, for a notebook."""
        config = self.model.config
        return f"<{type(self).__name__}: {config.architecture}, {config.shape()}, on {self.device}>"

    @property
    def model(self) -> Model:
        """The bundle's model, a plain `torch.nn.Module`."""
        return self.bundle.model

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return next(self.model.parameters()).device

    @classmethod
    @abstractmethod
    def words(cls, config: Any) -> Words:
        """Return the words of a model card for a bundle.

        Args:
            config: The configuration of the bundle.
        """

    def facts(self) -> list[list[str]]:
        """Return task-specific facts about the bundle, as rows of a name and a value."""
        return []

    def attention_inputs(
        self, text: str, target: str | None, kind: AttentionKind
    ) -> AttentionInputs:
        """Return the inputs with which a model reads a whole text at once.

        Args:
            text: The text.
            target: The target text of a decoder, or None.
            kind: The kind of attention to look at.

        Raises:
            ConfigError: If the model does not read text, or takes no target.
            DataError: If the text is longer than the model reads at once.
        """
        raise ConfigError(f"this model {self.does}: it reads no text")


class TextPipeline(Pipeline):
    """The base of pipelines on text."""

    bundle: TextBundle

    def __init__(self, bundle: Bundle) -> None:
        super().__init__(bundle)
        self.tokenizer: Tokenizer = self.bundle.target_tokenizer

    @property
    def context(self) -> int:
        """The number of tokens that the model saw at once in training.

        They are tokens of a source, or of a window of monolingual text.
        """
        return self.bundle.config.longest_source

    def facts(self) -> list[list[str]]:
        """Return the tokenizers, the languages, the licence and the origin."""
        config, bundle = self.bundle.config, self.bundle
        kinds = [bundle.source_tokenizer.kind, bundle.target_tokenizer.kind]
        sizes = [config.source_vocabulary, config.target_vocabulary]
        if config.joint_tokenizer:
            vocabulary = f"{kinds[0]}, {sizes[0]:,} pieces"
            vocabulary += " for both sides" if config.model.vocabularies == 2 else ""
        else:
            vocabulary = f"{kinds[0]}, {sizes[0]:,} pieces; {kinds[1]}, {sizes[1]:,} pieces"
        rows = [["tokenizer", vocabulary]]
        known = [config.source_language, config.target_language]
        if config.target_languages:
            rows.append(["languages", f"to {' and '.join(config.target_languages)}, by a tag"])
        elif any(known):
            rows.append(["languages", " to ".join(code or "unknown" for code in known)])
        if config.license:
            rows.append(["licence", config.license])
        if config.origin:
            rows.append(["made from", str(config.origin)])
        return rows

    def _read_alone(self, ids: list[int], target: str | None) -> AttentionInputs:
        """Return the inputs for monolingual text, whose pieces are queries and keys."""
        if target is not None:
            raise ConfigError(
                f"this model {self.does}, it does not translate; leave the target out"
            )
        pieces = pieces_of(self.tokenizer, ids)
        return AttentionInputs((torch.tensor([ids], device=self.device),), pieces, pieces)


def patch_names(rows: int) -> list[str]:
    """Return the names of patches, row by row: their row and column, from 1."""
    numbers = range(1, rows + 1)
    return [f"{row},{column}" for row in numbers for column in numbers]
