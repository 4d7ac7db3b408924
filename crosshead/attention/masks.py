"""Attention masks: predicates of (batch, head, query, key) that combine with `&`, `|`, `~`.

True always means may attend. A predicate is written for index tensors that broadcast. `dense`
evaluates it for all queries and keys at once, `blocked` only in the blocks where it can be true.
`attend` takes either. None of the patterns below hides the future by itself; combine it with
`causal &`. An impossible mask raises `ValueError` when it is made.
"""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from crosshead.attention.block_sparse import (
    BlockLayout,
    BlockSparseMask,
    LocalBlocks,
    SummaryColumns,
    evaluate_in_blocks,
)

__all__ = [
    "EvaluatedMask",
    "Mask",
    "allowed",
    "causal",
    "dilated",
    "documents",
    "fixed",
    "global_tokens",
    "padding_mask",
    "prefix",
    "same_block",
    "same_column",
    "strided",
    "summaries",
    "window",
]

Predicate = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""A function of batch, head, query and key indices that is True where the query may attend."""

EvaluatedMask = Bool[Tensor, "_ _ _ _"] | BlockSparseMask
"""An evaluated mask: a tensor that broadcasts to `B H Q K`, or a block-sparse mask."""

Cover = tuple[BlockLayout, ...]
"""Block layouts that together hold every pair that a mask may allow."""


class Mask:
    """A predicate over batch, head, query and key positions, and the blocks where it can be true.

    Args:
        predicate: True where a query may attend; it receives index tensors that broadcast.
        covers: Alternative covers of the mask. The one that scores the fewest keys at a length is
            used. Without any, the mask may be true anywhere.
        batch: Number of sentences that the predicate depends on; None if it depends on none.
        heads: Number of heads that the predicate depends on; None if it depends on none.
    """

    def __init__(
        self,
        predicate: Predicate,
        covers: Sequence[Cover] = (),
        *,
        batch: int | None = None,
        heads: int | None = None,
    ) -> None:
        self.predicate = predicate
        self.covers = tuple(covers)
        self.batch, self.heads = batch, heads

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        """Return whether queries may attend to keys. The index tensors broadcast together.

        Args:
            batch: Indices of the sentences.
            head: Indices of the heads.
            query: Positions of the queries.
            key: Positions of the keys.
        """
        return self.predicate(batch, head, query, key)

    def __and__(self, other: "Mask") -> "Mask":
        # Either cover holds every pair that both masks allow.
        covers = self.covers + other.covers
        return self._with(other, lambda b, h, q, k: self(b, h, q, k) & other(b, h, q, k), covers)

    def __or__(self, other: "Mask") -> "Mask":
        covers = [one + another for one in self.covers for another in other.covers]
        return self._with(other, lambda b, h, q, k: self(b, h, q, k) | other(b, h, q, k), covers)

    def _with(self, other: "Mask", predicate: Predicate, covers: Sequence[Cover]) -> "Mask":
        """Return the mask of a combined predicate."""
        return Mask(
            predicate,
            covers,
            batch=_size("sentences", self.batch, other.batch),
            heads=_size("heads", self.heads, other.heads),
        )

    def __invert__(self) -> "Mask":
        return Mask(lambda b, h, q, k: ~self(b, h, q, k), batch=self.batch, heads=self.heads)

    def dense(
        self,
        queries: int,
        keys: int,
        *,
        batch: int | None = None,
        heads: int | None = None,
        offset: int = 0,
        device: torch.device | None = None,
    ) -> Bool[Tensor, "#B #H #Q #K"]:
        """Evaluate the predicate for all pairs.

        Args:
            queries: Number of queries.
            keys: Number of keys.
            batch: Number of sentences; by default the mask's own number, or 1.
            heads: Number of heads; by default the mask's own number, or 1.
            offset: Position of the first query. The keys before it are in the cache.
            device: Device of the result.

        Returns:
            A tensor that broadcasts to "B H Q K". Axes that the predicate ignores have size 1.

        Raises:
            ValueError: If the mask is made for another number of sentences or heads.
        """
        batch, heads = self._sizes(batch, heads)
        b = torch.arange(batch, device=device).view(-1, 1, 1, 1)
        h = torch.arange(heads, device=device).view(1, -1, 1, 1)
        q = torch.arange(offset, offset + queries, device=device).view(1, 1, -1, 1)
        k = torch.arange(keys, device=device).view(1, 1, 1, -1)
        return self(b, h, q, k)

    def blocked(
        self,
        length: int,
        *,
        batch: int | None = None,
        heads: int | None = None,
        device: torch.device | None = None,
    ) -> BlockSparseMask:
        """Evaluate the predicate over a sequence and itself, in the blocks of a cover only.

        Args:
            length: Number of positions of the sequence.
            batch: Number of sentences; by default the mask's own number, or 1.
            heads: Number of heads; by default the mask's own number, or 1.
            device: Device of the result.

        Returns:
            The block-sparse mask.

        Raises:
            ValueError: If the mask may be true anywhere, or is made for another number of sentences
                or heads.
        """
        if not self.covers:
            raise ValueError(
                "this mask may allow any pair and has no blocks; evaluate it with `dense`, or "
                "narrow it by `&` and a pattern: window, dilated, strided or fixed"
            )
        batch, heads = self._sizes(batch, heads)
        return evaluate_in_blocks(self.predicate, self._cover(length), length, batch, heads, device)

    def evaluate(
        self,
        queries: int,
        keys: int,
        *,
        batch: int | None = None,
        heads: int | None = None,
        offset: int = 0,
        device: torch.device | None = None,
    ) -> EvaluatedMask:
        """Return `blocked` if a sequence attends to itself and blocks save work, else `dense`.

        Args:
            queries: Number of queries.
            keys: Number of keys.
            batch: Number of sentences; by default the mask's own number, or 1.
            heads: Number of heads; by default the mask's own number, or 1.
            offset: Position of the first query. The keys before it are in the cache.
            device: Device of the result.

        Returns:
            The evaluated mask.

        Raises:
            ValueError: If the mask is made for another number of sentences or heads.
        """
        if queries == keys and offset == 0 and self._in_blocks(keys):
            return self.blocked(keys, batch=batch, heads=heads, device=device)
        return self.dense(queries, keys, batch=batch, heads=heads, offset=offset, device=device)

    def _sizes(self, batch: int | None, heads: int | None) -> tuple[int, int]:
        """Return the numbers of sentences and heads to evaluate the predicate for."""
        batch, heads = _size("sentences", self.batch, batch), _size("heads", self.heads, heads)
        return 1 if batch is None else batch, 1 if heads is None else heads

    def _cover(self, length: int) -> Cover:
        """Return the cover that scores the fewest keys in a sequence of this length."""
        return min(self.covers, key=lambda cover: _keys_of(cover, length))

    def _in_blocks(self, length: int) -> bool:
        """Return whether a sequence is long enough for blocks to save work."""
        if not self.covers:
            return False
        return _keys_of(self._cover(length), length) * MIN_SAVING <= length


def _keys_of(cover: Cover, length: int) -> int:
    return sum(layout.keys_per_query(length) for layout in cover)


def _size(noun: str, known: int | None, given: int | None) -> int | None:
    """Return the size that is known; raise `ValueError` if two known sizes differ."""
    if known is None or given is None:
        return given if known is None else known
    if known != given:
        raise ValueError(
            f"this mask is made for {known} {noun} and used with {given}; make it for {given}"
        )
    return known


MIN_SAVING = 2
"""Blocks are used if they score each query against at least this many times fewer keys. With a
smaller saving, dense attention is as fast."""

causal = Mask(lambda b, h, q, k: k <= q)
"""The causal mask: no position sees a later one (Vaswani et al. 2017, section 3.2.3)."""


def _check(name: str, found: int, least: int, most: int | None = None) -> None:
    """Raise `ValueError` unless the argument lies within its bounds, both included."""
    if found < least or (most is not None and found > most):
        expected = f"{least} or more" if most is None else f"{least} to {most}"
        raise ValueError(f"{name}: expected {expected}, found {found}")


def _check_axes(name: str, found: Tensor, axes: str) -> None:
    """Raise `ValueError` unless the tensor has as many axes as named."""
    if found.dim() != len(axes.split()):
        shape = " x ".join(map(str, found.shape)) or "no axis"
        raise ValueError(f"{name}: expected a tensor {axes}, found one of {shape}")


def padding_mask(valid: Bool[Tensor, "B K"]) -> Mask:
    """Return a mask that hides padding.

    Args:
        valid: True for the keys of each sentence, False for padding, "B K".

    Returns:
        The mask, made for `B` sentences.

    Raises:
        ValueError: If `valid` does not have two axes.
    """
    _check_axes("valid", valid, "B K")
    return Mask(lambda b, h, q, k: valid[b, k], batch=len(valid))


def allowed(table: Bool[Tensor, "Q K"]) -> Mask:
    """Return the mask of a matrix.

    Args:
        table: True where the query of the row may attend to the key of the column, "Q K".

    Returns:
        The mask.

    Raises:
        ValueError: If `table` does not have two axes.
    """
    _check_axes("table", table, "Q K")
    return Mask(lambda b, h, q, k: table[q, k])


def prefix(length: int | Int[Tensor, " B"]) -> Mask:
    """Return a mask under which every position sees the first positions.

    `causal | prefix(n)` is the mask of a prefix language model.

    Args:
        length: Number of positions in the prefix, of all sentences or of each one, "B".

    Returns:
        The mask.

    Raises:
        ValueError: If `length` is a negative number, or a tensor that does not have one axis.

    Reference:
        Raffel et al. 2020, section 3.2.1.
    """
    if isinstance(length, int):
        _check("length", length, 0)
        return Mask(lambda b, h, q, k: k < length)
    _check_axes("length", length, "B")
    return Mask(lambda b, h, q, k: k < length[b], batch=len(length))


def documents(ids: Int[Tensor, "B T"]) -> Mask:
    """Return a mask that separates the documents that share a sequence.

    Args:
        ids: Number of the document at each position, "B T".

    Returns:
        The mask: positions see positions of the same document.

    Raises:
        ValueError: If `ids` does not have two axes.
    """
    _check_axes("ids", ids, "B T")
    return Mask(lambda b, h, q, k: ids[b, q] == ids[b, k], batch=len(ids))


def global_tokens(positions: Sequence[int]) -> Mask:
    """Return a mask of tokens that see every position and that every position sees.

    This is the paper's global attention.

    Args:
        positions: Positions of the global tokens.

    Returns:
        The mask.

    Raises:
        ValueError: If a position is negative.

    Reference:
        Beltagy et al. 2020, section 3.1.
    """
    _check("positions", min(positions, default=0), 0)

    def predicate(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        chosen = torch.tensor(positions, dtype=torch.long, device=q.device)
        return torch.isin(q, chosen) | torch.isin(k, chosen)

    return Mask(predicate)


def window(radius: int) -> Mask:
    """Return the mask of a sliding window.

    The paper calls this "restricted" self-attention.

    Args:
        radius: Number of neighbours that a position sees on each side.

    Returns:
        The mask.

    Raises:
        ValueError: If `radius` is negative.

    Reference:
        Vaswani et al. 2017, section 4.
    """
    return dilated(radius, 1)


def dilated(radius: int, dilation: int) -> Mask:
    """Return the mask of a dilated sliding window.

    Args:
        radius: Number of positions that a position sees on each side.
        dilation: Distance between these positions.

    Returns:
        The mask.

    Raises:
        ValueError: If `radius` is negative or `dilation` is below 1.

    Reference:
        Beltagy et al. 2020, section 3.1.
    """
    _check("radius", radius, 0)
    _check("dilation", dilation, 1)
    # Measured on a CPU: products of smaller blocks are slower, and larger blocks score more pairs
    # that are masked.
    return Mask(
        lambda b, h, q, k: ((q - k).abs() <= radius * dilation) & ((q - k) % dilation == 0),
        [(LocalBlocks(dilation, min(max(radius, 32), 64), radius, radius),)],
    )


def same_column(stride: int) -> Mask:
    """Return the second mask of strided attention, A^(2).

    Args:
        stride: Positions a multiple of `stride` apart see each other.

    Returns:
        The mask.

    Raises:
        ValueError: If `stride` is below 1.

    Reference:
        Child et al. 2019, section 4.3.
    """
    _check("stride", stride, 1)
    return Mask(lambda b, h, q, k: (q - k) % stride == 0, [(LocalBlocks(stride),)])


def strided(stride: int) -> Mask:
    """Return the mask of strided attention, both parts merged.

    In every head, a position sees the neighbours up to `stride` positions away, A^(1) (`window`),
    and every `stride`-th position, A^(2) (`same_column`).

    Args:
        stride: The paper's l.

    Returns:
        The mask.

    Raises:
        ValueError: If `stride` is below 1.

    Reference:
        Child et al. 2019, section 4.3.
    """
    _check("stride", stride, 1)
    return window(stride) | same_column(stride)


def same_block(length: int) -> Mask:
    """Return the first mask of fixed attention, A^(1).

    Args:
        length: Positions of the same block of this length see each other.

    Returns:
        The mask.

    Raises:
        ValueError: If `length` is below 1.

    Reference:
        Child et al. 2019, section 4.3.
    """
    _check("length", length, 1)
    return Mask(lambda b, h, q, k: q // length == k // length, [(LocalBlocks(1, length),)])


def summaries(length: int, columns: int) -> Mask:
    """Return the second mask of fixed attention, A^(2).

    Args:
        length: Length of a block.
        columns: Number of positions at the end of each block that every position sees.

    Returns:
        The mask.

    Raises:
        ValueError: If `length` or `columns` is below 1, or `columns` is above `length`.

    Reference:
        Child et al. 2019, section 4.3.
    """
    _check("length", length, 1)
    _check("columns", columns, 1, most=length)
    return Mask(
        lambda b, h, q, k: k % length >= length - columns, [(SummaryColumns(length, columns),)]
    )


def fixed(length: int, columns: int) -> Mask:
    """Return the mask of fixed attention, both parts merged.

    In every head, a position sees its own block, A^(1) (`same_block`), and the last positions of
    every block, A^(2) (`summaries`).

    Args:
        length: The paper's l, the length of a block.
        columns: The paper's c, the number of positions at the end of a block that all see.

    Returns:
        The mask.

    Raises:
        ValueError: If `length` or `columns` is below 1, or `columns` is above `length`.

    Reference:
        Child et al. 2019, section 4.3.
    """
    return same_block(length) | summaries(length, columns)
