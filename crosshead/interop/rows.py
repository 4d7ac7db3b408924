"""Rows of matrices in the order of a foreign vocabulary, and back."""

from collections.abc import Sequence

import torch
from torch import Tensor


def to_rows(ours: Tensor, rows: Sequence[int | None]) -> Tensor:
    """Return the rows of a matrix in the order of a foreign vocabulary.

    Args:
        ours: The matrix, one row for each of crosshead's ids.
        rows: The foreign id of each id; None leaves a row out.
    """
    known = [(row, index) for index, row in enumerate(rows) if row is not None]
    return ours[torch.tensor([index for _, index in sorted(known)])].contiguous()


def from_rows(theirs: Tensor, rows: Sequence[int | None], absent: float) -> Tensor:
    """Return the rows of a foreign matrix in crosshead's order.

    Args:
        theirs: The matrix, one row for each of the foreign ids.
        rows: The foreign id of each id; None if it has none.
        absent: The number that fills a row without a foreign id.
    """
    found = theirs[torch.tensor([row or 0 for row in rows])]
    missing = torch.tensor([row is None for row in rows])
    found[missing] = absent
    return found
