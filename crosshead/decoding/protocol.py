"""`Decodable`: all that search knows of a model.

A model starts from a source, steps with the last tokens of every row, and keeps whatever it needs
in a state that search can expand, reorder and thin out. Models import nothing from here: the
protocol is structural.

Axes: `B` sentences, `N` rows (hypotheses) that are being decoded, `T` tokens, `D` width,
`V` vocabulary.
"""

from typing import Protocol, Self, TypeVar

from jaxtyping import Float, Int
from torch import Tensor


class DecodingState(Protocol):
    """The state of a model for the rows that it is decoding."""

    def select(self, rows: Int[Tensor, " M"]) -> Self:
        """A state whose row i continues row `rows[i]` of this one.

        Repeating an index expands a row, leaving one out drops it, another order reorders; at least
        one row stays (`ValueError`). What belongs to the sentence (the encoder's memory) may be
        shared by its rows. The state itself is left as it was and can still be stepped.
        """
        ...


State = TypeVar("State", bound=DecodingState)


class Decodable(Protocol[State]):
    """A model that can be searched."""

    def start(self, source: Int[Tensor, "B S"]) -> State:
        """The state before the first token: one row a sentence of a padded source."""
        ...

    def step(self, state: State, tokens: Int[Tensor, "N T"]) -> tuple[Float[Tensor, "N D"], State]:
        """Feed each row its next tokens; return what `logits` makes the token after them of.

        The first call gives the start token. Several tokens at once (a forced prefix) count as if
        they had been fed one by one. `state` is used up: caches are extended in place, so go on
        with the state returned, and `select` first where one state is to go on two ways.
        """
        ...

    def logits(self, features: Float[Tensor, "N D"]) -> Float[Tensor, "N V"]:
        """The logits of the next token. Search asks for a few rows at a time."""
        ...
