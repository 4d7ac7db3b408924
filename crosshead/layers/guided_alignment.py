"""The loss of guided alignment: attention weights beside known alignments."""

import torch
from jaxtyping import Float
from torch import Tensor

GUIDED_HEAD = 0
"""The head that guided alignment trains."""

_LEAST = 1e-6
"""This is added to the weights, so that a weight of zero has a finite loss."""


def alignment_loss(
    weights: Float[Tensor, "B T S"], alignment: Float[Tensor, "B T S"]
) -> Float[Tensor, ""]:
    """Return the cross-entropy of attention weights, as the sum over all target tokens, in nats.

    A target token without alignments adds nothing.

    Reference:
        Chen et al. 2016, "Guided Alignment Training for Topic-Aware Neural Machine Translation";
        Garg et al. 2019, "Jointly Learning to Align and Translate with Transformer Models".
    """
    # 16-bit numbers are too coarse for the logarithm.
    precise = weights.to(torch.promote_types(weights.dtype, torch.float32))
    return -(alignment.to(precise.dtype) * (precise + _LEAST).log()).sum()
