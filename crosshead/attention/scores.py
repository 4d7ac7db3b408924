"""How well a query fits a key: objects that turn `B H Q E` and `B H K E` into scores `B H Q K`."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor


class Grid(NamedTuple):
    """Where queries stand relative to keys: query i comes `step * (i + offset - j)` after key j.

    For all of a sequence at once that is `i - j`; behind a past of `P` positions, which are keys
    already, the offset is `P`. Kernels that attend in blocks have other offsets and steps.
    """

    offset: int = 0
    step: int = 1


Score = Callable[[Tensor, Tensor, Grid], Tensor]
"""Queries `B H Q E` and keys `B H K E`, and where they stand, to scores `B H Q K`."""


@dataclass(frozen=True)
class ScaledDot:
    """The dot product times `scale`, by default 1/sqrt(d_k) (Vaswani et al. 2017, Eq. 1).

    Without the scale the products of random vectors grow with sqrt(d_k) and push the softmax into
    regions of vanishing gradient (section 3.2.1, footnote 4).
    """

    scale: float | None = None

    def __call__(
        self,
        query: Float[Tensor, "B H Q E"],
        key: Float[Tensor, "#B #H K E"],
        grid: Grid = Grid(),  # noqa: B008 - immutable
    ) -> Float[Tensor, "B H Q K"]:
        """Every query's score with every key."""
        scale = 1.0 / math.sqrt(query.shape[-1]) if self.scale is None else self.scale
        # The queries are scaled instead of the scores: there are fewer of them.
        query = query * scale
        if query.shape[-2] == 1 and query.device.type == "cpu":
            # One query each, in decoding: a batch of such small products would copy its operands.
            return (query * key).sum(dim=-1).unsqueeze(-2)
        return query @ key.transpose(-2, -1)
