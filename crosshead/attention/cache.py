"""Memory of earlier positions: cached keys and values, or remembered hidden states."""

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


Normalise = Callable[[Tensor], Tensor]
"""Hidden states `N T D` as a sublayer sees them: normalised, or as they are in post-norm layers."""

Project = Callable[[Tensor, int], KeyValues]
"""The keys and values of vectors `N T D`, the first of which stands at a position."""


@runtime_checkable
class Past(Protocol):
    """Earlier positions that a self-attention layer attends to, besides its input."""

    @property
    def length(self) -> int:
        """The number of positions that come before those that are given next."""
        ...

    @property
    def seen(self) -> int:
        """The number of earlier positions, the last ones, that can still be attended to."""
        ...

    def extend(
        self, x: Float[Tensor, "N T D"], normalise: Normalise, project: Project
    ) -> tuple[Float[Tensor, "N T D"], KeyValues]:
        """Remember new positions, and return what attention needs of them and of earlier ones.

        A past may keep hidden states, or the keys and values that become of them.

        Args:
            x: Hidden states of the new positions, as the layer is given them.
            normalise: Makes of hidden states what the sublayer sees.
            project: Makes keys and values of normalised vectors.

        Returns:
            The new positions, normalised, and the keys and values of all positions that can be
            attended to, the new ones last.
        """
        ...


class NoPast:
    """Nothing came before and nothing is remembered: training, where all positions are given."""

    length = seen = 0

    def extend(
        self, x: Float[Tensor, "N T D"], normalise: Normalise, project: Project
    ) -> tuple[Float[Tensor, "N T D"], KeyValues]:
        """Return `x`, normalised, and the keys and values of `x` alone."""
        y = normalise(x)
        return y, project(y, 0)


class Memory:
    """The hidden states that one layer was given at earlier positions, as constants.

    No gradient reaches them. They are normalised and projected anew each time, so that the norm of
    a pre-norm layer and the projections learn from them too (Dai et al. 2019, section 3.2, and the
    authors' code). A memory is not changed by what it is extended by, but `last` makes another of
    it: a layer may be computed twice, to recompute its activations.
    """

    def __init__(self, states: Float[Tensor, "N T D"] | None = None) -> None:
        self._states = states
        self._new: Tensor | None = None

    @property
    def length(self) -> int:
        """The number of positions that are remembered."""
        return 0 if self._states is None else self._states.shape[1]

    @property
    def seen(self) -> int:
        """The number of remembered positions, which can all be attended to."""
        return self.length

    def extend(
        self, x: Float[Tensor, "N T D"], normalise: Normalise, project: Project
    ) -> tuple[Float[Tensor, "N T D"], KeyValues]:
        """Return `x`, normalised, and the keys and values of the memory and `x`.

        Positions count from the oldest that is remembered.
        """
        self._new, y = x.detach(), normalise(x)
        if self._states is None:
            return y, project(y, 0)
        return y, project(torch.cat((normalise(self._states), y), dim=1), 0)

    def last(self, positions: int) -> "Memory":
        """Return the memory of the last so many positions, those it was extended by included."""
        parts: list[Tensor] = []
        for part in (self._new, self._states):
            if part is not None and positions > 0:
                parts.insert(0, part[:, -positions:])
                positions -= part.shape[1]
        if not parts:
            return Memory()
        return Memory(parts[0] if len(parts) == 1 else torch.cat(parts, dim=1))


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
        """The number of earlier positions that the next positions may attend to."""
        return self.length if self.reach is None else min(self.length, self.reach)

    def extend(
        self, x: Float[Tensor, "N T D"], normalise: Normalise, project: Project
    ) -> tuple[Float[Tensor, "N T D"], KeyValues]:
        """Append positions in place; a cache continues one way only."""
        y = normalise(x)
        keys, values = (part.permute(2, 0, 1, 3) for part in project(y, self.length))
        seen, new = self.seen, keys.shape[0]
        if self._buffers is None or self._held + new > self._buffers[0].shape[0]:
            self._make_room(keys, values, max(2 * seen, seen + new, 16))
        assert self._buffers is not None
        for buffer, part in zip(self._buffers, (keys, values), strict=True):
            buffer[self._held : self._held + new] = part
        self.length += new
        self._held += new
        begin = self._held - seen - new
        held = (buffer[begin : self._held].permute(1, 2, 0, 3) for buffer in self._buffers)
        return y, KeyValues(*held)

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
