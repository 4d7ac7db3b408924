from dataclasses import dataclass

import numpy as np
import pytest

from crosshead.errors import DataError
from crosshead.text.equal_rows import EqualRows


@dataclass(frozen=True)
class Cards(EqualRows):
    """Cards of five letters."""

    count: int
    length: int = 5
    row, bound, units = "card", "data.letters", "letters"

    def __len__(self) -> int:
        return self.count

    def extent(self, row: int) -> str:
        return "one word"


def test_batches_have_all_rows_once_in_an_order_of_seed_and_epoch() -> None:
    cards = Cards(23)
    plans = {drawn: cards.plan(20, *drawn) for drawn in ((1, 0), (1, 1), (2, 0))}
    for plan in plans.values():
        assert [len(each) for each in plan] == [4, 4, 4, 4, 4, 3]
        assert sorted(np.concatenate(plan)) == list(range(23))
    orders = {tuple(np.concatenate(plan)) for plan in plans.values()}
    assert len(orders) == 3 and tuple(np.concatenate(cards.plan(20, 1, 0))) in orders
    assert np.concatenate(cards.in_order(20)).tolist() == list(range(23))
    assert cards.lengths.shape == (23, 1) and set(cards.lengths[:, 0]) == {5}


def test_rows_longer_than_a_batch_are_refused() -> None:
    assert len(Cards(3).in_order(5)) == 3
    message = r"each card of one word has 5 letters, more than the 4 of train.batch_tokens; raise"
    with pytest.raises(DataError, match=message):
        Cards(3).in_order(4)
