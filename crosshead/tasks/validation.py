"""Validation: the metrics of a task, and the evaluation of weights."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from crosshead.bundle.base import Bundle
from crosshead.bundle.weights import set_weights
from crosshead.recipe.recipe import Recipe
from crosshead.tasks.corpus import Corpus, Stopped
from crosshead.tasks.usability import Findings

C = TypeVar("C", bound=Corpus)
R = TypeVar("R", bound=Recipe)
B = TypeVar("B", bound=Bundle)


OLD = "old_"
"""The beginning of the names of values that are measured on the old domain of a fine-tuned run."""


class Metric(NamedTuple):
    """A number that validation computes."""

    name: str
    """The name in the log, and in `train.metric` of a recipe."""
    label: str
    """The name for people."""
    higher_is_better: bool
    digits: int = 2
    search: str = ""
    """The search behind the metric, if validation does not use the search of the recipe."""
    chance: float = -math.inf
    """If the best value of a run is at most this one, chance decides among the values, and the
    other metrics choose the weights."""

    def shown(self, value: float) -> str:
        """Return the metric with a value, as text for people.

        Args:
            value: The value.
        """
        search = f" ({self.search})" if self.search else ""
        return f"{self.label}{search} {value:.{self.digits}f}"


LOSS = Metric("loss", "loss", higher_is_better=False, digits=3)
"""The training loss, computed on the validation set."""


@dataclass(frozen=True)
class Loss:
    """The loss of a batch, whatever its task."""

    sums: dict[str, Tensor]
    """Sums over the predictions of the batch, by name. Training minimises `loss`."""
    count: int
    """The number of predictions."""


class Validation(NamedTuple):
    """The results of a validation."""

    values: Mapping[str, float]
    """Values by their names in the log: the metrics of the task, and others."""

    def score(self, metrics: Sequence[Metric], chosen: str) -> list[float]:
        """Return values to maximise: the chosen metric, and then the others.

        Args:
            metrics: The metrics of the task.
            chosen: The name of the metric that chooses checkpoints.
        """
        ordered = sorted(metrics, key=lambda metric: metric.name != chosen)
        return [
            self.values[each.name] * (1 if each.higher_is_better else -1)
            for each in ordered
            if each.name in self.values
        ]

    @staticmethod
    def is_better(
        score: Sequence[float], best: Sequence[float], metrics: Sequence[Metric], chosen: str
    ) -> bool:
        """Return whether a score is better than the best one so far.

        Values of the chosen metric that are at most its `chance` count as equal, so that the other
        metrics decide between them.

        Args:
            score: The values of a validation, as `score` returns them.
            best: The best values so far.
            metrics: The metrics of the task.
            chosen: The name of the metric that chooses checkpoints.
        """
        chance = next(metric.chance for metric in metrics if metric.name == chosen)
        return [max(score[0], chance), *score[1:]] > [max(best[0], chance), *best[1:]]

    def clause(self, metrics: Sequence[Metric]) -> str:
        """Return the metrics as text for people.

        The loss with label smoothing is followed by the negative log-likelihood, which has none.

        Args:
            metrics: The metrics of the task.
        """
        nll = self.values.get("nll", self.values.get("loss"))
        return "  ".join(
            metric.shown(self.values[metric.name])
            + (f" (nll {nll:.3f})" if metric == LOSS and nll != self.values["loss"] else "")
            for metric in metrics
        )


class Validator(ABC, Generic[R, C, B]):
    """The base of validators, which compute metrics of given weights in float32.

    If `should_stop` returns true, all methods raise `Stopped` after the current batch.

    Args:
        recipe: The settings of the run.
        corpus: The data of the run.
        longest_input: See `Corpus.longest_input`.
        device: The device of the validated model.
        loss: The loss of a batch.
        should_stop: Returns whether the run should stop.
    """

    def __init__(
        self,
        recipe: R,
        corpus: C,
        longest_input: int,
        device: torch.device,
        loss: Callable[[Any, Any], Loss],
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self.recipe, self.corpus, self.device = recipe, corpus, device
        self.loss, self.should_stop = loss, should_stop
        config = corpus.bundle_config(recipe, longest_input)
        model = corpus.kind.build(config).eval()
        self.bundle: B = corpus.bundle(config, model.to(device))

    def bundle_of(self, weights: dict[str, Tensor]) -> B:
        """Return the bundle with these weights. The next call changes it.

        Args:
            weights: The weights by name.
        """
        set_weights(self.bundle.model, weights)
        return self.bundle

    @abstractmethod
    def search_description(self) -> str:
        """Return a short description of the search or the context behind the scores."""

    @abstractmethod
    def validate(self, weights: dict[str, Tensor]) -> Validation:
        """Return the loss on the validation set, and the other metrics of the task.

        Args:
            weights: The weights by name.
        """

    @abstractmethod
    def findings(self, weights: dict[str, Tensor]) -> Findings:
        """Return the scores of weights, signs of an unusable model, and samples.

        Args:
            weights: The weights by name.
        """

    @property
    def validations_to_score(self) -> float:
        """The estimated duration of the end of the run, in validations.

        The end of a run is the last validation and the scoring.
        """
        return 1.0

    def means(self, batches: Iterable[Any]) -> dict[str, float]:
        """Return the loss's sums over some batches, divided by the number of predictions.

        Args:
            batches: The batches, on any device.
        """
        sums: dict[str, float] = {}
        count = 0
        with torch.inference_mode():
            for batch in batches:
                self.stop_if_asked()
                found = self.loss(self.bundle.model, batch.to(self.device))
                for name, value in found.sums.items():
                    sums[name] = sums.get(name, 0.0) + float(value)
                count += found.count
        return {name: value / count for name, value in sums.items()}

    def stop_if_asked(self) -> None:
        """Raise `Stopped` if the run should stop."""
        if self.should_stop():
            raise Stopped
