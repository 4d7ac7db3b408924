"""The loss of two views of a batch: cross-entropy, and the divergence between their predictions.

A view is a forward pass of the same tokens with its own dropout or, for SimCut, also with some
tokens cut.
`two_view_loss` is the definition. `fused_two_view_loss` computes the same numbers without all
logits in memory, and is tested equal to it. Losses are sums, not means, as in
`crosshead.layers.loss`.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from crosshead.layers.loss import (
    IGNORED,
    StoredGradients,
    label_smoothed_cross_entropy,
    rows_at_once,
)

CHUNK = 256
"""The number of tokens whose logits a CPU computes at a time, in both views."""


class ViewWeights(NamedTuple):
    """The weights of the terms of a loss of two views."""

    second: float
    """The share of the cross-entropy that belongs to the second view, from 0 to 1."""
    forward: float
    """The weight of KL(first || second)."""
    backward: float
    """The weight of KL(second || first)."""


@dataclass(frozen=True)
class TwoViewLoss:
    """The loss of the target tokens of a batch in two views, as sums.

    Attributes:
        loss: Sum of the label-smoothed cross-entropies and the weighted divergences, in nats;
            differentiable.
        nll: Sum of the negative log-likelihoods, in nats, by the shares of the views.
        divergence: Sum of the weighted divergences, in nats: their part of `loss`.
        count: Number of tokens.
    """

    loss: Float[Tensor, ""]
    nll: Float[Tensor, ""]
    divergence: Float[Tensor, ""]
    count: int


def two_view_loss(
    logits: Float[Tensor, "2 N V"], target: Int[Tensor, " N"], smoothing: float, by: ViewWeights
) -> TwoViewLoss:
    """Compute cross-entropies and divergences of two views, from all logits at once.

    Args:
        logits: Logits of the first and of the second view, "2 N V".
        target: Ids of the target tokens, "N".
        smoothing: The paper's eps.
        by: The weights of the terms.

    Returns:
        The sums over the tokens.

    Reference:
        Liang et al. 2021, "R-Drop: Regularized Dropout for Neural Networks"; Gao et al. 2022,
        "Bi-SimCut: A Simple Strategy for Boosting Neural Machine Translation".
    """
    one, other = (label_smoothed_cross_entropy(view, target, smoothing) for view in logits)
    nll = (1 - by.second) * one.nll + by.second * other.nll
    first, second = logits.log_softmax(dim=-1)
    forward = (first.exp() * (first - second)).sum()
    backward = (second.exp() * (second - first)).sum()
    divergence = by.forward * forward + by.backward * backward
    loss = (1 - by.second) * one.loss + by.second * other.loss + divergence
    return TwoViewLoss(loss, nll, divergence.detach(), target.shape[0])


def fused_two_view_loss(
    hidden: Float[Tensor, "2 N D"],
    weight: Float[Tensor, "V D"],
    bias: Float[Tensor, " V"] | None,
    target: Int[Tensor, " N"],
    smoothing: float,
    by: ViewWeights,
) -> TwoViewLoss:
    """Compute `two_view_loss` of the logits `hidden @ weight.T + bias`.

    Only a block of tokens has logits in memory at a time (`rows_at_once`), never "N V". The
    gradients of a block are computed while it is there, and each view's logits are computed once
    for both terms. Probabilities are computed in float32 at least, because a divergence is a small
    difference of large numbers.

    Args:
        hidden: Last hidden states of the first and of the second view, "2 N D".
        weight: Matrix of the output projection, "V D".
        bias: Bias of the output projection, "V".
        target: Ids of the target tokens, "N"; rows of `IGNORED` add nothing.
        smoothing: The paper's eps.
        by: The weights of the terms.

    Returns:
        The sums over the tokens. Second derivatives are not supported.

    Reference:
        Liang et al. 2021, "R-Drop: Regularized Dropout for Neural Networks"; Gao et al. 2022,
        "Bi-SimCut: A Simple Strategy for Boosting Neural Machine Translation".
    """
    with_gradients = torch.is_grad_enabled()  # always false inside the function's forward
    loss, nll, divergence = _FusedTwoViewLoss.apply(
        hidden, weight, bias, target, smoothing, by, with_gradients
    )
    return TwoViewLoss(loss, nll.detach(), divergence.detach(), target.shape[0])


class _FusedTwoViewLoss(StoredGradients):
    """The autograd function of `fused_two_view_loss`."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        target: Tensor,
        smoothing: float,
        by: ViewWeights,
        with_gradients: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the sums, and compute the gradients of the loss, if an input needs them."""
        w = weight.detach()
        kept = (target != IGNORED).to(hidden.dtype)[:, None]
        h, target = hidden.detach() * kept, target.clamp_min(0)
        wide = torch.promote_types(w.dtype, torch.float32)
        needed = with_gradients and any(ctx.needs_input_grad)
        if needed:
            by_hidden = torch.empty_like(h)
            by_weight = torch.zeros(w.shape, dtype=wide, device=w.device)
            by_bias = None if bias is None else torch.zeros_like(bias, dtype=wide)
        sums = torch.zeros(3, dtype=wide, device=w.device)
        step = rows_at_once(w, CHUNK)
        for start in range(0, target.shape[0], step):
            rows = h[:, start : start + step]
            logits = F.linear(rows, w, bias)
            log_probs = logits.log_softmax(dim=-1, dtype=wide)
            block = target[start : start + step], kept[start : start + step]
            found, slopes = _terms(log_probs, *block, smoothing, by, needed)
            sums += found
            if slopes is not None:
                flat = slopes.to(w.dtype).flatten(0, 1)
                by_hidden[:, start : start + step] = (flat @ w).view_as(rows)
                by_weight.add_(flat.T @ rows.flatten(0, 1))
                if by_bias is not None:
                    by_bias.add_((slopes * block[1]).sum(dim=(0, 1)))
        if needed:
            by_hidden.mul_(kept)
            parts = by_hidden, by_weight, by_bias
            ctx.save_for_backward(*(None if part is None else part.to(w.dtype) for part in parts))
        loss, nll, divergence = sums.unbind()
        return loss, nll, divergence


def _terms(
    log_probs: Tensor,
    target: Tensor,
    kept: Tensor,
    smoothing: float,
    by: ViewWeights,
    needed: bool,
) -> tuple[Tensor, Tensor | None]:
    """Return the sums of a block, and gradients of the loss with respect to the logits if needed.

    With P and Q the views' probabilities and z their logits, the gradients of the divergences are

        d KL(P || Q) / d z_P = P (log P - log Q - KL(P || Q))   and   d KL(P || Q) / d z_Q = Q - P.
    """
    places = target.expand(2, -1)[..., None]
    shares, counted = (1 - by.second, by.second), kept[:, 0].to(log_probs.dtype)
    nll = -_weighted(shares, log_probs.gather(2, places).squeeze(2) @ counted)
    uniform = -_weighted(shares, log_probs.sum(dim=2) @ counted) / log_probs.shape[2]
    probs = log_probs.exp()
    excess = log_probs[0] - log_probs[1]
    forward = torch.einsum("nv,nv->n", probs[0], excess)
    backward = -torch.einsum("nv,nv->n", probs[1], excess)
    divergence = by.forward * (forward @ counted) + by.backward * (backward @ counted)
    loss = (1 - smoothing) * nll + smoothing * uniform + divergence
    sums = torch.stack([loss, nll, divergence])
    if not needed:
        return sums, None
    slopes = torch.empty_like(log_probs)
    each = ((by.forward, by.backward, forward), (by.backward, by.forward, backward))
    for view, (out, back, own) in enumerate(each):
        sign = out if view == 0 else -out
        factor = torch.add((shares[view] + back - out * own)[:, None], excess, alpha=sign)
        torch.mul(probs[view], factor, out=slopes[view])
        slopes[view].sub_(probs[1 - view], alpha=back)
        wanted = torch.full_like(places[view], -(1 - smoothing) * shares[view], dtype=slopes.dtype)
        slopes[view].scatter_add_(1, places[view], wanted)
        slopes[view].sub_(smoothing / log_probs.shape[2] * shares[view])
    return sums, slopes


def _weighted(shares: tuple[float, float], views: Tensor) -> Tensor:
    """Return the weighted sum of one number of each view."""
    return shares[0] * views[0] + shares[1] * views[1]
