"""Block-sparse attention: block layouts, and masks that are evaluated inside their blocks only.

A layout splits a sequence of `T` positions into `N` blocks of `b` queries, each with the `k` keys
that it may see. `split_queries` and `split_keys` move the blocks into the batch axis, `B H T E` to
`(B N) H b E` and `(B N) H k E`. So the code for dense attention computes blocks as well. `join`
moves `(B N) H b X` back. Positions past the end of the sequence, which fill the last blocks, hold
zeros.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor
from torch.nn import functional as F

from crosshead.attention.scores import RelativeOffset


class BlockLayout(ABC):
    """A way to cut a sequence into blocks that hold all pairs that a mask may allow."""

    @property
    @abstractmethod
    def relative(self) -> RelativeOffset:
        """The distances between a block's queries and its keys; the same in all blocks."""

    @abstractmethod
    def fit(self, length: int) -> "BlockLayout":
        """Return the layout for a sequence of `length` positions, with every size known."""

    @abstractmethod
    def keys_per_query(self, length: int) -> int:
        """Return the number of keys that a query is scored against."""

    @abstractmethod
    def positions(self, length: int, device: torch.device | None) -> tuple[Tensor, Tensor]:
        """Return the positions of the queries, "N b 1", and of the keys, "N 1 k".

        Some of these positions lie outside of the sequence.
        """

    @abstractmethod
    def contains(self, query: Tensor, key: Tensor) -> Tensor:
        """Return whether a block holds each pair of a query and a key."""

    @abstractmethod
    def split_queries(self, x: Shaped[Tensor, "B H T E"]) -> Shaped[Tensor, "BN H b E"]:
        """Return the queries block by block."""

    @abstractmethod
    def split_keys(self, x: Shaped[Tensor, "B H T E"]) -> Shaped[Tensor, "BN H k E"]:
        """Return keys or values block by block; a key that several blocks see is repeated."""

    @abstractmethod
    def join(self, x: Shaped[Tensor, "BN H b X"], length: int) -> Shaped[Tensor, "B H T X"]:
        """Join the queries' results in the order of the sequence."""

    def trim(self, allowed: Bool[Tensor, "#B N #H b k"]) -> tuple["BlockLayout", Tensor]:
        """Return the layout and `allowed` without outer keys that no query may see."""
        return self, allowed


@dataclass(frozen=True)
class LocalBlocks(BlockLayout):
    """Blocks of neighbours, among the positions that lie `step` apart.

    The positions fall into `step` classes by their remainder. In each class a block is `block`
    queries in a row. They see the keys from `before` members before the first of them to `after`
    members after the last. Without `block`, a class is one block.
    """

    step: int = 1
    block: int | None = None
    before: int = 0
    after: int = 0

    @property
    def relative(self) -> RelativeOffset:
        """Queries begin `before` members behind the keys."""
        return RelativeOffset(self.before, self.step, all_keys=False)

    def fit(self, length: int) -> "LocalBlocks":
        """Return the blocks with a size that is no longer than a class."""
        members = -(-length // self.step)
        return replace(self, block=min(self.block or members, members))

    def keys_per_query(self, length: int) -> int:
        """Return the size of a block and of the neighbours that it sees."""
        return self.fit(length)._size + self.before + self.after

    def positions(self, length: int, device: torch.device | None) -> tuple[Tensor, Tensor]:
        """Return the positions block by block, class by class."""
        count = self._count(length)
        first = torch.arange(count, device=device).view(1, -1, 1) * self._size
        remainder = torch.arange(self.step, device=device).view(-1, 1, 1)

        def at(member: Tensor) -> Tensor:
            return (remainder + self.step * (first + member)).flatten(0, 1)

        queries = at(torch.arange(self._size, device=device))
        keys = at(torch.arange(-self.before, self._size + self.after, device=device))
        return queries.unsqueeze(-1), keys.unsqueeze(-2)

    def contains(self, query: Tensor, key: Tensor) -> Tensor:
        """Return whether both are in the same class, with the key in reach of the query's block."""
        first = query // self.step // self._size * self._size
        member = key // self.step
        near = (member >= first - self.before) & (member < first + self._size + self.after)
        return near & ((query - key) % self.step == 0)

    def split_queries(self, x: Shaped[Tensor, "B H T E"]) -> Shaped[Tensor, "BN H b E"]:
        """Return the queries, each in one block."""
        return self._blocks(x, 0, self._size)

    def split_keys(self, x: Shaped[Tensor, "B H T E"]) -> Shaped[Tensor, "BN H k E"]:
        """Return the keys, each in every block that sees it."""
        return self._blocks(x, self.before, self.before + self._size + self.after)

    def join(self, x: Shaped[Tensor, "BN H b X"], length: int) -> Shaped[Tensor, "B H T X"]:
        """Return block after block, with the classes interleaved."""
        blocks = x.unflatten(0, (-1, self.step, self._count(length)))
        blocks = blocks.permute(0, 3, 2, 4, 1, 5)  # B H N b step X
        return blocks.flatten(2, 4)[:, :, :length]

    def trim(self, allowed: Bool[Tensor, "#B N #H b k"]) -> tuple["LocalBlocks", Tensor]:
        """Return the blocks and `allowed` without outer keys that no query may see."""
        seen = allowed.flatten(0, -2).any(0).nonzero().flatten().tolist()
        if not seen:
            return self, allowed
        before, end = self.before - seen[0], seen[-1] + 1
        after = end - self.before - self._size
        return replace(self, before=before, after=after), allowed[..., seen[0] : end]

    @property
    def _size(self) -> int:
        assert self.block is not None, "fitted to no length yet"
        return self.block

    def _count(self, length: int) -> int:
        return -(-length // (self.step * self._size))

    def _blocks(self, x: Tensor, before: int, width: int) -> Tensor:
        """Return `width` members from `before` members before each block: "(B step N) H width E".

        Pieces as long as a block follow each other without overlap, and are views. The keys of a
        block are some of these pieces side by side.
        """
        length, count = x.shape[2], self._count(x.shape[2])
        pieces = -(-width // self._size)
        members = (count + pieces - 1) * self._size
        behind = (members - before) * self.step - length
        x = F.pad(x, (0, 0, before * self.step, behind))
        x = x.unflatten(2, (count + pieces - 1, self._size, self.step))
        x = x.permute(0, 4, 2, 1, 3, 5)  # B step N' H b E
        shifted = [
            x[:, :, n : n + count, :, : min(self._size, width - n * self._size)]
            for n in range(pieces)
        ]
        return torch.cat(shifted, dim=4).flatten(0, 2)


@dataclass(frozen=True)
class SummaryColumns(BlockLayout):
    """The last `columns` keys of every stretch of `period` positions, which all queries see."""

    period: int
    columns: int

    @property
    def relative(self) -> RelativeOffset:
        """These keys do not follow each other at equal steps."""
        return RelativeOffset(None, all_keys=False)

    def fit(self, length: int) -> "SummaryColumns":
        """Return this layout, which fits any length."""
        return self

    def keys_per_query(self, length: int) -> int:
        """Return the number of summary keys of all stretches; the last stretch counts as whole."""
        return -(-length // self.period) * self.columns

    def positions(self, length: int, device: torch.device | None) -> tuple[Tensor, Tensor]:
        """Return one block with all queries."""
        every = torch.arange(-(-length // self.period) * self.period, device=device)
        keys = every.view(-1, self.period)[:, self.period - self.columns :].flatten()
        return every[:length].view(1, -1, 1), keys.view(1, 1, -1)

    def contains(self, query: Tensor, key: Tensor) -> Tensor:
        """Return whether the key is a summary key, which all queries see."""
        return key % self.period >= self.period - self.columns

    def split_queries(self, x: Shaped[Tensor, "B H T E"]) -> Shaped[Tensor, "BN H b E"]:
        """Return all queries as one block."""
        return x

    def split_keys(self, x: Shaped[Tensor, "B H T E"]) -> Shaped[Tensor, "BN H k E"]:
        """Return the last keys of every stretch."""
        x = F.pad(x, (0, 0, 0, -x.shape[2] % self.period)).unflatten(2, (-1, self.period))
        return x[:, :, :, self.period - self.columns :].flatten(2, 3)

    def join(self, x: Shaped[Tensor, "BN H b X"], length: int) -> Shaped[Tensor, "B H T X"]:
        """Return the results unchanged, as they are in order."""
        return x


class MaskedLayout(NamedTuple):
    """A layout, and the additive mask of its blocks: 0 where a pair is allowed, -inf where not.

    It is made once for all layers.
    """

    layout: BlockLayout
    additive: Float[Tensor, "#B N #H b k"]

    def add_to(self, scores: Float[Tensor, "BN H b k"]) -> Float[Tensor, "BN H b k"]:
        """Return the masked scores of the blocks."""
        additive = self.additive.to(scores.dtype)
        return (scores.unflatten(0, (-1, additive.shape[1])) + additive).flatten(0, 1)


@dataclass(frozen=True)
class BlockSparseMask:
    """A mask over a sequence of `length` positions, evaluated only where it can be true.

    No pair is in two parts. A query without any allowed key is open to keys of its block, so that
    every softmax has something to sum. `reachable` is False for these queries: their outputs do not
    count.
    """

    length: int
    parts: tuple[MaskedLayout, ...]
    reachable: Bool[Tensor, "#B #H T 1"]

    def to_dense(self, weights: Sequence[Tensor]) -> Float[Tensor, "B H T T"]:
        """Return the weights of all parts as one matrix.

        Args:
            weights: The weights of each part, "(B N) H b k".

        Returns:
            The weights, "B H T T". Rows without any allowed key hold placeholder weights; the
            caller zeroes their output.
        """
        batch = weights[0].shape[0] // self.parts[0].additive.shape[1]
        heads, length = weights[0].shape[1], self.length
        dense = weights[0].new_zeros(batch, heads, length, length)
        for part, found in zip(self.parts, weights, strict=True):
            query, key = part.layout.positions(length, found.device)
            query, key = torch.broadcast_tensors(query, key)
            inside = (query < length) & (key >= 0) & (key < length)
            blocks = found.unflatten(0, (batch, -1)).transpose(1, 2)  # B H N b k
            index = (slice(None), slice(None), query[inside], key[inside])
            dense[index] += blocks[:, :, inside]
        return dense


def evaluate_in_blocks(
    predicate: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor],
    layouts: Sequence[BlockLayout],
    length: int,
    batch: int,
    heads: int,
    device: torch.device | None,
) -> BlockSparseMask:
    """Evaluate a predicate of (batch, head, query, key) within the blocks of these layouts.

    A pair counts in the first layout that holds it. Keys at either end of all blocks that no query
    may see are cut off: half of the keys of a window, under `causal`.
    """
    b = torch.arange(batch, device=device).view(-1, 1, 1, 1, 1)
    h = torch.arange(heads, device=device).view(1, 1, -1, 1, 1)
    fitted: list[BlockLayout] = []
    found: list[tuple[BlockLayout, Tensor]] = []
    for layout in (each.fit(length) for each in layouts):
        query, key = (x[None, :, None] for x in layout.positions(length, device))  # 1 N 1 b k
        inside = (query < length) & (key >= 0) & (key < length)
        query, key = query.clamp(max=length - 1), key.clamp(0, length - 1)
        allowed = predicate(b, h, query, key) & inside
        for earlier in fitted:
            allowed = allowed & ~earlier.contains(query, key)
        fitted.append(layout)
        found.append(layout.trim(allowed))
    # A layout may be left without any pair: a window within another one, for example.
    kept = [(layout, allowed) for layout, allowed in found if allowed.any()] or found[:1]
    reachable = torch.zeros(1, 1, length, 1, dtype=torch.bool, device=device)
    for layout, allowed in kept:
        reachable = reachable | layout.join(allowed.any(-1, keepdim=True).flatten(0, 1), length)
    parts: list[MaskedLayout] = []
    for layout, allowed in kept:
        if not parts:
            allowed = allowed | ~layout.split_queries(reachable).unflatten(
                0, (-1, allowed.shape[1])
            )
        additive = torch.zeros_like(allowed, dtype=torch.float32).masked_fill_(~allowed, -math.inf)
        parts.append(MaskedLayout(layout, additive))
    return BlockSparseMask(length, tuple(parts), reachable)
