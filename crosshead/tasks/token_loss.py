"""The loss of models that predict tokens."""

from typing import NamedTuple

from crosshead.data.batching import Batch
from crosshead.layers.loss import fused_cross_entropy
from crosshead.models.base import TokenModel
from crosshead.recipe.train import TrainConfig
from crosshead.tasks.validation import Loss
from crosshead.vocabulary import PAD


class LabelSmoothing(NamedTuple):
    """Label smoothing alone, for a loss without a recipe."""

    label_smoothing: float
    """The share of probability that goes to all tokens (Vaswani et al. 2017, section 5.4)."""


def token_loss(model: TokenModel, batch: Batch, settings: TrainConfig | LabelSmoothing) -> Loss:
    """Return the cross-entropy of the target tokens, without padding.

    Args:
        model: The model.
        batch: The batch.
        settings: The settings; the loss depends on their label smoothing.

    Returns:
        The sums `loss`, with label smoothing, and `nll`, without, both in nats.
    """
    hidden = model.features(*batch.inputs)
    tokens = batch.target_output != PAD
    found = fused_cross_entropy(
        hidden[tokens],
        model.projection.weight,
        model.projection.bias,
        batch.target_output[tokens],
        settings.label_smoothing,
    )
    return Loss({"loss": found.loss, "nll": found.nll}, found.count)
