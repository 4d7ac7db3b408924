"""`attend`: the one place where scores become weights and weights become values.

    Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V      Vaswani et al. 2017, section 3.2.1, Eq. 1

What varies between kinds of attention is handed in: how a query is scored against a key (`score`),
which pairs may attend (`mask`), how weights meet values (`combine`), who looks on (`observe`) and
which kernel computes it (`backend`). Axes: `B` batch, `H` heads, `Q` queries, `K` keys, `E` width.
"""

import math
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from crosshead.attention.blocks import BlockedMask, Fold, Whole
from crosshead.attention.dropout import dropout as thinned
from crosshead.attention.masks import Mask
from crosshead.attention.scores import Grid, ScaledDot, Score

VECTOR = 16
"""Numbers that a CPU's widest registers take at once, in float32."""

Combine = Callable[[Tensor, Tensor, Grid], Tensor]
"""Weights `B H Q K` and values `B H K E`, and where they stand, to outputs `B H Q E`."""

Observe = Callable[[Tensor], None]
"""Is shown the weights `B H Q K` of every call, before dropout."""


def weighted_sum(
    weights: Float[Tensor, "B H Q K"],
    value: Float[Tensor, "#B #H K E"],
    grid: Grid = Grid(),  # noqa: B008 - immutable
) -> Float[Tensor, "B H Q E"]:
    """The plain way in which weights meet values."""
    if weights.shape[-2] == 1 and weights.dtype == torch.float32 and weights.device.type == "cpu":
        # A batch of products of one row each is slow there; this reads the values once.
        return (weights.transpose(-2, -1) * value).sum(dim=-2, keepdim=True)
    return weights @ value


@runtime_checkable
class Backend(Protocol):
    """A kernel. No row of its mask is empty: `attend` sees to that.

    `grid` is that of all queries and keys; a mask in blocks has grids of its own.
    """

    def __call__(
        self,
        query: Float[Tensor, "B H Q E"],
        key: Float[Tensor, "#B #H K Ek"],
        value: Float[Tensor, "#B #H K Ev"],
        *,
        score: Score,
        mask: Bool[Tensor, "#B #H #Q #K"] | BlockedMask | None,
        combine: Combine,
        grid: Grid,
        dropout: float,
        observe: Observe | None,
    ) -> Float[Tensor, "B H Q Ev"]:
        """The outputs `B H Q E`; raises `ValueError` for what this kernel cannot compute."""
        ...


def explicit(
    query: Float[Tensor, "B H Q E"],
    key: Float[Tensor, "#B #H K Ek"],
    value: Float[Tensor, "#B #H K Ev"],
    *,
    score: Score,
    mask: Bool[Tensor, "#B #H #Q #K"] | BlockedMask | None,
    combine: Combine,
    grid: Grid,
    dropout: float,
    observe: Observe | None,
) -> Float[Tensor, "B H Q Ev"]:
    """Attention written out: every score, mask and combination, and the weights can be seen.

    All pairs are one block; of a mask in blocks, one softmax goes over what all of them score.
    """
    length = query.shape[2]
    if isinstance(mask, BlockedMask):
        parts: Sequence[tuple[Fold, Tensor | None]] = mask.parts
        key, value = (x.expand(query.shape[0], -1, -1, -1) for x in (key, value))
    else:
        # Infinite, so that no score of an allowed key is lower, in float16 either.
        parts = [(Whole(grid), None if mask is None else torch.where(mask, 0.0, -math.inf))]
    scores = [
        _plus(score(fold.fold(query), fold.fold_keys(key), fold.grid), addend)
        for fold, addend in parts
    ]
    weights = [each.to(value.dtype) for each in _shares(scores, parts, length)]
    if observe is not None:
        observe(mask.spread(weights) if isinstance(mask, BlockedMask) else weights[0])
    outputs = [
        fold.unfold(combine(thinned(each, dropout), fold.fold_keys(value), fold.grid), length)
        for (fold, _), each in zip(parts, weights, strict=True)
    ]
    return sum(outputs[1:], start=outputs[0])


def sdpa(
    query: Float[Tensor, "B H Q E"],
    key: Float[Tensor, "#B #H K Ek"],
    value: Float[Tensor, "#B #H K Ev"],
    *,
    score: Score,
    mask: Bool[Tensor, "#B #H #Q #K"] | BlockedMask | None,
    combine: Combine,
    grid: Grid,
    dropout: float,
    observe: Observe | None,
) -> Float[Tensor, "B H Q Ev"]:
    """PyTorch's fused kernel: scaled dot products only, and nobody sees the weights."""
    if isinstance(mask, BlockedMask):
        raise ValueError("blocks are computed by backend=explicit alone; give that, or none")
    if not _is_fusable(score, combine, observe):
        raise ValueError(
            "the sdpa backend computes scaled dot products and plain sums and shows no weights; "
            "use backend=explicit for another score, another combination or to observe"
        )
    assert isinstance(score, ScaledDot)
    return F.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, dropout_p=dropout, scale=score.scale
    )


def attend(
    query: Float[Tensor, "B H Q E"],
    key: Float[Tensor, "#B #H K Ek"],
    value: Float[Tensor, "#B #H K Ev"],
    *,
    mask: Mask | Bool[Tensor, "#B #H #Q #K"] | BlockedMask | None = None,
    score: Score = ScaledDot(),  # noqa: B008 - immutable
    combine: Combine = weighted_sum,
    offset: int = 0,
    dropout: float = 0.0,
    observe: Observe | None = None,
    backend: Backend | None = None,
) -> Float[Tensor, "B H Q Ev"]:
    """Compute attention: a weighted sum of the values of all allowed keys, for every query.

    `mask` is True where a query may attend. A `Mask` object is evaluated here; evaluate the mask
    once if you reuse it. `offset` is the number of positions from the first key to the first query
    (`Grid`); masks use it, and scores that depend on distances. A query without any allowed key
    gets zeros and passes no gradient (a softmax over nothing would be NaN).

    `dropout` is the share of weights dropped: 0 outside training. The default `backend` is `sdpa`
    on a GPU if it can compute this attention, and otherwise `explicit`, which on CPUs is no slower
    at the lengths of most sentences.

    A mask of a sequence over itself may be given in blocks (`masks.Mask.blocked`): then only pairs
    within its reach are scored, in time and memory. The outputs are the same, and so are weights
    that are observed, a whole matrix. Raises `ValueError` where other queries or keys are given
    than the blocks are of, for the backend `sdpa`, and, as scores do that need all keys or their
    distances, for those that blocks cannot tell (`Grid`).
    """
    if isinstance(mask, Mask):
        evaluate = mask.dense if backend is sdpa else mask.evaluate  # which computes no blocks
        (batch, heads, queries, _), keys = query.shape, key.shape[2]
        mask = evaluate(queries, keys, batch=batch, heads=heads, offset=offset, device=query.device)
    if isinstance(mask, BlockedMask):
        _check_blocks(mask, query, key, offset)
    if backend is None:
        fused = query.device.type != "cpu" and _is_fusable(score, combine, observe)
        backend = sdpa if fused and not isinstance(mask, BlockedMask) else explicit
    reachable = None
    if isinstance(mask, BlockedMask):
        reachable = mask.reachable
    elif mask is not None:
        reachable = mask.any(dim=-1, keepdim=True)
        mask = mask | ~reachable
    if observe is not None and reachable is not None:
        observe = _only(reachable, observe)
    output = backend(
        query, key, value,
        score=score, mask=mask, combine=combine, grid=Grid(offset), dropout=dropout,
        observe=observe,
    )  # fmt: skip
    return output if reachable is None else output * reachable.to(output.dtype)


def _check_blocks(mask: BlockedMask, query: Tensor, key: Tensor, offset: int) -> None:
    """Raise `ValueError` where other queries or keys are given than the blocks are of."""
    queries, keys = query.shape[2], key.shape[2]
    if not queries == keys == mask.length or offset:
        raise ValueError(
            f"the blocks of this mask are of {mask.length} positions that attend to themselves; "
            f"found {queries} queries behind {offset} of {keys} keys: evaluate the mask as `dense`"
        )


class Attention(nn.Module):
    """A layer that attends, with one head or several, and lets itself be watched.

    `observe`, where set, is shown the weights `B H Q K` of every call, before dropout; `backend`,
    where set, is the kernel in the place of the one that `attend` would choose.
    """

    heads = 1
    observe: Observe | None = None
    backend: Backend | None = None


def _plus(scores: Float[Tensor, "BN H Q K"], addend: Tensor | None) -> Float[Tensor, "BN H Q K"]:
    """Scores and what a mask adds to them, `#B #H #Q #K`, or `#B N #H b k` in blocks."""
    if addend is None:
        return scores
    if addend.dtype != scores.dtype:
        addend = addend.to(scores.dtype)
    # Added, not filled in: an addition is vectorised and has no work to do backwards.
    if addend.dim() == scores.dim():
        return scores + addend
    return (scores.unflatten(0, (-1, addend.shape[1])) + addend).flatten(0, 1)


def _shares(
    scores: Sequence[Tensor], parts: Sequence[tuple[Fold, Tensor | None]], length: int
) -> Sequence[Tensor]:
    """Softmax jointly over all blocks that contain the query; return each block's weights."""
    if len(scores) == 1:
        return [_softmax(scores[0])]
    rows = [fold.unfold(each, length) for (fold, _), each in zip(parts, scores, strict=True)]
    shares = _softmax(torch.cat(rows, dim=-1)).split([row.shape[-1] for row in rows], dim=-1)
    return [fold.fold(share) for (fold, _), share in zip(parts, shares, strict=True)]


def _softmax(scores: Float[Tensor, "B H Q K"]) -> Float[Tensor, "B H Q K"]:
    """The softmax over the keys; PyTorch sums in float32 at least, whatever the scores are.

    Over the last axis it is vectorised on CPUs from 16 keys on only. Over the first it goes along
    the queries: for shorter rows that is several times as fast, the copies included.
    """
    if scores.shape[-1] < VECTOR and scores.device.type == "cpu":
        return scores.movedim(-1, 0).contiguous().softmax(dim=0).movedim(0, -1).contiguous()
    return scores.softmax(dim=-1)


def _is_fusable(score: Score, combine: Combine, observe: Observe | None) -> bool:
    """Return whether PyTorch's fused kernel can compute this attention."""
    return isinstance(score, ScaledDot) and combine is weighted_sum and observe is None


def _only(reachable: Tensor, observe: Observe) -> Observe:
    """Show zeros for the queries that reach no key."""
    return lambda weights: observe(weights * reachable.to(weights.dtype))
