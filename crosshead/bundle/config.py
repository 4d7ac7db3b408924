"""Settings in the `config.json` of every bundle: its format, and the scores of its model."""

import math
from typing import Any, ClassVar, Self

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
)

from crosshead.config import Config

FORMAT = 1
"""The version of the bundle's layout. Newer versions cannot be read."""


class SparseConfig(Config):
    """Settings that are stored without some defaults, so that older bundles stay as they are."""

    sparse: ClassVar[tuple[str, ...]] = ()
    """The keys that are not stored if they have their default."""

    @model_serializer(mode="wrap")
    def _without_defaults(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        values: dict[str, Any] = handler(self)
        for key in self.sparse:
            field = type(self).model_fields[key]
            if getattr(self, key) == field.get_default(call_default_factory=True):
                del values[key]
        return values


class BundleScore(SparseConfig):
    """A score on a test set, with its signature, as the model card lists it."""

    sparse: ClassVar[tuple[str, ...]] = ("digits", "low", "high")

    # The metric's name as sacreBLEU writes it: `BLEU`, `chrF2`, `TER`.
    metric: str
    value: float
    # sacreBLEU's signature.
    signature: str
    # The name of the test set, or `validation`.
    test_set: str
    # The number of digits after the point for people.
    digits: int = Field(default=2, ge=0, le=10)
    # The ends of the 95 % interval, if it was measured. Older bundles have none.
    low: float | None = None
    high: float | None = None

    @property
    def shown(self) -> str:
        """The value as text for people."""
        return f"{self.value:.{self.digits}f}"

    @property
    def interval(self) -> str:
        """The 95 % interval as text for people, or an empty string."""
        if self.low is None or self.high is None:
            return ""
        return f"{self.low:.{self.digits}f} to {self.high:.{self.digits}f}"

    @classmethod
    def of(cls, score: Any, test_set: str) -> Self:
        """Return a measured score with the name of its test set.

        Args:
            score: The measured score: its metric, value, signature, `low` and `high`.
            test_set: The name of the test set, or `validation`.
        """
        known = math.isfinite(score.low) and math.isfinite(score.high)
        return cls(
            metric=score.metric,
            value=score.value,
            signature=score.signature,
            test_set=test_set,
            low=float(score.low) if known else None,
            high=float(score.high) if known else None,
        )
