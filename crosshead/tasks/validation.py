"""The result of a validation."""

from collections.abc import Mapping
from typing import NamedTuple


class Validation(NamedTuple):
    """The quality of some weights on the validation set."""

    loss: float
    """Mean label-smoothed loss of a target token, in nats."""
    nll: float
    """Mean negative log-likelihood of a target token, in nats."""
    others: Mapping[str, float]
    """Other metrics by their name in the log: `bleu` of greedy translations."""

    def score(self, metric: str) -> list[float]:
        """Return the maximised values: the metric first, the other for ties."""
        values = {"loss": -self.loss}
        values |= {name: value for name, value in self.others.items() if name == "bleu"}
        return [values.pop(metric), *values.values()]

    def values(self) -> dict[str, float]:
        """All of it, for the log."""
        return {"loss": self.loss, "nll": self.nll, **self.others}

    def clause(self) -> str:
        """All of it, for people."""
        names = {"bleu": "BLEU (greedy)", "bits_per_character": "bits per character"}
        parts = [f"loss {self.loss:.3f}"]
        parts += [f"{names[name]} {value:.2f}" for name, value in self.others.items()]
        return "  ".join(parts)
