"""What was already seen: keys and values computed once, or vectors that are remembered."""

from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor


class KeyValues(NamedTuple):
    """Projected keys `B H K E` and values `B H K Ev`."""

    keys: Float[Tensor, "B H K E"]
    values: Float[Tensor, "B H K Ev"]

    @property
    def length(self) -> int:
        """The number of positions."""
        return self.keys.shape[2]


Project = Callable[[Tensor, int], KeyValues]
"""The keys and values of vectors `N T D`, the first of which stands at a position."""


@runtime_checkable
class Past(Protocol):
    """What a self-attention layer attends to besides the positions it is given."""

    @property
    def length(self) -> int:
        """The number of positions that come before those that are given next."""
        ...

    @property
    def seen(self) -> int:
        """How many of these, the last ones, can still be attended to."""
        ...

    def extend(self, x: Float[Tensor, "N T D"], project: Project) -> KeyValues:
        """Remember the positions `x`, and return all that can be attended to, them included.

        `project` makes keys and values of vectors: those that are remembered may be kept as either.
        """
        ...


class NoPast:
    """Nothing came before and nothing is remembered: training, where all positions are given."""

    length = seen = 0

    def extend(self, x: Float[Tensor, "N T D"], project: Project) -> KeyValues:
        """The keys and values of `x` alone."""
        return project(x, 0)


class Memory:
    """What one layer was given at positions already seen, as constants: no gradient reaches them.

    Their keys and values are made anew each time, and so the weights that make them learn from what
    is remembered (Dai et al. 2019, section 3.2). A memory is not changed by what it is extended by,
    but `last` makes another of it: a layer may be computed twice, to recompute its activations.
    """

    def __init__(self, vectors: Float[Tensor, "N T D"] | None = None) -> None:
        self._vectors = self._seen = vectors

    @property
    def length(self) -> int:
        """The number of positions that are remembered."""
        return 0 if self._vectors is None else self._vectors.shape[1]

    @property
    def seen(self) -> int:
        """All of them."""
        return self.length

    def extend(self, x: Float[Tensor, "N T D"], project: Project) -> KeyValues:
        """The keys and values of what is remembered and of `x`; positions count from the oldest."""
        seen = x if self._vectors is None else torch.cat((self._vectors, x), dim=1)
        self._seen = seen.detach()
        return project(seen, 0)

    def last(self, positions: int) -> "Memory":
        """The memory of the last so many positions, those it was extended by included."""
        if self._seen is None or positions == 0:
            return Memory()
        return Memory(self._seen[:, -positions:])


class Cache:
    """The keys and values of one layer for the rows being decoded.

    Buffers are laid out time first (`K N H E`): a new position is one contiguous write, reordering
    rows copies whole vectors, and the products of attention read the buffers in place. Spare room
    doubles, so that extending costs constant time a position. With a `reach` no later position sees
    further back than that, and what is further is dropped where room is made for more.
    """

    def __init__(self, reach: int | None = None) -> None:
        self.length = 0
        self.reach = reach
        self._held = 0  # the last positions, which the buffers begin with
        self._buffers: tuple[Tensor, Tensor] | None = None

    @property
    def seen(self) -> int:
        """How many positions those that are given next may attend to."""
        return self.length if self.reach is None else min(self.length, self.reach)

    def extend(self, x: Float[Tensor, "N T D"], project: Project) -> KeyValues:
        """Append positions in place; a cache continues one way only."""
        keys, values = (part.permute(2, 0, 1, 3) for part in project(x, self.length))
        seen, new = self.seen, keys.shape[0]
        if self._buffers is None or self._held + new > self._buffers[0].shape[0]:
            self._make_room(keys, values, max(2 * seen, seen + new, 16))
        assert self._buffers is not None
        for buffer, part in zip(self._buffers, (keys, values), strict=True):
            buffer[self._held : self._held + new] = part
        self.length += new
        self._held += new
        begin = self._held - seen - new
        return KeyValues(
            *(buffer[begin : self._held].permute(1, 2, 0, 3) for buffer in self._buffers)
        )

    def select(self, rows: Int[Tensor, " M"]) -> "Cache":
        """A cache whose row i continues row `rows[i]` of this one."""
        chosen = Cache(self.reach)
        chosen.length, chosen._held = self.length, self._held
        if self._buffers is not None:
            chosen._buffers = tuple(_select(part, rows, self._held) for part in self._buffers)  # type: ignore[assignment]
        return chosen

    def last(self, positions: int) -> "Cache":
        """A cache of the last so many positions, which count from 0 again.

        So its keys must not depend on where they stood, as turned ones do.
        """
        kept = Cache()
        kept.length = kept._held = min(positions, self.seen)
        if self._buffers is not None:
            begin = self._held - kept._held
            kept._buffers = tuple(part[begin : self._held].clone() for part in self._buffers)  # type: ignore[assignment]
        return kept

    def _make_room(self, keys: Tensor, values: Tensor, room: int) -> None:
        """Larger buffers, or as large ones, that begin with what can still be seen."""
        made, seen = [], self.seen
        for index, part in enumerate((keys, values)):
            buffer = part.new_empty((room, *part.shape[1:]))
            if self._buffers is not None:
                buffer[:seen] = self._buffers[index][self._held - seen : self._held]
            made.append(buffer)
        self._buffers, self._held = (made[0], made[1]), seen


def _select(buffer: Tensor, rows: Tensor, length: int) -> Tensor:
    """The chosen rows of a time-first buffer, with as much spare room as before."""
    chosen = buffer.new_empty((buffer.shape[0], rows.shape[0], *buffer.shape[2:]))
    torch.index_select(buffer[:length], 1, rows, out=chosen[:length])
    return chosen
