"""`Decodable`: the interface between search and models.

A model starts from a source and steps with the last tokens of every row. It keeps its data in a
state, whose rows search can repeat, reorder and drop. Models import nothing from here, because the
protocol is structural.

Axes: `B` sentences, `N` rows (hypotheses) being decoded, `T` tokens, `D` width, `V` vocabulary.
"""

from typing import Any, Protocol, Self, TypeVar, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor


class Sources(Protocol):
    """The sources of a batch: padded token ids, images, or whatever the model starts from.

    Search passes them to the model and reads only their number and their device.
    """

    @property
    def device(self) -> torch.device:
        """The device on which the model computes."""
        ...

    def __len__(self) -> int:
        """Return the number of sources."""
        ...


class DecodingState(Protocol):
    """The state of a model for the rows that it is decoding."""

    def select(self, rows: Int[Tensor, " M"]) -> Self:
        """Return a state whose row i continues row `rows[i]` of this one.

        A repeated index expands a row, a missing one drops it, and another order reorders rows. The
        rows of a sentence may share the encoder's memory. This state stays unchanged and can still
        be stepped.
        """
        ...


@runtime_checkable
class JoinableState(DecodingState, Protocol):
    """A state whose rows may be at different positions, and that other rows can join."""

    def join(self, other: Self) -> Self:
        """Return a state with the rows of this one, and then those of another.

        The rows may be at different positions and have sources of different lengths. The result of
        a row does not depend on the others. Both states have been stepped at least once.
        """
        ...

    @property
    def nbytes(self) -> int:
        """The memory that the state holds, in bytes."""
        ...


State = TypeVar("State", bound=DecodingState)


class Decodable(Protocol[State]):
    """A model that search can decode."""

    def start(self, source: Any) -> State:
        """Return the state before the first token."""
        ...

    def step(self, state: State, tokens: Int[Tensor, "N T"]) -> tuple[Float[Tensor, "N D"], State]:
        """Feed each row its next tokens.

        The first call feeds the start token. Several tokens at once, a forced prefix, have the same
        effect as one by one.
        """
        ...

    def logits(self, hidden: Float[Tensor, "N D"]) -> Float[Tensor, "N V"]:
        """Return the logits of the next token. Search asks for a few rows at a time."""
        ...
