"""Settings in the `config.json` of every bundle: its format, and the scores of its model."""

import math
from typing import Any, Self

from pydantic import Field

from crosshead.config import Config

FORMAT = 1
"""The version of the bundle's layout. Newer versions cannot be read."""


class BundleScore(Config):
    """A score on a test set, with its signature, as the model card lists it."""

    # The metric's name as sacreBLEU writes it: `BLEU`, `chrF2`, `TER`.
    metric: str
    value: float
    # sacreBLEU's signature.
    signature: str
    # The name of the test set, or `validation`.
    test_set: str
    # The number of digits after the point for people.
    digits: int = Field(default=2, ge=0, le=10)
    # The ends of the 95 % interval, if it was measured.
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
