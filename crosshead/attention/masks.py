"""Who may attend to whom: predicates of (batch, head, query, key) that combine with `&`, `|`, `~`.

True = may attend, everywhere. A predicate is written for index tensors that broadcast: `dense`
evaluates it for all queries and keys at once, which is the mask that `attend` takes.
"""

from collections.abc import Callable

import torch
from jaxtyping import Bool
from torch import Tensor

Predicate = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]

EvaluatedMask = Bool[Tensor, "_ _ _ _"]
"""A mask as `attend` takes it: a tensor that broadcasts to `B H Q K`."""


class Mask:
    """A predicate over batch, head, query and key positions."""

    def __init__(self, predicate: Predicate) -> None:
        self.predicate = predicate

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        """Whether `query` may attend to `key`, for index tensors that broadcast together."""
        return self.predicate(batch, head, query, key)

    def __and__(self, other: "Mask") -> "Mask":
        return Mask(lambda b, h, q, k: self(b, h, q, k) & other(b, h, q, k))

    def __or__(self, other: "Mask") -> "Mask":
        return Mask(lambda b, h, q, k: self(b, h, q, k) | other(b, h, q, k))

    def __invert__(self) -> "Mask":
        return Mask(lambda b, h, q, k: ~self(b, h, q, k))

    def dense(
        self,
        queries: int,
        keys: int,
        *,
        batch: int = 1,
        heads: int = 1,
        offset: int = 0,
        device: torch.device | None = None,
    ) -> Bool[Tensor, "#B #H #Q #K"]:
        """The predicate as a tensor that broadcasts to `B H Q K`.

        Axes that the predicate does not look at stay of size 1. `offset` is the position of the
        first query: keys that came before it are in the cache.
        """
        b = torch.arange(batch, device=device).view(-1, 1, 1, 1)
        h = torch.arange(heads, device=device).view(1, -1, 1, 1)
        q = torch.arange(offset, offset + queries, device=device).view(1, 1, -1, 1)
        k = torch.arange(keys, device=device).view(1, 1, 1, -1)
        return self(b, h, q, k)


causal = Mask(lambda b, h, q, k: k <= q)
"""No position sees a later one (Vaswani et al. 2017, section 3.2.3)."""


def present(valid: Bool[Tensor, "B K"]) -> Mask:
    """Only the keys that are there, as told per sentence: padding is not."""
    return Mask(lambda b, h, q, k: valid[b, k])
