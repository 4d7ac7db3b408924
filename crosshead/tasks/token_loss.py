"""The loss of models that predict tokens."""

from typing import Any, Protocol

from torch import Tensor, nn

from crosshead.data.batching import Batch
from crosshead.layers.loss import LossSums, fused_cross_entropy
from crosshead.vocabulary import PAD


class Predicts(Protocol):
    """The parts of a model that a loss needs."""

    projection: nn.Linear

    def features(self, *inputs: Any, **named: Any) -> Tensor:
        """Return the hidden states that the projection turns into logits."""
        ...


def batch_loss(model: Predicts, batch: Batch, smoothing: float) -> LossSums:
    """The loss of a batch as sums over its target tokens; padding is left out."""
    features = model.features(*batch.inputs)
    tokens = batch.target_output != PAD
    return fused_cross_entropy(
        features[tokens],
        model.projection.weight,
        model.projection.bias,
        batch.target_output[tokens],
        smoothing,
    )
