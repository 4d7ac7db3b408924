"""The configuration of a bundle: the contents of its `config.json` without the checksums."""

from typing import Protocol, Self

from pydantic import Field, model_validator

from crosshead import __version__
from crosshead.config import Config
from crosshead.models.registry import AnyConfig

FORMAT = 1
"""The version of the bundle's layout that this crosshead writes, and the newest that it reads."""


class MeasuredScore(Protocol):
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
    def of(cls, score: MeasuredScore, test_set: str) -> Self:
        """A score that was measured on a test set."""
        return cls(
            metric=score.metric, value=score.value, signature=score.signature, test_set=test_set
        )


class BundleConfig(Config):
    """What `config.json` says of every bundle; each kind of bundle adds to it."""

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
                f"task is {self.task!r}, that of architecture {self.model.architecture!r} "
                f"{self.model.task!r}"
            )
        return self
