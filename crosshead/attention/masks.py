"""Who may attend to whom: predicates of (batch, head, query, key) that combine with `&`, `|`, `~`.

True = may attend, everywhere. A predicate is written for index tensors that broadcast: `dense`
evaluates it for all queries and keys at once, `blocked` in the blocks alone where it can be true,
and `attend` takes either. None of the patterns below rules the future out by itself: `causal &`
does.
"""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from crosshead.attention.blocks import BlockedMask, Blocks, Layout, Summaries, evaluated

Predicate = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]

EvaluatedMask = Bool[Tensor, "_ _ _ _"] | BlockedMask
"""A mask as `attend` takes it: a tensor that broadcasts to `B H Q K`, or blocks of one."""


class Mask:
    """A predicate over batch, head, query and key positions, and its reach where that is limited.

    `reach` is layouts whose blocks together hold every pair that may be allowed; none at all stands
    for anywhere.
    """

    def __init__(self, predicate: Predicate, reach: tuple[Layout, ...] = ()) -> None:
        self.predicate = predicate
        self.reach = reach

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        """Whether `query` may attend to `key`, for index tensors that broadcast together."""
        return self.predicate(batch, head, query, key)

    def __and__(self, other: "Mask") -> "Mask":
        # What both allow is within the reach of either.
        reach = self.reach or other.reach
        return Mask(lambda b, h, q, k: self(b, h, q, k) & other(b, h, q, k), reach)

    def __or__(self, other: "Mask") -> "Mask":
        reach = self.reach + other.reach if self.reach and other.reach else ()
        return Mask(lambda b, h, q, k: self(b, h, q, k) | other(b, h, q, k), reach)

    def __invert__(self) -> "Mask":
        return Mask(lambda b, h, q, k: ~self(b, h, q, k))

    def dense(
        self,
        queries: int,
        keys: int,
        *,
        batch: int = 1,
        heads: int = 1,
        offset: int = 0,
        device: torch.device | None = None,
    ) -> Bool[Tensor, "#B #H #Q #K"]:
        """The predicate as a tensor that broadcasts to `B H Q K`.

        Axes that the predicate does not look at stay of size 1. `offset` is the position of the
        first query: keys that came before it are in the cache.
        """
        b = torch.arange(batch, device=device).view(-1, 1, 1, 1)
        h = torch.arange(heads, device=device).view(1, -1, 1, 1)
        q = torch.arange(offset, offset + queries, device=device).view(1, 1, -1, 1)
        k = torch.arange(keys, device=device).view(1, 1, 1, -1)
        return self(b, h, q, k)

    def blocked(
        self,
        length: int,
        *,
        batch: int = 1,
        heads: int = 1,
        device: torch.device | None = None,
    ) -> BlockedMask:
        """The predicate over a sequence and itself, evaluated within its reach alone.

        Raises `ValueError` for a mask that may be true anywhere.
        """
        if not self.reach:
            raise ValueError(
                "this mask may allow any pair and has no blocks; evaluate it as `dense`, or narrow "
                "it with `&` and a pattern of limited reach (window, dilated, strided, fixed)"
            )
        return evaluated(self.predicate, self.reach, length, batch, heads, device)

    def scored(self, length: int) -> int:
        """The number of keys that a query is scored against, once evaluated over a sequence.

        Of blocks, some may yet be cut off where nobody may see them.
        """
        return self._seen(length) if self._in_blocks(length) else length

    def evaluate(
        self,
        queries: int,
        keys: int,
        *,
        batch: int = 1,
        heads: int = 1,
        offset: int = 0,
        device: torch.device | None = None,
    ) -> EvaluatedMask:
        """`blocked` where a sequence attends to itself and that is less work, otherwise `dense`."""
        if queries == keys and offset == 0 and self._in_blocks(keys):
            return self.blocked(keys, batch=batch, heads=heads, device=device)
        return self.dense(queries, keys, batch=batch, heads=heads, offset=offset, device=device)

    def _seen(self, length: int) -> int:
        """The number of keys that the blocks of a query hold."""
        return sum(layout.keys_each(length) for layout in self.reach)

    def _in_blocks(self, length: int) -> bool:
        """Whether a sequence is long enough for blocks to be less work."""
        return bool(self.reach) and self._seen(length) * WORTH <= length


WORTH = 2
"""How many times fewer keys a query is scored against where blocks are as fast as all pairs."""

causal = Mask(lambda b, h, q, k: k <= q)
"""No position sees a later one (Vaswani et al. 2017, section 3.2.3)."""


def present(valid: Bool[Tensor, "B K"]) -> Mask:
    """Only the keys that are there, as told per sentence: padding is not."""
    return Mask(lambda b, h, q, k: valid[b, k])


def allowed(table: Bool[Tensor, "Q K"]) -> Mask:
    """Any matrix: True where the query of the row may attend to the key of the column."""
    return Mask(lambda b, h, q, k: table[q, k])


def prefix(length: int | Int[Tensor, " B"]) -> Mask:
    """The first positions, of all sentences or as told per sentence, which everyone sees.

    `causal | prefix(n)` is the mask of a prefix language model (Raffel et al. 2020, section 3.2.1).
    """
    if isinstance(length, int):
        return Mask(lambda b, h, q, k: k < length)
    return Mask(lambda b, h, q, k: k < length[b])


def documents(ids: Int[Tensor, "B T"]) -> Mask:
    """Positions of the same document alone, of several that stand in one sequence."""
    return Mask(lambda b, h, q, k: ids[b, q] == ids[b, k])


def global_tokens(positions: Sequence[int]) -> Mask:
    """Tokens that see everyone and are seen by everyone (Beltagy et al. 2020, section 3.1)."""

    def predicate(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        chosen = torch.tensor(positions, dtype=torch.long, device=q.device)
        return torch.isin(q, chosen) | torch.isin(k, chosen)

    return Mask(predicate)


def window(radius: int) -> Mask:
    """Neighbours up to `radius` positions away (Vaswani et al. 2017, section 4, "restricted")."""
    return dilated(radius, 1)


def dilated(radius: int, dilation: int) -> Mask:
    """`radius` positions on each side, `dilation` apart (Beltagy et al. 2020, section 3.1)."""
    # Measured on a CPU: smaller blocks make small products, larger ones score what nobody sees.
    return Mask(
        lambda b, h, q, k: ((q - k).abs() <= radius * dilation) & ((q - k) % dilation == 0),
        (Blocks(dilation, min(max(radius, 32), 64), radius, radius),),
    )


def same_column(stride: int) -> Mask:
    """Positions a multiple of `stride` away: A^(2) of strided attention (Child et al. 2019)."""
    return Mask(lambda b, h, q, k: (q - k) % stride == 0, (Blocks(stride),))


def strided(stride: int) -> Mask:
    """Strided attention of Child et al. 2019, section 4.3: the last `stride` positions (A^(1) is
    `window(stride)`) and every `stride`-th (`same_column`), both seen by every head ("merged").
    """
    return window(stride) | same_column(stride)


def same_block(length: int) -> Mask:
    """Positions of the same block of `length`: A^(1) of fixed attention (Child et al. 2019)."""
    return Mask(lambda b, h, q, k: q // length == k // length, (Blocks(1, length),))


def summaries(length: int, columns: int) -> Mask:
    """The last `columns` positions of every block, which all see: A^(2) of fixed attention."""
    return Mask(lambda b, h, q, k: k % length >= length - columns, (Summaries(length, columns),))


def fixed(length: int, columns: int) -> Mask:
    """Fixed attention of Child et al. 2019, section 4.3: `same_block` and `summaries`, merged."""
    return same_block(length) | summaries(length, columns)
