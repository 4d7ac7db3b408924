"""The configuration of a bundle: what its `config.json` says, but for the checksums."""

from typing import Protocol, Self

from pydantic import Field, model_validator

from crosshead import __version__
from crosshead.config import MOST_TOKENS, MOST_VOCABULARY, Config
from crosshead.data.text.symbols import CONTROL
from crosshead.decoding.search import DecodeConfig
from crosshead.models.base import Task
from crosshead.models.registry import AnyConfig

FORMAT = 1
"""The version of the bundle's layout that this crosshead writes, and the newest that it reads."""


class Measured(Protocol):
    """A value by a metric, and what it takes to compare it."""

    @property
    def metric(self) -> str:
        """Its name."""
        ...

    @property
    def value(self) -> float:
        """The score."""
        ...

    @property
    def signature(self) -> str:
        """A text that says how the score was measured."""
        ...


class BundleScore(Config):
    """A score with what it takes to compare it; the model card lists the same."""

    # The metric's name as sacreBLEU writes it: `BLEU`, `chrF2`, `TER`.
    metric: str
    value: float
    # sacreBLEU's signature.
    signature: str
    # What was translated: a test set's name, or `validation`.
    test_set: str

    @classmethod
    def of(cls, score: Measured, test_set: str) -> Self:
        """A score that was measured on a test set."""
        return cls(
            metric=score.metric, value=score.value, signature=score.signature, test_set=test_set
        )


class BundleConfig(Config):
    """The contents of `config.json`."""

    format: int = Field(default=FORMAT, ge=1)
    # The version of crosshead that wrote the bundle.
    crosshead: str = __version__
    task: Task = "translation"
    model: AnyConfig
    # One tokenizer for both sides (files `tokenizer.*`), or `source.*` and `target.*`.
    joint_tokenizer: bool
    # The number of pieces of each side, which is the number of rows of its embedding.
    source_vocabulary: int = Field(ge=len(CONTROL), le=MOST_VOCABULARY)
    target_vocabulary: int = Field(ge=len(CONTROL), le=MOST_VOCABULARY)
    # Tokens of the longest source in training, without the end token: translation splits beyond it.
    # Of a model of text by itself, those of a window.
    longest_source: int = Field(ge=1, le=MOST_TOKENS)
    # How the model is searched when nothing else is asked for.
    decode: DecodeConfig = Field(default_factory=DecodeConfig)
    # Language codes such as `en`, where they are known.
    source_language: str | None = None
    target_language: str | None = None
    # What its translations scored when it was trained.
    scores: list[BundleScore] = Field(default_factory=list)

    @model_validator(mode="after")
    def _check_task(self) -> Self:
        if self.task != self.model.task:
            raise ValueError(
                f"task is {self.task!r}, that of architecture {self.model.architecture!r} "
                f"{self.model.task!r}"
            )
        return self
