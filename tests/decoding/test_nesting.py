"""The nesting of marks: pieces in threes, that open and close a pair, and stand alone."""

import pytest

from crosshead.decoding.nesting import OUTERMOST, nesting

MARKS = tuple(range(4, 13))


def test_each_mark_stands_in_the_innermost_pair() -> None:
    found = nesting([20, 4, 21, 7, 9, 8, 5, 12], MARKS)
    assert found == {0: OUTERMOST, 1: OUTERMOST, 3: 0, 5: 3, 4: 0, 8: OUTERMOST}


@pytest.mark.parametrize("broken", [[4, 20], [20, 5], [4, 7, 5, 8], [6, 6], [4, 5, 4, 5]])
def test_a_broken_source_owes_nothing(broken: list[int]) -> None:
    assert nesting(broken, MARKS) == {}
