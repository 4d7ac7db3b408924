"""Label-smoothed cross-entropy as sums and counts: in plain form, and fused with the projection.

`label_smoothed_cross_entropy` is the definition. `fused_cross_entropy` computes the same numbers
without all logits in memory, and is tested equal to it. Losses are sums, not means: the
microbatches of a batch, in one process or several, then add up to exactly the same loss.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

CHUNK = 512
"""The number of rows of logits that a CPU computes at a time; such a block fits its cache."""

IGNORED = -100
"""A target that adds nothing to a loss: padding, in a batch whose shape may not depend on it."""

GPU_LOGITS = 2**25
"""The number of logits that a GPU computes at a time, in each view, because small blocks leave most
of it idle. They are 128 MiB in float32, and a loss holds a few tensors of this size."""


@dataclass(frozen=True)
class CrossEntropy:
    """The cross-entropy of the target tokens of a batch, as sums.

    Attributes:
        loss: Sum of the label-smoothed losses, in nats; differentiable.
        nll: Sum of the negative log-likelihoods, in nats.
        count: Number of tokens.
    """

    loss: Float[Tensor, ""]
    nll: Float[Tensor, ""]
    count: int


def label_smoothed_cross_entropy(
    logits: Float[Tensor, "N V"], target: Int[Tensor, " N"], smoothing: float
) -> CrossEntropy:
    """Compute cross-entropy against smoothed labels, from all logits at once.

    The target distribution is 1 - eps on the target token plus eps/V on every token.

    Reference:
        Szegedy et al. 2016, section 7; Vaswani et al. 2017, section 5.4 (eps = 0.1).
    """
    log_probs = logits.log_softmax(dim=-1)
    nll = -log_probs.gather(1, target[:, None]).sum()
    loss = (1 - smoothing) * nll - smoothing * log_probs.mean(dim=-1).sum()
    return CrossEntropy(loss, nll.detach(), target.shape[0])


def fused_cross_entropy(
    hidden: Float[Tensor, "N D"],
    weight: Float[Tensor, "V D"],
    bias: Float[Tensor, " V"] | None,
    target: Int[Tensor, " N"],
    smoothing: float,
) -> CrossEntropy:
    """Compute `label_smoothed_cross_entropy` of the logits `hidden @ weight.T + bias`.

    Only a block of rows has logits in memory at a time (`rows_at_once`), never "N V". The gradients
    of a block are computed while it is there. The softmax and all other sums accumulate in float32
    at least. The probabilities are then rounded to the type of the hidden states for the products
    with them. On a CPU in bfloat16 the loss is read from the rounded probabilities, which is exact
    to 0.004 nats per token in either direction. A softmax in float32 would take as long as
    everything else here.

    Rows whose target is `IGNORED` add nothing; `count` counts them.

    Reference:
        Szegedy et al. 2016, section 7; Vaswani et al. 2017, section 5.4 (eps = 0.1).
    """
    with_gradients = torch.is_grad_enabled()  # always false inside the function's forward
    loss, nll = _FusedCrossEntropy.apply(hidden, weight, bias, target, smoothing, with_gradients)
    return CrossEntropy(loss, nll.detach(), target.shape[0])


def rows_at_once(weight: Float[Tensor, "V D"], on_cpu: int) -> int:
    """Return the number of rows whose logits are computed at a time.

    On a CPU it is `on_cpu`. Elsewhere it is the number of rows with `GPU_LOGITS` logits, or
    `on_cpu` if that is more.
    """
    if weight.device.type == "cpu":
        return on_cpu
    return max(on_cpu, GPU_LOGITS // weight.shape[0])


class _Gradients(NamedTuple):
    """Gradients of the summed loss: by hidden states `N D`, weight `V D` and bias `V`."""

    hidden: Tensor
    weight: Tensor
    bias: Tensor | None


class StoredGradients(torch.autograd.Function):
    """A function whose `forward` stores the gradients of its first output by its first inputs."""

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Tensor | None, ...]:
        """Return the stored gradients times the gradient of the first output."""
        stored, by_loss = ctx.saved_tensors, outputs[0]
        found = [None if part is None else part * by_loss.to(part.dtype) for part in stored]
        return *found, *[None] * (len(ctx.needs_input_grad) - len(found))


class _FusedCrossEntropy(StoredGradients):
    """The autograd function of `fused_cross_entropy`.

    With z = h W^T + b, P = softmax(z) and z_t the target's logit, a token has loss and gradient

        -log P_t + eps (z_t - mean(z))      and      P - (1 - eps) 1_t - eps/V.

    Smoothing needs no pass over the vocabulary, because mean(z) = h . mean(W) + mean(b). The terms
    1_t and eps/V are never written into P. They are subtracted from rows and columns of the
    products with P.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        target: Tensor,
        smoothing: float,
        with_gradients: bool,
    ) -> tuple[Tensor, Tensor]:
        """Return both sums, and compute the gradients of the first if anything needs them."""
        w = weight.detach()
        kept = (target != IGNORED).to(hidden.dtype)[:, None]
        h = hidden.detach() * kept
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
        rows = rows_at_once(w, CHUNK)
        for start in range(0, h.shape[0], rows):
            block = slice(start, start + rows)
            logits = F.linear(h[block], w, bias)
            p = logits.softmax(dim=-1)
            nll += _negative_log_likelihood(logits, p, target[block])
            if gradients is not None:
                torch.mm(p, w, out=gradients.hidden[block])
                gradients.weight.add_(p.T @ h[block])
                if gradients.bias is not None:
                    gradients.bias.add_((p * kept[block]).sum(dim=0, dtype=wide))
        target = target.clamp_min(0)
        if gradients is not None:
            _subtract_targets(gradients, h, w, target, kept, smoothing, mean_weight)
            ctx.save_for_backward(
                *(None if part is None else part.to(w.dtype) for part in gradients)
            )
        return nll + smoothing * _excess_of_target(h, w, bias, target, kept, mean_weight), nll


def _negative_log_likelihood(logits: Tensor, p: Tensor, target: Tensor) -> Tensor:
    """Return the sum of -log P(target), in float32 at least."""
    wide = torch.promote_types(logits.dtype, torch.float32)
    # Small probabilities underflow in float16.
    if logits.device.type != "cpu" or logits.dtype == torch.float16:
        return F.cross_entropy(logits.to(wide), target, ignore_index=IGNORED, reduction="sum")
    p_target = p.gather(1, target.clamp_min(0)[:, None]).squeeze(1).to(wide)
    p_target = p_target.masked_fill(target == IGNORED, 1.0)
    smallest = torch.finfo(p.dtype).tiny
    nll = -p_target.clamp_min(smallest).log()
    lost = p_target < smallest
    if bool(lost.any()):
        exact = F.cross_entropy(logits[lost].to(wide), target[lost], reduction="none")
        nll = nll.masked_scatter(lost, exact)
    return nll.sum()


def _excess_of_target(
    h: Tensor,
    w: Tensor,
    bias: Tensor | None,
    target: Tensor,
    kept: Tensor,
    mean_weight: Tensor,
) -> Tensor:
    """Return the sum over tokens of z_t - mean(z)."""
    wide = mean_weight.dtype
    excess = (h.to(wide) * (w[target].to(wide) - mean_weight)).sum()
    if bias is not None:
        excess = excess + kept[:, 0].to(wide) @ (bias.to(wide)[target] - bias.to(wide).mean())
    return excess


def _subtract_targets(
    gradients: _Gradients,
    h: Tensor,
    w: Tensor,
    target: Tensor,
    kept: Tensor,
    smoothing: float,
    mean_weight: Tensor,
) -> None:
    """Turn the products with P into the products with P - (1 - eps) 1_t - eps/V, in place."""
    vocabulary, wide = w.shape[0], mean_weight.dtype
    wanted = w[target].to(wide) * (1 - smoothing) + smoothing * mean_weight
    gradients.hidden.sub_(wanted.to(h.dtype)).mul_(kept)
    gradients.weight.index_add_(0, target, h.to(wide), alpha=smoothing - 1)
    gradients.weight.sub_(smoothing / vocabulary * h.to(wide).sum(dim=0))
    if gradients.bias is not None:
        counted = kept[:, 0].to(wide)
        gradients.bias.index_add_(0, target, counted, alpha=smoothing - 1)
        gradients.bias.sub_(smoothing / vocabulary * counted.sum())
