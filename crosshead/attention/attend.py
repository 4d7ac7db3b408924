"""`attend`: the one place where scores become weights and weights become values.

    Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V      Vaswani et al. 2017, section 3.2.1, Eq. 1

`attend` takes the mask, the score, the combination, the observer and the backend as arguments.
`explicit` is the equation written out. Faster forms compute the same result in special cases, and
the tests hold them equal to it: `sdpa`, `block_sparse`, `softmax_of_few_keys`,
`weighted_sum_of_one_query` and `scores.products_of_one_query`.

Axes: `B` batch, `H` heads, `Q` query positions, `K` key positions, `E` per-head width.
"""

import math
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from crosshead.attention.block_sparse import BlockSparseMask, MaskedLayout
from crosshead.attention.dropout import dropout as apply_dropout
from crosshead.attention.masks import Mask
from crosshead.attention.scores import RelativeOffset, ScaledDot, Score

FEW_KEYS = 16
"""The vector width of a CPU in float32 numbers; shorter rows of scores have their own softmax."""

FUSED_FROM, MASKED_FUSED_FROM = 32, 64
"""The numbers of keys, without and with a mask, from which `sdpa` is the faster one on a CPU."""

FEW_QUERIES = 256
"""The number of queries of all heads and rows up to which `sdpa` is the faster one for any keys."""

Combine = Callable[[Tensor, Tensor, RelativeOffset], Tensor]
"""A function of weights `B H Q K`, values `B H K E` and their distances that returns the outputs `B
H Q E`."""

Observe = Callable[[Tensor], None]
"""A function that receives the weights `B H Q K` of every call, before dropout."""


def weighted_sum(
    weights: Float[Tensor, "B H Q K"],
    value: Float[Tensor, "#B #H K E"],
    relative: RelativeOffset = RelativeOffset(),  # noqa: B008 - immutable
) -> Float[Tensor, "B H Q E"]:
    """Return the sum of the values times the weights, for every query."""
    if weights.shape[-2] == 1 and weights.dtype == torch.float32 and weights.device.type == "cpu":
        return weighted_sum_of_one_query(weights, value)
    return weights @ value


@runtime_checkable
class Backend(Protocol):
    """A function that computes attention. `attend` never gives it a query without an allowed key.

    `relative` holds the distances of all queries and keys. A block-sparse mask has its own
    distances for each layout.
    """

    def __call__(
        self,
        query: Float[Tensor, "B H Q E"],
        key: Float[Tensor, "#B #H K Ek"],
        value: Float[Tensor, "#B #H K Ev"],
        *,
        score: Score,
        mask: Bool[Tensor, "#B #H #Q #K"] | BlockSparseMask | None,
        combine: Combine,
        relative: RelativeOffset,
        dropout: float,
        observe: Observe | None,
    ) -> Float[Tensor, "B H Q Ev"]:
        """Compute the outputs of attention."""
        ...


def attend(
    query: Float[Tensor, "B H Q E"],
    key: Float[Tensor, "#B #H K Ek"],
    value: Float[Tensor, "#B #H K Ev"],
    *,
    mask: Mask | Bool[Tensor, "#B #H #Q #K"] | BlockSparseMask | None = None,
    score: Score = ScaledDot(),  # noqa: B008 - immutable
    combine: Combine = weighted_sum,
    offset: int = 0,
    dropout: float = 0.0,
    observe: Observe | None = None,
    backend: Backend | None = None,
) -> Float[Tensor, "B H Q Ev"]:
    """Compute attention: a weighted sum of the values of all allowed keys, for every query.

    Implements softmax(Q K^T / sqrt(d_k)) V.

    Args:
        query: Queries, "B H Q E".
        key: Keys, "B H K Ek"; B and H may be 1 to broadcast.
        value: Values, "B H K Ev"; B and H may be 1 to broadcast.
        mask: Boolean, broadcastable to "B H Q K"; True means may attend. A `Mask` object is
            evaluated here; evaluate the mask once if you reuse it. The mask of a sequence over
            itself may be block-sparse (`masks.Mask.blocked`). Then only the pairs in its blocks
            take time and memory.
        score: Function that scores every query against every key.
        combine: Function that turns weights and values into outputs.
        offset: Number of positions from the first key to the first query. Masks use it, and scores
            that depend on distances.
        dropout: Share of the weights to drop; 0 outside training.
        observe: Function that receives the weights as a matrix "B H Q K", before dropout.
        backend: The function that computes attention. The default is `sdpa` if it can compute this
            attention and is the faster one (`is_faster_fused`): on a GPU always, on a CPU from 32
            keys on, or 64 with a mask, and for few queries. Otherwise it is `explicit`.

    Returns:
        Outputs, "B H Q Ev". A query without any allowed key gets zeros and passes no gradient; a
        softmax over no keys would be NaN.

    Raises:
        ValueError: If a block-sparse mask was built for another length or is given to `sdpa`, or if
            a score needs positions that a block does not have (`RelativeOffset`).

    Reference:
        Vaswani et al. 2017, section 3.2.1, Eq. 1.
    """
    if isinstance(mask, Mask):
        evaluate = mask.dense if backend is sdpa else mask.evaluate  # `sdpa` computes no blocks
        (batch, heads, queries, _), keys = query.shape, key.shape[2]
        mask = evaluate(queries, keys, batch=batch, heads=heads, offset=offset, device=query.device)
    if backend is None:
        backend = explicit
        if not isinstance(mask, BlockSparseMask) and _is_fusable(score, combine, observe):
            backend = sdpa if is_faster_fused(query, key, mask, dropout) else explicit
    reachable = None
    if isinstance(mask, BlockSparseMask):
        _check_length(mask, query, key, offset)
        reachable = mask.reachable
    elif mask is not None:
        reachable = mask.any(dim=-1, keepdim=True)
        mask = mask | ~reachable
    if observe is not None and reachable is not None:
        observe = _without_unreachable(observe, reachable)
    output = backend(
        query, key, value,
        score=score, mask=mask, combine=combine, relative=RelativeOffset(offset), dropout=dropout,
        observe=observe,
    )  # fmt: skip
    return output if reachable is None else output * reachable.to(output.dtype)


def explicit(
    query: Float[Tensor, "B H Q E"],
    key: Float[Tensor, "#B #H K Ek"],
    value: Float[Tensor, "#B #H K Ev"],
    *,
    score: Score,
    mask: Bool[Tensor, "#B #H #Q #K"] | BlockSparseMask | None,
    combine: Combine,
    relative: RelativeOffset,
    dropout: float,
    observe: Observe | None,
) -> Float[Tensor, "B H Q Ev"]:
    """Compute attention as Eq. 1 writes it; every other form is tested equal to this one.

    This `Backend` takes every score, mask and combination, and shows the weights.
    """
    if isinstance(mask, BlockSparseMask):
        return block_sparse(query, key, value, score, mask, combine, dropout, observe)
    scores = score(query, key, relative)
    if mask is not None:
        # Infinite, because a score may lie anywhere in the range of its type, float16 included.
        # Added, because an addition is vectorised and its backward pass does no work.
        scores = scores + torch.where(mask, 0.0, -math.inf).to(scores.dtype)
    weights = softmax(scores).to(value.dtype)
    if observe is not None:
        observe(weights)
    return combine(apply_dropout(weights, dropout), value, relative)


def softmax(scores: Float[Tensor, "B H Q K"]) -> Float[Tensor, "B H Q K"]:
    """Return the softmax over the keys.

    PyTorch accumulates its sums in float32 at least, for any type of score.
    """
    if scores.shape[-1] < FEW_KEYS and scores.device.type == "cpu":
        return softmax_of_few_keys(scores)
    return scores.softmax(dim=-1)


def softmax_of_few_keys(scores: Float[Tensor, "B H Q K"]) -> Float[Tensor, "B H Q K"]:
    """Return the softmax over the keys, computed along the queries.

    PyTorch vectorises a softmax over the last axis of a CPU tensor from 16 numbers on only. A
    softmax over the first axis is several times faster for shorter rows, copies included.
    """
    return scores.movedim(-1, 0).contiguous().softmax(dim=0).movedim(0, -1).contiguous()


def weighted_sum_of_one_query(
    weights: Float[Tensor, "B H 1 K"], value: Float[Tensor, "#B #H K E"]
) -> Float[Tensor, "B H 1 E"]:
    """Return the weighted sum of the values for a single query.

    A batch of matrix products of one row each is slow on CPUs. This form reads the values once.
    """
    return (weights.transpose(-2, -1) * value).sum(dim=-2, keepdim=True)


def sdpa(
    query: Float[Tensor, "B H Q E"],
    key: Float[Tensor, "#B #H K Ek"],
    value: Float[Tensor, "#B #H K Ev"],
    *,
    score: Score,
    mask: Bool[Tensor, "#B #H #Q #K"] | BlockSparseMask | None,
    combine: Combine,
    relative: RelativeOffset,
    dropout: float,
    observe: Observe | None,
) -> Float[Tensor, "B H Q Ev"]:
    """Compute attention with PyTorch's `F.scaled_dot_product_attention`.

    This `Backend` computes scaled dot products only and shows no weights.
    """
    if isinstance(mask, BlockSparseMask):
        raise ValueError(
            "the sdpa backend cannot compute a block-sparse mask; give backend=explicit, or none"
        )
    if not _is_fusable(score, combine, observe):
        raise ValueError(
            "the sdpa backend computes scaled dot products and plain sums and shows no weights; "
            "use backend=explicit for another score, another combination or to observe"
        )
    assert isinstance(score, ScaledDot)
    return F.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, dropout_p=dropout, scale=score.scale
    )


def block_sparse(
    query: Float[Tensor, "B H T E"],
    key: Float[Tensor, "#B #H T Ek"],
    value: Float[Tensor, "#B #H T Ev"],
    score: Score,
    mask: BlockSparseMask,
    combine: Combine,
    dropout: float,
    observe: Observe | None,
) -> Float[Tensor, "B H T Ev"]:
    """Compute `explicit` attention within the blocks of a mask only.

    A layout moves its blocks into the batch axis. Score and combination then compute a block as
    they compute a short sequence. One softmax covers all blocks that contain a query.
    """
    length, layouts = mask.length, [part.layout for part in mask.parts]
    key, value = (x.expand(query.shape[0], -1, -1, -1) for x in (key, value))
    scores = [
        part.add_to(score(layout.split_queries(query), layout.split_keys(key), layout.relative))
        for layout, part in zip(layouts, mask.parts, strict=True)
    ]
    weights = [each.to(value.dtype) for each in _joint_softmax(scores, mask.parts, length)]
    if observe is not None:
        observe(mask.to_dense(weights))
    outputs = [
        layout.join(
            combine(apply_dropout(each, dropout), layout.split_keys(value), layout.relative), length
        )
        for layout, each in zip(layouts, weights, strict=True)
    ]
    return sum(outputs[1:], start=outputs[0])


def _joint_softmax(
    scores: Sequence[Tensor], parts: Sequence[MaskedLayout], length: int
) -> Sequence[Tensor]:
    """Softmax jointly over all blocks that contain the query; return each block's weights."""
    if len(scores) == 1:
        return [softmax(scores[0])]
    layouts = [part.layout for part in parts]
    rows = [layout.join(each, length) for layout, each in zip(layouts, scores, strict=True)]
    shares = softmax(torch.cat(rows, dim=-1)).split([row.shape[-1] for row in rows], dim=-1)
    return [layout.split_queries(share) for layout, share in zip(layouts, shares, strict=True)]


def _check_length(mask: BlockSparseMask, query: Tensor, key: Tensor, offset: int) -> None:
    """Raise `ValueError` unless the mask was built for these numbers of queries and keys."""
    queries, keys = query.shape[2], key.shape[2]
    if not queries == keys == mask.length or offset:
        raise ValueError(
            f"the block-sparse mask is made for {mask.length} positions that attend to themselves, "
            f"found {queries} queries at offset {offset} and {keys} keys; make it for this length, "
            "or evaluate it with `dense`"
        )


def _is_fusable(score: Score, combine: Combine, observe: Observe | None) -> bool:
    """Return whether `sdpa` can compute this attention."""
    return isinstance(score, ScaledDot) and combine is weighted_sum and observe is None


def is_faster_fused(
    query: Float[Tensor, "B H Q E"],
    key: Float[Tensor, "#B #H K E"],
    mask: Bool[Tensor, "#B #H #Q #K"] | None,
    dropout: float,
) -> bool:
    """Return whether `sdpa` is expected to be faster than `explicit`.

    On a CPU it is from `FUSED_FROM` keys on or up to `FEW_QUERIES`, in float32
    (benchmarks/attention_speed.py). Dropout of the weights is slower in `sdpa` there. Other types
    were not compared.
    """
    if query.device.type != "cpu":
        return True
    enough = FUSED_FROM if mask is None else MASKED_FUSED_FROM
    enough = 0 if math.prod(query.shape[:-1]) <= FEW_QUERIES else enough
    return key.shape[2] >= enough and query.dtype == torch.float32 and not dropout


def _without_unreachable(observe: Observe, reachable: Tensor) -> Observe:
    """Return an observer that receives zeros for the queries without any allowed key."""
    return lambda weights: observe(weights * reachable.to(weights.dtype))


class Attention(nn.Module):
    """A layer that computes attention with one or more heads, and that can be observed.

    Attributes:
        heads: Number of heads.
        observe: If set, receives the weights "B H Q K" of every call, before dropout.
        backend: If set, the backend to use instead of the one that `attend` would choose.
    """

    heads = 1
    observe: Observe | None = None
    backend: Backend | None = None
