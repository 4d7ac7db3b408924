"""Pairs with exchanged sides, up to half of a text."""

import random

import pytest

from crosshead.addons.checks.exchanged import exchanged
from tests.addons.checks.made_up import pairs
from tests.addons.vision.captions import captions


@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 0.45, 0.5])
def test_exchanged_captions_are_found(share: float) -> None:
    source, target = captions(1000)
    rows = random.Random(1).sample(range(1000), round(1000 * share))
    for row in rows:
        source[row], target[row] = target[row], source[row]
    found = exchanged(source, target)
    assert {each.kind for each in found} <= {"exchanged"}
    assert all(0.4 < each.score < 1 for each in found)
    chosen = {each.row for each in found}
    if share == 0.5:  # nothing tells which half is exchanged
        assert chosen in ({*rows}, {*range(1000)} - {*rows})
    else:
        assert chosen == {*rows}


def test_two_sides_in_one_language_have_no_exchanged_pairs() -> None:
    for size in (200, 1000, 4000):
        assert exchanged(captions(size)[0], captions(size, seed=2)[0]) == []


def test_a_small_text_is_not_judged() -> None:
    source, target = pairs(90)
    assert exchanged([*source[:45], *target[45:]], [*target[:45], *source[45:]]) is None
