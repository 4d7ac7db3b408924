"""Attention masks: predicates of (batch, head, query, key) that combine with `&`, `|`, `~`.

True means may attend, everywhere. A predicate is written for index tensors that broadcast. `dense`
evaluates it for all queries and keys at once, `blocked` only in the blocks where it can be true.
`attend` takes either. None of the patterns below hides the future by itself; combine it with
`causal &`. An impossible mask raises `ValueError` when it is made.
"""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from crosshead.attention.blocks import BlockedMask, Blocks, Layout, Summaries, evaluated

Predicate = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]

EvaluatedMask = Bool[Tensor, "_ _ _ _"] | BlockedMask
"""A mask as `attend` takes it: a tensor that broadcasts to `B H Q K`, or blocks of one."""


Reach = tuple[Layout, ...]
"""Layouts whose blocks together hold every pair that a mask may allow."""


class Mask:
    """A predicate over batch, head, query and key positions, and what is known of it.

    `reaches` are the mask's reaches, each of which holds for itself: of these the one that scores
    the fewest keys at a length is taken. None at all stands for anywhere. `batch` and `heads` are
    how many sentences and heads the predicate has an answer for, None where it looks at none.
    """

    def __init__(
        self,
        predicate: Predicate,
        reaches: Sequence[Reach] = (),
        *,
        batch: int | None = None,
        heads: int | None = None,
    ) -> None:
        self.predicate = predicate
        self.reaches = tuple(reaches)
        self.batch, self.heads = batch, heads

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        """Return whether `query` may attend to `key`, for index tensors that broadcast together."""
        return self.predicate(batch, head, query, key)

    def __and__(self, other: "Mask") -> "Mask":
        # What both allow is within the reach of either.
        reaches = self.reaches + other.reaches
        return self._with(other, lambda b, h, q, k: self(b, h, q, k) & other(b, h, q, k), reaches)

    def __or__(self, other: "Mask") -> "Mask":
        reaches = [one + another for one in self.reaches for another in other.reaches]
        return self._with(other, lambda b, h, q, k: self(b, h, q, k) | other(b, h, q, k), reaches)

    def _with(self, other: "Mask", predicate: Predicate, reaches: Sequence[Reach]) -> "Mask":
        """The mask of a combined predicate; raises `ValueError` for two sizes of batch or heads."""
        return Mask(
            predicate,
            reaches,
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
        """The predicate as a tensor that broadcasts to `B H Q K`.

        Axes that the predicate does not look at stay of size 1. `batch` and `heads` are the mask's
        own where it knows them, and 1 where nobody says more. `offset` is the position of the first
        query: keys that came before it are in the cache. Raises `ValueError` where another number
        of sentences or heads is given than the mask is of.
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
    ) -> BlockedMask:
        """The predicate over a sequence and itself, evaluated within its reach alone.

        Raises `ValueError` for a mask that may be true anywhere, and as `dense` does.
        """
        if not self.reaches:
            raise ValueError(
                "this mask may allow any pair and has no blocks; evaluate it as `dense`, or narrow "
                "it with `&` and a pattern of limited reach (window, dilated, strided, fixed)"
            )
        batch, heads = self._sizes(batch, heads)
        return evaluated(self.predicate, self._reach(length), length, batch, heads, device)

    def scored(self, length: int, *, causal: bool = False) -> int:
        """The number of keys that a query is scored against, once evaluated over a sequence.

        Of blocks, those after a query's own are cut off where, as is said of `causal`, nobody sees
        a later key; at the end of the sequence yet more may be.
        """
        if not self._in_blocks(length):
            return length
        return _keys_of(self._reach(length), length, causal=causal)

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
        """`blocked` where a sequence attends to itself and that is less work, otherwise `dense`."""
        if queries == keys and offset == 0 and self._in_blocks(keys):
            return self.blocked(keys, batch=batch, heads=heads, device=device)
        return self.dense(queries, keys, batch=batch, heads=heads, offset=offset, device=device)

    def _sizes(self, batch: int | None, heads: int | None) -> tuple[int, int]:
        """The numbers of sentences and heads to evaluate the predicate for."""
        batch, heads = _size("sentences", self.batch, batch), _size("heads", self.heads, heads)
        return 1 if batch is None else batch, 1 if heads is None else heads

    def _reach(self, length: int) -> Reach:
        """The reach that holds the fewest keys for a query of such a sequence."""
        return min(self.reaches, key=lambda reach: _keys_of(reach, length))

    def _seen(self, length: int) -> int:
        """The number of keys that the blocks of a query hold."""
        return _keys_of(self._reach(length), length)

    def _in_blocks(self, length: int) -> bool:
        """Return whether a sequence is long enough for blocks to save work."""
        return bool(self.reaches) and self._seen(length) * WORTH <= length


def _keys_of(reach: Reach, length: int, *, causal: bool = False) -> int:
    return sum(layout.keys_each(length, causal=causal) for layout in reach)


def _size(of: str, known: int | None, given: int | None) -> int | None:
    """The size that is known, of two that may be; raises `ValueError` where they differ."""
    if known is None or given is None:
        return given if known is None else known
    if known != given:
        raise ValueError(
            f"a mask of {known} {of} meets {given}; make it of as many {of} as it is used for"
        )
    return known


WORTH = 2
"""Blocks are used if they score a query against at least this many times fewer keys. Below that,
all pairs are as fast."""

causal = Mask(lambda b, h, q, k: k <= q)
"""No position sees a later one (Vaswani et al. 2017, section 3.2.3)."""


def _check(name: str, found: int, least: int, most: int | None = None) -> None:
    """Raise `ValueError` for an argument outside its bounds, both included."""
    if found < least or (most is not None and found > most):
        expected = f"{least} or more" if most is None else f"{least} to {most}"
        raise ValueError(f"{name}: expected {expected}, found {found}")


def _check_axes(name: str, found: Tensor, axes: str) -> None:
    """Raise `ValueError` for a tensor of other axes than these."""
    if found.dim() != len(axes.split()):
        shape = " x ".join(map(str, found.shape)) or "no axis"
        raise ValueError(f"{name}: expected a tensor {axes}, found one of {shape}")


def present(valid: Bool[Tensor, "B K"]) -> Mask:
    """Only the keys that are there, as told per sentence: padding is not."""
    _check_axes("valid", valid, "B K")
    return Mask(lambda b, h, q, k: valid[b, k], batch=len(valid))


def allowed(table: Bool[Tensor, "Q K"]) -> Mask:
    """Any matrix: True where the query of the row may attend to the key of the column."""
    _check_axes("table", table, "Q K")
    return Mask(lambda b, h, q, k: table[q, k])


def prefix(length: int | Int[Tensor, " B"]) -> Mask:
    """The first positions, of all sentences or as told per sentence, which everyone sees.

    `causal | prefix(n)` is the mask of a prefix language model (Raffel et al. 2020, section 3.2.1).
    """
    if isinstance(length, int):
        _check("length", length, 0)
        return Mask(lambda b, h, q, k: k < length)
    _check_axes("length", length, "B")
    return Mask(lambda b, h, q, k: k < length[b], batch=len(length))


def documents(ids: Int[Tensor, "B T"]) -> Mask:
    """Positions of the same document alone, of several that stand in one sequence."""
    _check_axes("ids", ids, "B T")
    return Mask(lambda b, h, q, k: ids[b, q] == ids[b, k], batch=len(ids))


def global_tokens(positions: Sequence[int]) -> Mask:
    """Tokens that see everyone and are seen by everyone (Beltagy et al. 2020, section 3.1)."""
    _check("positions", min(positions, default=0), 0)

    def predicate(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        chosen = torch.tensor(positions, dtype=torch.long, device=q.device)
        return torch.isin(q, chosen) | torch.isin(k, chosen)

    return Mask(predicate)


def window(radius: int) -> Mask:
    """Neighbours up to `radius` positions away (Vaswani et al. 2017, section 4, "restricted")."""
    return dilated(radius, 1)


def dilated(radius: int, dilation: int) -> Mask:
    """`radius` positions on each side, `dilation` apart (Beltagy et al. 2020, section 3.1)."""
    _check("radius", radius, 0)
    _check("dilation", dilation, 1)
    # Measured on a CPU: smaller blocks make small products, larger ones score what nobody sees.
    return Mask(
        lambda b, h, q, k: ((q - k).abs() <= radius * dilation) & ((q - k) % dilation == 0),
        [(Blocks(dilation, min(max(radius, 32), 64), radius, radius),)],
    )


def same_column(stride: int) -> Mask:
    """Positions a multiple of `stride` away: A^(2) of strided attention (Child et al. 2019)."""
    _check("stride", stride, 1)
    return Mask(lambda b, h, q, k: (q - k) % stride == 0, [(Blocks(stride),)])


def strided(stride: int) -> Mask:
    """Strided attention of Child et al. 2019, section 4.3: the last `stride` positions (A^(1) is
    `window(stride)`) and every `stride`-th (`same_column`), both seen by every head ("merged").
    """
    _check("stride", stride, 1)
    return window(stride) | same_column(stride)


def same_block(length: int) -> Mask:
    """Positions of the same block of `length`: A^(1) of fixed attention (Child et al. 2019)."""
    _check("length", length, 1)
    return Mask(lambda b, h, q, k: q // length == k // length, [(Blocks(1, length),)])


def summaries(length: int, columns: int) -> Mask:
    """The last `columns` positions of every block, which all see: A^(2) of fixed attention."""
    _check("length", length, 1)
    _check("columns", columns, 1, most=length)
    return Mask(lambda b, h, q, k: k % length >= length - columns, [(Summaries(length, columns),)])


def fixed(length: int, columns: int) -> Mask:
    """Fixed attention of Child et al. 2019, section 4.3: `same_block` and `summaries`, merged."""
    return same_block(length) | summaries(length, columns)
