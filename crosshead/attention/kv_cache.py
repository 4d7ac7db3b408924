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

Project = Callable[[Tensor, Positions], KeyValues]
"""A function of vectors `N T D` and the position of the first that returns keys and values."""


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
        self, x: Float[Tensor, "N T D"], normalise: Normalise, project: Project
    ) -> tuple[Float[Tensor, "N T D"], KeyValues]:
        """Add new positions, and return what attention needs of new and earlier ones.

        A cache may keep hidden states, or the keys and values that are projected from them.
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

    Rows of different lengths end together: after `join`, a shorter row begins with padding. So
    distances between positions stay as they are.
    """

    def __init__(self, window: int | None = None) -> None:
        self.window = window
        self._slots = 0  # positions of the longest row
        self._held = 0  # number of slots at the start of the buffers, the last ones
        self._buffers: tuple[Tensor, Tensor] | None = None
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
        """The size of the buffers in bytes, spare room included."""
        return sum(part.nbytes for part in self._buffers or ())

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
        self._slots += new
        self._held += new
        begin = self._held - visible - new
        held = (buffer[begin : self._held].permute(1, 2, 0, 3) for buffer in self._buffers)
        return y, KeyValues(*held)

    def select(self, rows: Int[Tensor, " M"]) -> "DecodingCache":
        """Return a cache whose row i continues row `rows[i]` of this one."""
        chosen = DecodingCache(self.window)
        chosen._slots, chosen._held = self._slots, self._held
        chosen._unused = None if self._unused is None else self._unused[rows]
        if self._buffers is not None:
            chosen._buffers = tuple(_select(part, rows, self._held) for part in self._buffers)  # type: ignore[assignment]
        return chosen

    def join(self, other: "DecodingCache") -> "DecodingCache":
        """Return a cache with the rows of this cache, and then those of another.

        Slots that are padding in every row are dropped.
        """
        if self._buffers is None or other._buffers is None:
            raise ValueError("an empty cache cannot be joined; decode a token first")
        parts = (self, other)
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
        room = max(2 * visible, 16)
        keys, values = (
            _side_by_side([part._buffers[index][: part._held] for part in parts], visible, room)  # type: ignore[index]
            for index in range(2)
        )
        joined._buffers = keys, values
        return joined

    def _padding_of_rows(self) -> Tensor:
        """Return the slots of padding of each row."""
        assert self._buffers is not None
        if self._unused is not None:
            return self._unused
        keys = self._buffers[0]
        return torch.zeros(keys.shape[1], dtype=torch.long, device=keys.device)

    def last(self, positions: int) -> "DecodingCache":
        """Return a cache of the last positions, which count from 0 again.

        The keys must not depend on absolute positions, as rotated keys do.
        """
        kept = DecodingCache()
        kept._slots = kept._held = min(positions, self.visible)
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


def _select(buffer: Tensor, rows: Tensor, length: int) -> Tensor:
    """Return the chosen rows of a time-first buffer, with as much spare room as before."""
    chosen = buffer.new_empty((buffer.shape[0], rows.shape[0], *buffer.shape[2:]))
    torch.index_select(buffer[:length], 1, rows, out=chosen[:length])
    return chosen
