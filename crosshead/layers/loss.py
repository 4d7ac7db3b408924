"""Label-smoothed cross-entropy as sums and counts, fused with the output projection.

Sums, not means: a batch split into parts, or over processes, then adds up to exactly the same loss.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

CHUNK = 512
"""Rows of logits that are held at a time: their block stays in the processor's cache."""


@dataclass(frozen=True)
class LossSums:
    """The sums that a batch adds to an epoch."""

    loss: Float[Tensor, ""]
    """The sum over tokens of the label-smoothed loss, in nats; differentiable."""
    nll: Float[Tensor, ""]
    """The sum of plain negative log-likelihoods, in nats."""
    count: int
    """The number of tokens."""


def fused_cross_entropy(
    features: Float[Tensor, "N D"],
    weight: Float[Tensor, "V D"],
    bias: Float[Tensor, " V"] | None,
    target: Int[Tensor, " N"],
    smoothing: float,
) -> LossSums:
    """Cross-entropy against (1 - eps) on the target and eps/V on everything (Szegedy et al. 2016).

    The logits are `features @ weight.T + bias`, and eps is `smoothing`: 0.1 in Vaswani et al. 2017,
    section 5.4. They are made, used and forgotten a few hundred rows at a time, never `N V` at
    once, and the gradients are computed on the way, while the block is at hand. The softmax sums in
    float32 at least, and so do all other sums; its values are rounded to the type of the features
    for the products with them. On a CPU in bfloat16 the loss is read from those: a token's to 0.004
    nats, to either side, for which a softmax in float32 would cost as much as all else here.
    """
    with_gradients = torch.is_grad_enabled()  # always false inside the function's forward
    loss, nll = _FusedCrossEntropy.apply(features, weight, bias, target, smoothing, with_gradients)
    return LossSums(loss, nll.detach(), target.shape[0])


class _Gradients(NamedTuple):
    """Gradients of the summed loss by features `N D`, weight `V D` and bias `V` (may be None)."""

    features: Tensor
    weight: Tensor
    bias: Tensor | None


class _FusedCrossEntropy(torch.autograd.Function):
    """With z = h W^T + b, P = softmax(z) and z_t the target's logit, a token has loss and gradient

        -log P_t + eps (z_t - mean(z))      and      P - (1 - eps) 1_t - eps/V.

    mean(z) = h . mean(W) + mean(b): smoothing needs no pass over the vocabulary. Neither the ones
    nor the eps/V are ever written into P: they act on rows and columns of the products with it.
    """

    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        target: Tensor,
        smoothing: float,
        with_gradients: bool,
    ) -> tuple[Tensor, Tensor]:
        """The two sums; the gradients of the first are computed where anything needs them."""
        h, w = features.detach(), weight.detach()
        wide = torch.promote_types(w.dtype, torch.float32)
        mean_weight = w.to(wide).mean(dim=0)
        gradients = None
        if with_gradients and any(ctx.needs_input_grad):
            gradients = _Gradients(
                torch.empty_like(h),
                torch.zeros(w.shape, dtype=wide, device=w.device),
                None if bias is None else torch.zeros_like(bias, dtype=wide),
            )
        nll = torch.zeros((), dtype=wide, device=w.device)
        for start in range(0, h.shape[0], CHUNK):
            block = slice(start, start + CHUNK)
            logits = F.linear(h[block], w, bias)
            p = logits.softmax(dim=-1)
            nll += _negative_log_likelihood(logits, p, target[block])
            if gradients is not None:
                torch.mm(p, w, out=gradients.features[block])
                gradients.weight.add_(p.T @ h[block])
                if gradients.bias is not None:
                    gradients.bias.add_(p.sum(dim=0, dtype=wide))
        if gradients is not None:
            _subtract_targets(gradients, h, w, target, smoothing, mean_weight)
            ctx.save_for_backward(
                *(None if part is None else part.to(w.dtype) for part in gradients)
            )
        return nll + smoothing * _excess_of_target(h, w, bias, target, mean_weight), nll

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Tensor | None, ...]:
        """The stored gradients times that of the sum; they have no derivatives themselves."""
        grad_loss = outputs[0]
        found = [
            None if part is None else part * grad_loss.to(part.dtype) for part in ctx.saved_tensors
        ]
        return *found, None, None, None


def _negative_log_likelihood(logits: Tensor, p: Tensor, target: Tensor) -> Tensor:
    """The sum of -log P(target), in float32 at least."""
    wide = torch.promote_types(logits.dtype, torch.float32)
    if (
        logits.device.type != "cpu" or logits.dtype == torch.float16
    ):  # float16 has few small numbers
        return F.cross_entropy(logits.to(wide), target, reduction="sum")
    p_target = p.gather(1, target[:, None]).squeeze(1).to(wide)
    smallest = torch.finfo(p.dtype).tiny
    nll = -p_target.clamp_min(smallest).log()
    lost = p_target < smallest
    if bool(lost.any()):
        exact = F.cross_entropy(logits[lost].to(wide), target[lost], reduction="none")
        nll = nll.masked_scatter(lost, exact)
    return nll.sum()


def _excess_of_target(
    h: Tensor, w: Tensor, bias: Tensor | None, target: Tensor, mean_weight: Tensor
) -> Tensor:
    """The sum over tokens of z_t - mean(z)."""
    wide = mean_weight.dtype
    excess = (h.to(wide) * (w[target].to(wide) - mean_weight)).sum()
    if bias is not None:
        excess = excess + (bias.to(wide)[target] - bias.to(wide).mean()).sum()
    return excess


def _subtract_targets(
    gradients: _Gradients,
    h: Tensor,
    w: Tensor,
    target: Tensor,
    smoothing: float,
    mean_weight: Tensor,
) -> None:
    """Turn the products with P into the products with P - (1 - eps) 1_t - eps/V, in place."""
    vocabulary, wide = w.shape[0], mean_weight.dtype
    wanted = w[target].to(wide) * (1 - smoothing) + smoothing * mean_weight
    gradients.features.sub_(wanted.to(h.dtype))
    gradients.weight.index_add_(0, target, h.to(wide), alpha=smoothing - 1)
    gradients.weight.sub_(smoothing / vocabulary * h.to(wide).sum(dim=0))
    if gradients.bias is not None:
        counts = torch.bincount(target, minlength=vocabulary).to(wide)
        gradients.bias.sub_((1 - smoothing) * counts + smoothing / vocabulary * target.shape[0])
