"""The loss of models that predict tokens."""

from crosshead.data.batching import Batch
from crosshead.layers.loss import fused_cross_entropy
from crosshead.models.base import TokenModel
from crosshead.tasks.validation import Loss
from crosshead.vocabulary import PAD


def token_loss(model: TokenModel, batch: Batch, smoothing: float) -> Loss:
    """Return the cross-entropy of a batch as sums over its target tokens, without padding.

    Args:
        model: A model of tokens.
        batch: The inputs and the tokens to predict.
        smoothing: The share of the target distribution that is spread over all tokens.

    Returns:
        The sums `loss`, with label smoothing, and `nll`, without, both in nats, and the number of
        tokens.
    """
    hidden = model.features(*batch.inputs)
    tokens = batch.target_output != PAD
    found = fused_cross_entropy(
        hidden[tokens],
        model.projection.weight,
        model.projection.bias,
        batch.target_output[tokens],
        smoothing,
    )
    return Loss({"loss": found.loss, "nll": found.nll}, found.count)
