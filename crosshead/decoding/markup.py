"""Marks in outputs: each mark of the source at most once, and nested as in the source.

A tokenizer has three pieces for each number: one that opens a pair of marks, one that closes it,
and one of a mark that stands alone.

Axes: `B` sentences, `N` rows (hypotheses), `S` source positions, `P` tokens of a row, `M` pieces.
"""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from crosshead.decoding.nesting import OUTERMOST, nesting

ABSENT = -2
"""The value of `parents` for a piece that the source lacks."""


def parents(sources: Any, pieces: Sequence[int]) -> Int[Tensor, "B M"]:
    """Return the `nesting` of each source, with `ABSENT` for pieces that it lacks."""
    found = torch.full((len(sources), len(pieces)), ABSENT)
    if not pieces or not isinstance(sources, Tensor):
        return found  # of images, for example
    marked = torch.isin(sources, torch.tensor(pieces, device=sources.device)).any(1)
    for row in marked.nonzero().flatten().tolist():
        for place, parent in nesting(sources[row].tolist(), pieces).items():
            found[row, place] = parent
    return found


def admitted(
    parents: Int[Tensor, "N M"], tokens: Int[Tensor, "N P"], pieces: Sequence[int]
) -> Bool[Tensor, "N M"] | None:
    """Return whether each piece may follow a row of tokens; None if none is owed.

    The end may follow while marks are owed, for a model that forgot one would write on and on.
    """
    if not (parents > ABSENT).any():
        return None
    found = torch.nn.functional.pad(tokens, (1, 0))[:, :, None]
    found = found == torch.tensor(pieces, device=tokens.device)
    missing = (parents > ABSENT) & ~found.any(1)
    opened = found[:, :, 0::3] * torch.arange(1, found.shape[1] + 1, device=tokens.device)[:, None]
    last = opened.amax(1) * ~found[:, :, 1::3].any(1)  # 0 for pairs that are not open
    innermost = torch.where(last.any(1), 3 * last.argmax(1), OUTERMOST)[:, None]
    allowed = missing & (parents == innermost)
    is_complete = ~allowed.any(1, keepdim=True)
    openers = torch.arange(0, len(pieces), 3, device=tokens.device)
    allowed[:, 1::3] = (innermost == openers) & is_complete
    return allowed
