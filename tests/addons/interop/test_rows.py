"""Ids and rows go to a foreign order, and rows come back."""

import torch

from crosshead.addons.interop.rows import foreign_ids, vocabulary
from crosshead.addons.interop.weights import from_rows, to_rows
from tests.addons.interop.small_bundles import small_bundle


def test_rows_come_back_and_absent_ones_are_filled() -> None:
    ours = torch.arange(10.0).reshape(5, 2)
    rows = [None, 2, 0, None, 1]
    theirs = to_rows(ours, rows)
    assert theirs.tolist() == [ours[2].tolist(), ours[4].tolist(), ours[1].tolist()]
    back = from_rows(theirs, rows, -7.0)
    assert torch.equal(back[[1, 2, 4]], ours[[1, 2, 4]])
    assert back[[0, 3]].eq(-7).all()


def test_exported_ids_are_those_of_the_other_toolkit() -> None:
    own, imported = small_bundle(), small_bundle({}, {"kind": "sentencepiece"})
    assert foreign_ids(own.source_tokenizer)[:4] == [0, 1, 2, 3]
    tokenizer = imported.source_tokenizer
    rows, found = foreign_ids(tokenizer), vocabulary(tokenizer)
    assert rows != sorted(row for row in rows if row is not None)
    assert list(found.values()) == sorted(row for row in rows if row is not None)
    assert found["</s>"] == rows[2]
