"""Rows go to a foreign order and come back."""

import torch

from crosshead.interop.rows import from_rows, to_rows


def test_rows_come_back_and_absent_ones_are_filled() -> None:
    ours = torch.arange(10.0).reshape(5, 2)
    rows = [None, 2, 0, None, 1]
    theirs = to_rows(ours, rows)
    assert theirs.tolist() == [ours[2].tolist(), ours[4].tolist(), ours[1].tolist()]
    back = from_rows(theirs, rows, -7.0)
    assert torch.equal(back[[1, 2, 4]], ours[[1, 2, 4]])
    assert back[[0, 3]].eq(-7).all()
