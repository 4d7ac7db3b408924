"""Validation: the metrics of a task, and the quality of some weights by them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from crosshead.bundle.io import Bundle
from crosshead.bundle.weights import set_weights
from crosshead.recipe.recipe import Recipe
from crosshead.tasks.corpus import Corpus, Stopped
from crosshead.tasks.usability import Findings

C = TypeVar("C", bound=Corpus)
R = TypeVar("R", bound=Recipe)
B = TypeVar("B", bound=Bundle)


class Metric(NamedTuple):
    """A number that validation computes."""

    name: str
    """Its name in the log, and in `train.metric` of a recipe."""
    label: str
    """Its name for people."""
    higher_is_better: bool
    digits: int = 2
    search: str = ""
    """The search behind it, where validation during training searches in a way of its own."""

    def shown(self, value: float) -> str:
        """Return the metric with a value, for people."""
        search = f" ({self.search})" if self.search else ""
        return f"{self.label}{search} {value:.{self.digits}f}"


LOSS = Metric("loss", "loss", higher_is_better=False, digits=3)
"""The loss that training minimises, on the validation set."""


@dataclass(frozen=True)
class Loss:
    """The loss of a batch."""

    sums: dict[str, Tensor]
    """Sums over the predictions of the batch, by name. Training minimises `loss`."""
    count: int
    """The number of predictions."""


class Validation(NamedTuple):
    """The quality of some weights on the validation set."""

    values: Mapping[str, float]
    """Values by their name in the log: those of the task's metrics, and others."""

    def score(self, metrics: Sequence[Metric], chosen: str) -> list[float]:
        """Return the values to maximise: of the chosen metric first, the others decide ties."""
        ordered = sorted(metrics, key=lambda metric: metric.name != chosen)
        return [
            self.values[each.name] * (1 if each.higher_is_better else -1)
            for each in ordered
            if each.name in self.values
        ]

    def clause(self, metrics: Sequence[Metric]) -> str:
        """Return the metrics, for people."""
        return "  ".join(metric.shown(self.values[metric.name]) for metric in metrics)


class Validator(ABC, Generic[R, C, B]):
    """Validates weights that somebody else trains, in float32.

    All methods raise `Stopped`, after the batch under way, once `should_stop` returns true.

    Args:
        recipe: The run.
        corpus: Its data.
        reach: See `Corpus.reach`.
        device: Where the validated model computes.
        loss: The loss of a batch.
        should_stop: Returns whether somebody has asked for the end of the run.
    """

    def __init__(
        self,
        recipe: R,
        corpus: C,
        reach: int,
        device: torch.device,
        loss: Callable[[Any, Any], Loss],
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self.recipe, self.corpus, self.device = recipe, corpus, device
        self.loss, self.should_stop = loss, should_stop
        config = corpus.bundle_config(recipe, reach)
        model = corpus.kind.build(config).eval()
        self.bundle: B = corpus.bundle(config, model.to(device))

    def bundle_of(self, weights: dict[str, Tensor]) -> B:
        """Return the bundle with these weights; the next call changes it."""
        set_weights(self.bundle.model, weights)
        return self.bundle

    @abstractmethod
    def how(self) -> str:
        """Return a few words on the search or the context behind the scores."""

    @abstractmethod
    def validate(self, weights: dict[str, Tensor]) -> Validation:
        """Return the loss on the validation set, and the other metrics of the task."""

    @abstractmethod
    def findings(self, weights: dict[str, Tensor]) -> Findings:
        """Return the scores of the bundle with these weights, and samples of its output."""

    @property
    def validations_to_score(self) -> float:
        """Estimated duration of the end of the run (last validation and scoring), in units of one
        validation.
        """
        return 1.0

    def means(self, batches: Iterable[Any]) -> dict[str, float]:
        """Return the means of the loss's sums over all predictions of some batches."""
        sums: dict[str, float] = {}
        count = 0
        with torch.inference_mode():
            for batch in batches:
                self.check()
                found = self.loss(self.bundle.model, batch.to(self.device))
                for name, value in found.sums.items():
                    sums[name] = sums.get(name, 0.0) + float(value)
                count += found.count
        return {name: value / count for name, value in sums.items()}

    def check(self) -> None:
        """Raise `Stopped` if somebody has asked for the end of the run."""
        if self.should_stop():
            raise Stopped
