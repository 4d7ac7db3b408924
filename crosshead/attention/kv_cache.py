"""Key-value caches: the keys and values of earlier positions, or the hidden states they come from.

Axes: as in `attend`, and `N` rows being decoded, `T` new positions, `D` model width.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor


class KeyValues(NamedTuple):
    """Projected keys, "B H K E", and values, "B H K Ev"."""

    keys: Float[Tensor, "B H K E"]
    values: Float[Tensor, "B H K Ev"]


Normalise = Callable[[Tensor], Tensor]
"""A function of hidden states `N T D` that returns the sublayer's input: normalised in pre-norm
layers, unchanged in post-norm layers."""

Project = Callable[[Tensor, int], KeyValues]
"""A function of vectors `N T D` and the position of the first that returns keys and values."""


@runtime_checkable
class KVCache(Protocol):
    """The earlier positions that a self-attention layer attends to, besides its input."""

    @property
    def length(self) -> int:
        """The number of positions before the next one."""
        ...

    @property
    def visible(self) -> int:
        """The number of earlier positions, the last ones, that can still be attended to."""
        ...

    def extend(
        self, x: Float[Tensor, "N T D"], normalise: Normalise, project: Project
    ) -> tuple[Float[Tensor, "N T D"], KeyValues]:
        """Add new positions, and return what attention needs of new and earlier ones.

        A cache may keep hidden states, or the keys and values that are projected from them.

        Args:
            x: Hidden states of the new positions, as the layer receives them, "N T D".
            normalise: Function from hidden states to the sublayer's input.
            project: Function from the sublayer's input to keys and values.

        Returns:
            The new positions, normalised, "N T D", and the keys and values of all positions that
            can be attended to, the new ones last.
        """
        ...


class NoCache:
    """An empty cache that keeps nothing, for training, where all positions are given at once."""

    length = visible = 0

    def extend(
        self, x: Float[Tensor, "N T D"], normalise: Normalise, project: Project
    ) -> tuple[Float[Tensor, "N T D"], KeyValues]:
        """Return `x`, normalised, and the keys and values of `x` alone."""
        y = normalise(x)
        return y, project(y, 0)


class SegmentMemory:
    """The memory of Transformer-XL: hidden states of earlier positions in one layer, as constants.

    No gradient reaches the stored states. They are normalised and projected again in every segment,
    so that the norm of a pre-norm layer and the projections also learn from them, as in the
    authors' code.

    `extend` does not change the memory; `last` returns a new one. So a layer may be computed twice,
    to recompute its activations.

    Args:
        states: Hidden states of the remembered positions, "N T D".

    Reference:
        Dai et al. 2019, section 3.2.
    """

    def __init__(self, states: Float[Tensor, "N T D"] | None = None) -> None:
        self._states = states
        self._new: Tensor | None = None

    @property
    def length(self) -> int:
        """The number of remembered positions."""
        return 0 if self._states is None else self._states.shape[1]

    @property
    def visible(self) -> int:
        """The number of remembered positions; all of them can be attended to."""
        return self.length

    def extend(
        self, x: Float[Tensor, "N T D"], normalise: Normalise, project: Project
    ) -> tuple[Float[Tensor, "N T D"], KeyValues]:
        """Return `x`, normalised, and the keys and values of the memory and `x`.

        Positions count from the oldest remembered one.
        """
        self._new, y = x.detach(), normalise(x)
        if self._states is None:
            return y, project(y, 0)
        return y, project(torch.cat((normalise(self._states), y), dim=1), 0)

    def last(self, positions: int) -> "SegmentMemory":
        """Return the memory of the last positions, the positions of the last `extend` included."""
        parts: list[Tensor] = []
        for part in (self._new, self._states):
            if part is not None and positions > 0:
                parts.insert(0, part[:, -positions:])
                positions -= part.shape[1]
        if not parts:
            return SegmentMemory()
        return SegmentMemory(parts[0] if len(parts) == 1 else torch.cat(parts, dim=1))


class DecodingCache:
    """The keys and values of one layer for the rows being decoded.

    Buffers are laid out time first, "K N H E". A new position is then one contiguous write,
    reordering rows copies whole vectors, and attention reads the buffers in place. Spare room
    doubles, so that extending takes constant time per position.

    Args:
        window: The number of earlier positions that a position can see; None for all. Older
            positions are dropped when the buffers grow.
    """

    def __init__(self, window: int | None = None) -> None:
        self.length = 0
        self.window = window
        self._held = 0  # number of positions at the start of the buffers, the last ones
        self._buffers: tuple[Tensor, Tensor] | None = None

    @property
    def visible(self) -> int:
        """The number of earlier positions that the next positions may attend to."""
        return self.length if self.window is None else min(self.length, self.window)

    def extend(
        self, x: Float[Tensor, "N T D"], normalise: Normalise, project: Project
    ) -> tuple[Float[Tensor, "N T D"], KeyValues]:
        """Append positions in place; so only one continuation of a cache is possible."""
        y = normalise(x)
        keys, values = (part.permute(2, 0, 1, 3) for part in project(y, self.length))
        visible, new = self.visible, keys.shape[0]
        if self._buffers is None or self._held + new > self._buffers[0].shape[0]:
            self._make_room(keys, values, max(2 * visible, visible + new, 16))
        assert self._buffers is not None
        for buffer, part in zip(self._buffers, (keys, values), strict=True):
            buffer[self._held : self._held + new] = part
        self.length += new
        self._held += new
        begin = self._held - visible - new
        held = (buffer[begin : self._held].permute(1, 2, 0, 3) for buffer in self._buffers)
        return y, KeyValues(*held)

    def select(self, rows: Int[Tensor, " M"]) -> "DecodingCache":
        """Return a cache whose row i continues row `rows[i]` of this one."""
        chosen = DecodingCache(self.window)
        chosen.length, chosen._held = self.length, self._held
        if self._buffers is not None:
            chosen._buffers = tuple(_select(part, rows, self._held) for part in self._buffers)  # type: ignore[assignment]
        return chosen

    def last(self, positions: int) -> "DecodingCache":
        """Return a cache of the last positions, which count from 0 again.

        The keys must not depend on absolute positions, as rotated keys do.
        """
        kept = DecodingCache()
        kept.length = kept._held = min(positions, self.visible)
        if self._buffers is not None:
            begin = self._held - kept._held
            kept._buffers = tuple(part[begin : self._held].clone() for part in self._buffers)  # type: ignore[assignment]
        return kept

    def _make_room(self, keys: Tensor, values: Tensor, room: int) -> None:
        """Replace the buffers by new ones that begin with the visible positions."""
        made, visible = [], self.visible
        for index, part in enumerate((keys, values)):
            buffer = part.new_empty((room, *part.shape[1:]))
            if self._buffers is not None:
                buffer[:visible] = self._buffers[index][self._held - visible : self._held]
            made.append(buffer)
        self._buffers, self._held = (made[0], made[1]), visible


def _select(buffer: Tensor, rows: Tensor, length: int) -> Tensor:
    """Return the chosen rows of a time-first buffer, with as much spare room as before."""
    chosen = buffer.new_empty((buffer.shape[0], rows.shape[0], *buffer.shape[2:]))
    torch.index_select(buffer[:length], 1, rows, out=chosen[:length])
    return chosen
