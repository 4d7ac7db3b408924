"""Marks in outputs: each mark of the source at most once, and no others.

Axes: `B` sentences, `N` rows (hypotheses), `P` tokens of a row, `M` pieces of marks.
"""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def owed(sources: Any, pieces: Sequence[int]) -> Bool[Tensor, "B M"]:
    """Return whether each source has each piece. Other sources than tokens have none."""
    if not pieces or not isinstance(sources, Tensor):
        return torch.zeros(len(sources), len(pieces), dtype=torch.bool)
    return (sources[:, :, None] == torch.tensor(pieces, device=sources.device)).any(1)


def admitted(
    owed: Bool[Tensor, "N M"], tokens: Int[Tensor, "N P"], pieces: Sequence[int]
) -> Bool[Tensor, "N M"] | None:
    """Return whether each piece may follow a row of tokens; None if none is owed.

    The end may follow while marks are owed, for a model that forgot one would write on and on.
    """
    if not owed.any():
        return None
    found = tokens[:, :, None] == torch.tensor(pieces, device=tokens.device)
    return owed & ~found.any(1)
