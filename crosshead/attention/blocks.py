"""Blocks of queries and keys that cover a sparse mask, and masks evaluated in these blocks only.

A layout splits a sequence of `T` positions into `N` blocks of `b` queries, each with the `k` keys
that it may see. `fold` and `fold_keys` move the blocks into the batch axis, `B H T E` to `(B N) H b
E` and `(B N) H k E`. So the code for attention computes blocks as well. `unfold` moves `(B N) H b
X` back. Positions past the end of the sequence, which fill the last blocks, hold zeros.
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

from crosshead.attention.scores import Grid


class Fold(ABC):
    """A way to cut sequences into blocks of queries and of keys."""

    @property
    @abstractmethod
    def grid(self) -> Grid:
        """The position of a block's queries relative to its keys; the same in all blocks."""

    @abstractmethod
    def fold(self, x: Shaped[Tensor, "B H T E"]) -> Shaped[Tensor, "BN H b E"]:
        """Queries, block by block."""

    @abstractmethod
    def fold_keys(self, x: Shaped[Tensor, "B H T E"]) -> Shaped[Tensor, "BN H k E"]:
        """Keys or values, block by block; those that several blocks see are repeated."""

    @abstractmethod
    def unfold(self, x: Shaped[Tensor, "BN H b X"], length: int) -> Shaped[Tensor, "B H T X"]:
        """Return the queries' results in the order of the sequence."""


class Whole(Fold):
    """All queries and all keys as one block."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid

    @property
    def grid(self) -> Grid:
        """The grid that was given."""
        return self._grid

    def fold(self, x: Shaped[Tensor, "B H Q E"]) -> Shaped[Tensor, "B H Q E"]:
        """Return the queries unchanged."""
        return x

    def fold_keys(self, x: Shaped[Tensor, "B H K E"]) -> Shaped[Tensor, "B H K E"]:
        """Return the keys or values unchanged."""
        return x

    def unfold(self, x: Shaped[Tensor, "B H Q X"], length: int) -> Shaped[Tensor, "B H Q X"]:
        """Return the results unchanged."""
        return x


class Layout(Fold):
    """Blocks that together hold all pairs of a sequence with itself which a mask may allow."""

    @abstractmethod
    def fitted(self, length: int) -> "Layout":
        """The layout for a sequence of so many positions, every number known."""

    @abstractmethod
    def keys_each(self, length: int, *, causal: bool = False) -> int:
        """The number of keys that a query is scored against, `causal` if none sees a later one."""

    @abstractmethod
    def positions(self, length: int, device: torch.device | None) -> tuple[Tensor, Tensor]:
        """The positions of the queries `N b 1` and of the keys `N 1 k`; some are in no sequence."""

    @abstractmethod
    def holds(self, query: Tensor, key: Tensor) -> Tensor:
        """Return whether a block holds the pair, for positions that broadcast together."""

    def trimmed(self, there: Bool[Tensor, "#B N #H b k"]) -> tuple["Layout", Tensor]:
        """Return a layout without outer keys that no query may see, and `there` without them."""
        return self, there


@dataclass(frozen=True)
class Blocks(Layout):
    """Blocks of neighbours, among the positions that lie `step` apart.

    The positions fall into `step` classes by their remainder. In each class a block is `block`
    queries in a row, which see the keys from `before` members before the first of them to `after`
    members after the last. Without `block`, a class is one block.
    """

    step: int = 1
    block: int | None = None
    before: int = 0
    after: int = 0

    @property
    def grid(self) -> Grid:
        """Queries begin `before` members behind the keys."""
        return Grid(self.before, self.step, whole=False)

    def fitted(self, length: int) -> "Blocks":
        """Return the blocks with a size that is no longer than a class."""
        members = -(-length // self.step)
        return replace(self, block=min(self.block or members, members))

    def keys_each(self, length: int, *, causal: bool = False) -> int:
        """Return the size of a block and of the neighbours that it sees."""
        return self.fitted(length)._size + self.before + (0 if causal else self.after)

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

    def holds(self, query: Tensor, key: Tensor) -> Tensor:
        """Return whether both are in the same class, with the key in reach of the query's block."""
        first = query // self.step // self._size * self._size
        member = key // self.step
        near = (member >= first - self.before) & (member < first + self._size + self.after)
        return near & ((query - key) % self.step == 0)

    def fold(self, x: Shaped[Tensor, "B H T E"]) -> Shaped[Tensor, "BN H b E"]:
        """Return the queries, each in one block."""
        return self._blocks(x, 0, self._size)

    def fold_keys(self, x: Shaped[Tensor, "B H T E"]) -> Shaped[Tensor, "BN H k E"]:
        """A key is in each block that sees it."""
        return self._blocks(x, self.before, self.before + self._size + self.after)

    def unfold(self, x: Shaped[Tensor, "BN H b X"], length: int) -> Shaped[Tensor, "B H T X"]:
        """Block after block, the classes interleaved."""
        blocks = x.unflatten(0, (-1, self.step, self._count(length)))
        blocks = blocks.permute(0, 3, 2, 4, 1, 5)  # B H N b step X
        return blocks.flatten(2, 4)[:, :, :length]

    def trimmed(self, there: Bool[Tensor, "#B N #H b k"]) -> tuple["Blocks", Tensor]:
        """Return blocks without the outer keys that no query may see, and `there` without them."""
        seen = there.flatten(0, -2).any(0).nonzero().flatten().tolist()
        if not seen:
            return self, there
        before, end = self.before - seen[0], seen[-1] + 1
        after = end - self.before - self._size
        return replace(self, before=before, after=after), there[..., seen[0] : end]

    @property
    def _size(self) -> int:
        assert self.block is not None, "fitted to no length yet"
        return self.block

    def _count(self, length: int) -> int:
        return -(-length // (self.step * self._size))

    def _blocks(self, x: Tensor, before: int, width: int) -> Tensor:
        """The `width` members from `before` members before each block on: `(B step N) H width E`.

        Pieces as long as a block follow each other without overlap, and are views; a block's keys
        are some of them side by side.
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
class Summaries(Layout):
    """All queries see the last `columns` keys of every stretch of `period` positions."""

    period: int
    columns: int

    @property
    def grid(self) -> Grid:
        """These keys do not follow each other at equal steps."""
        return Grid(None, whole=False)

    def fitted(self, length: int) -> "Summaries":
        """Return this layout, which fits any length."""
        return self

    def keys_each(self, length: int, *, causal: bool = False) -> int:
        """Return the number of summary keys of all stretches; the last stretch counts as whole."""
        return -(-length // self.period) * self.columns

    def positions(self, length: int, device: torch.device | None) -> tuple[Tensor, Tensor]:
        """Return one block with all queries."""
        every = torch.arange(-(-length // self.period) * self.period, device=device)
        keys = every.view(-1, self.period)[:, self.period - self.columns :].flatten()
        return every[:length].view(1, -1, 1), keys.view(1, 1, -1)

    def holds(self, query: Tensor, key: Tensor) -> Tensor:
        """Return whether the key is a summary key, which all queries see."""
        return key % self.period >= self.period - self.columns

    def fold(self, x: Shaped[Tensor, "B H T E"]) -> Shaped[Tensor, "BN H b E"]:
        """Return all queries as one block."""
        return x

    def fold_keys(self, x: Shaped[Tensor, "B H T E"]) -> Shaped[Tensor, "BN H k E"]:
        """Return the last keys of every stretch."""
        x = F.pad(x, (0, 0, 0, -x.shape[2] % self.period)).unflatten(2, (-1, self.period))
        return x[:, :, :, self.period - self.columns :].flatten(2, 3)

    def unfold(self, x: Shaped[Tensor, "BN H b X"], length: int) -> Shaped[Tensor, "B H T X"]:
        """Return the results unchanged, as they are in order."""
        return x


class Part(NamedTuple):
    """A layout, and 0 where a pair of its blocks is allowed, -inf where not.

    Made once for all layers.
    """

    layout: Layout
    addend: Float[Tensor, "#B N #H b k"]


@dataclass(frozen=True)
class BlockedMask:
    """A mask over a sequence of `length` positions, evaluated where it can be true alone.

    No pair is in two parts. A query that may attend to nothing is open to keys of its block, so
    that every softmax has something to sum; `reachable` says whose outputs count.
    """

    length: int
    parts: tuple[Part, ...]
    reachable: Bool[Tensor, "#B #H T 1"]

    def spread(self, weights: Sequence[Tensor]) -> Float[Tensor, "B H T T"]:
        """Return the weights `(B N) H b k` of all parts as one matrix of `T` times `T` per head.

        Rows without any allowed key hold placeholder weights; the caller zeroes their output.
        """
        batch = weights[0].shape[0] // self.parts[0].addend.shape[1]
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


def evaluated(
    predicate: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor],
    reach: Sequence[Layout],
    length: int,
    batch: int,
    heads: int,
    device: torch.device | None,
) -> BlockedMask:
    """A predicate of (batch, head, query, key) within the blocks of these layouts.

    Pairs that an earlier layout holds are left to it, and keys at either end of all blocks that
    nobody may see are cut off: of a window, with `causal`, half.
    """
    b = torch.arange(batch, device=device).view(-1, 1, 1, 1, 1)
    h = torch.arange(heads, device=device).view(1, 1, -1, 1, 1)
    layouts: list[Layout] = []
    found: list[tuple[Layout, Tensor]] = []
    for layout in (each.fitted(length) for each in reach):
        query, key = (x[None, :, None] for x in layout.positions(length, device))  # 1 N 1 b k
        inside = (query < length) & (key >= 0) & (key < length)
        query, key = query.clamp(max=length - 1), key.clamp(0, length - 1)
        there = predicate(b, h, query, key) & inside
        for earlier in layouts:
            there = there & ~earlier.holds(query, key)
        layouts.append(layout)
        found.append(layout.trimmed(there))
    # The blocks of a window within another, say, hold nothing any more.
    held = [(layout, there) for layout, there in found if there.any()] or found[:1]
    reachable = torch.zeros(1, 1, length, 1, dtype=torch.bool, device=device)
    for layout, there in held:
        reachable = reachable | layout.unfold(there.any(-1, keepdim=True).flatten(0, 1), length)
    parts: list[Part] = []
    for layout, there in held:
        if not parts:
            there = there | ~layout.fold(reachable).unflatten(0, (-1, there.shape[1]))
        addend = torch.zeros_like(there, dtype=torch.float32).masked_fill_(~there, -math.inf)
        parts.append(Part(layout, addend))
    return BlockedMask(length, tuple(parts), reachable)
