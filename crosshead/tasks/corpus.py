"""The data of a run, for all tasks: the interface between training and its data."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from crosshead.bundle.card import CardFile
from crosshead.data.batching import Epoch
from crosshead.data.parallel.corpora import DataConfig
from crosshead.data.text.tokenizers import Tokenizer, TokenizerConfig
from crosshead.recipe.recipe import Recipe


class Stopped(Exception):
    """Somebody has asked for the end while the text was read, or weights were judged."""


@dataclass(frozen=True)
class Corpus(ABC):
    """The data of a run, tokenized: what is trained on and what is validated on."""

    tokenizer: TokenizerConfig
    """Settings of the tokenizers, with the chosen vocabulary size."""
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    """The tokenizer of each side; monolingual text has the same one for both."""
    files: list[CardFile]
    """The files that were read."""

    unit = "pair"
    """Noun for what `size` counts."""
    bound = "data.max_length"
    """The setting that bounds the length of a row."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The amount of training data."""

    @property
    @abstractmethod
    def reach(self) -> int:
        """Tokens of the longest source that is trained on, or of a window of text."""

    @property
    @abstractmethod
    def lengths(self) -> np.ndarray:
        """The tokens of all rows that are trained on, side by side: as those of an `Epoch`."""

    @abstractmethod
    def epochs(self, recipe: Recipe) -> Callable[[int], Epoch]:
        """Return the training rows of an epoch, as a function of (seed, epoch)."""

    @abstractmethod
    def sha256(self) -> str:
        """The checksum of all that is trained and validated on, as ids and in this order."""

    @abstractmethod
    def origin(self, row: int) -> str:
        """Return the origin of a row, for messages."""

    @abstractmethod
    def tokens(self, row: int) -> str:
        """Return the number of tokens of a row, as text."""

    @abstractmethod
    def opening(self, data: DataConfig) -> list[str]:
        """Return a line about the training and validation data, followed by warnings."""

    @abstractmethod
    def validation(self, data: DataConfig) -> str:
        """Return a clause on the origin of the validation set; `data` names its files."""

    @abstractmethod
    def left_out(self) -> dict[str, int]:
        """Return the number of rows left out of training, by reason."""

    @abstractmethod
    def write_files(self, out: Path, names: Mapping[str, str]) -> None:
        """Write what was left out and held out into `out`.

        Args:
            out: The run directory.
            names: What each file of the text is called there, by the name it is read under.
        """

    @abstractmethod
    def records(self, epoch: Epoch, rows: Sequence[int]) -> tuple[str, str]:
        """Rows of an epoch as the text of a file to train on, and a clause that says how."""
