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

Positions = int | Int[Tensor, " N"]
"""A position: one number for all rows, or one for each row where rows differ."""


class Projection(Protocol):
    """The projection of a self-attention layer."""

    def project(self, memory: Float[Tensor, "N T D"], start: Positions = 0) -> KeyValues:
        """Return the keys and values of vectors, the first of which has the position `start`."""
        ...

    def packed(self, memory: Float[Tensor, "N T D"], start: Positions) -> Float[Tensor, "N T W"]:
        """Return the same keys and values, those of all heads side by side."""
        ...

    def unpacked(self, packed: Float[Tensor, "N T W"]) -> KeyValues:
        """Return the keys and values of each head, as views."""
        ...


@runtime_checkable
class KVCache(Protocol):
    """The earlier positions that a self-attention layer attends to, besides its input."""

    @property
    def length(self) -> Positions:
        """The number of positions before the next one."""
        ...

    @property
    def visible(self) -> int:
        """The number of earlier positions, the last ones, that can still be attended to."""
        ...

    def extend(
        self, x: Float[Tensor, "N T D"], normalise: Normalise, projection: Projection
    ) -> tuple[Float[Tensor, "N T D"], KeyValues]:
        """Add new positions, and return what attention needs of new and earlier ones.

        A cache may keep hidden states, or the keys and values that are projected from them.
        """
        ...


class NoCache:
    """An empty cache that keeps nothing, for training, where all positions are given at once."""

    length = visible = 0

    def extend(
        self, x: Float[Tensor, "N T D"], normalise: Normalise, projection: Projection
    ) -> tuple[Float[Tensor, "N T D"], KeyValues]:
        """Return `x`, normalised, and the keys and values of `x` alone."""
        y = normalise(x)
        return y, projection.project(y)


class SegmentMemory:
    """The memory of Transformer-XL: hidden states of earlier positions in one layer, as constants.

    No gradient reaches the stored states. They are normalised and projected again in every segment,
    so that the norm of a pre-norm layer and the projections also learn from them, as in the
    authors' code.

    `extend` does not change the memory; `last` returns a new one. So a layer may be computed twice,
    to recompute its activations.

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
        self, x: Float[Tensor, "N T D"], normalise: Normalise, projection: Projection
    ) -> tuple[Float[Tensor, "N T D"], KeyValues]:
        """Return `x`, normalised, and the keys and values of the memory and `x`.

        Positions count from the oldest remembered one.
        """
        self._new, y = x.detach(), normalise(x)
        if self._states is None:
            return y, projection.project(y)
        return y, projection.project(torch.cat((normalise(self._states), y), dim=1))

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

    One buffer holds the keys and then the values of all heads, side by side. It is laid out time
    first, "K N W". A new position is then one contiguous write, reordering rows copies whole
    vectors, and attention reads the buffer in place. Spare room doubles, so that extending takes
    constant time per position.

    Rows of different lengths end together: after `join`, a shorter row begins with padding. So
    distances between positions stay as they are.
    """

    def __init__(self, window: int | None = None) -> None:
        self.window = window
        self._slots = 0  # positions of the longest row
        self._held = 0  # number of slots at the start of the buffer, the last ones
        self._buffer: Tensor | None = None
        self._unused: Tensor | None = None  # slots of padding of each row, if rows differ

    @property
    def length(self) -> Positions:
        """The number of positions before the next one: one for each row if rows differ."""
        return self._slots if self._unused is None else self._slots - self._unused

    @property
    def visible(self) -> int:
        """The number of earlier positions that the next positions may attend to.

        With rows of different lengths, it is the number of the longest row.
        """
        return self._slots if self.window is None else min(self._slots, self.window)

    @property
    def padding(self) -> Int[Tensor, " N"] | None:
        """The number of visible positions that are padding, for each row; None without padding."""
        if self._unused is None:
            return None
        return (self._unused - (self._slots - self.visible)).clamp_min(0)

    @property
    def nbytes(self) -> int:
        """The size of the buffer in bytes, spare room included."""
        return 0 if self._buffer is None else self._buffer.nbytes

    def extend(
        self, x: Float[Tensor, "N T D"], normalise: Normalise, projection: Projection
    ) -> tuple[Float[Tensor, "N T D"], KeyValues]:
        """Append positions in place; so only one continuation of a cache is possible."""
        y = normalise(x)
        packed = projection.packed(y, self.length).transpose(0, 1)
        visible, new = self.visible, len(packed)
        if self._buffer is None or self._held + new > len(self._buffer):
            self._make_room(packed, max(2 * visible, visible + new, 16))
        assert self._buffer is not None
        self._buffer[self._held : self._held + new] = packed
        self._slots += new
        self._held += new
        held = self._buffer[self._held - visible - new : self._held]
        return y, projection.unpacked(held.transpose(0, 1))

    def select(self, rows: Int[Tensor, " M"]) -> "DecodingCache":
        """Return a cache whose row i continues row `rows[i]` of this one."""
        chosen = DecodingCache(self.window)
        chosen._slots, chosen._held = self._slots, self._held
        chosen._unused = None if self._unused is None else self._unused[rows]
        if self._buffer is not None:
            room, _, width = self._buffer.shape
            chosen._buffer = self._buffer.new_empty((room, len(rows), width))
            held = self._buffer[: self._held]
            torch.index_select(held, 1, rows, out=chosen._buffer[: self._held])
        return chosen

    def join(self, other: "DecodingCache") -> "DecodingCache":
        """Return a cache with the rows of this cache, and then those of another.

        Slots that are padding in every row are dropped.
        """
        if self._buffer is None or other._buffer is None:
            raise ValueError("an empty cache cannot be joined; decode a token first")
        parts, buffers = (self, other), (self._buffer, other._buffer)
        unused = [part._padding_of_rows() for part in parts]
        slots = max(part._slots - int(each.min()) for part, each in zip(parts, unused, strict=True))
        joined = DecodingCache(self.window)
        joined._slots, joined._held = slots, slots
        joined._held = visible = joined.visible
        joined._unused = torch.cat(
            [each + (slots - part._slots) for part, each in zip(parts, unused, strict=True)]
        )
        if not bool(joined._unused.any()):
            joined._unused = None
        held = [buffer[: part._held] for part, buffer in zip(parts, buffers, strict=True)]
        joined._buffer = _side_by_side(held, visible, max(2 * visible, 16))
        return joined

    def _padding_of_rows(self) -> Tensor:
        """Return the slots of padding of each row."""
        assert self._buffer is not None
        if self._unused is not None:
            return self._unused
        return torch.zeros(self._buffer.shape[1], dtype=torch.long, device=self._buffer.device)

    def last(self, positions: int) -> "DecodingCache":
        """Return a cache of the last positions, which count from 0 again.

        The keys must not depend on absolute positions, as rotated keys do.
        """
        kept = DecodingCache()
        kept._slots = kept._held = min(positions, self.visible)
        if self._buffer is not None:
            kept._buffer = self._buffer[self._held - kept._held : self._held].clone()
        return kept

    def _make_room(self, new: Tensor, room: int) -> None:
        """Replace the buffer by a new one that begins with the visible positions."""
        buffer, visible = new.new_empty((room, *new.shape[1:])), self.visible
        if self._buffer is not None:
            buffer[:visible] = self._buffer[self._held - visible : self._held]
        self._buffer, self._held = buffer, visible


def _side_by_side(parts: list[Tensor], slots: int, room: int) -> Tensor:
    """Return the last slots of time-first buffers, row beside row, with zeros before short ones."""
    rows = sum(part.shape[1] for part in parts)
    joined = parts[0].new_empty((room, rows, *parts[0].shape[2:]))
    first = 0
    for part in parts:
        here = joined[:slots, first : first + part.shape[1]]
        kept = part[max(0, len(part) - slots) :]
        here[: slots - len(kept)] = 0
        here[slots - len(kept) :] = kept
        first += part.shape[1]
    return joined
