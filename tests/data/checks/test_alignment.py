import itertools
import math

import numpy as np

from crosshead.data.checks import alignment
from crosshead.data.checks.alignment import APART, LEAST_ROWS, misaligned
from tests.data.checks.made_up import pairs

ROWS = 900


def test_swapped_and_shifted_pairs_are_found() -> None:
    source, target = pairs(ROWS)
    swapped = [10, 200, 430, 777]
    target[10], target[200], target[430], target[777] = (
        target[200], target[430], target[777], target[10],
    )  # fmt: skip
    target[500:560] = target[501:560] + target[500:501]
    found = {each.row: each for each in misaligned(source, target, np.arange(ROWS))}
    expected = {*swapped, *range(500, 560)}
    # The last row of the stretch has a target from above; so only a part of it may be missed.
    assert set(found) <= expected and len(found) >= len(expected) - 2
    assert {found[row].reason for row in swapped if row in found} == {APART}
    below = "the target translates the source 1 line below"
    assert all(found[row].reason == below for row in range(505, 555))
    assert all(0.5 < each.score <= 1 for each in found.values())


def test_a_clean_text_has_no_suspects() -> None:
    assert misaligned(*pairs(ROWS), np.arange(ROWS)) == []


def test_pairs_that_are_all_alike_have_no_suspects() -> None:
    source, target = ["a cat", "a dog", "!"] * ROWS, ["eine Katze", "ein Hund", "?"] * ROWS
    assert misaligned(source, target, np.arange(3 * ROWS)) == []


def test_too_few_pairs_are_not_judged() -> None:
    source, target = pairs(ROWS)
    assert misaligned(source, target[::-1], np.arange(LEAST_ROWS - 1)) == []


def test_other_rows_take_no_part() -> None:
    source, target = pairs(ROWS + 100)
    rows = np.delete(np.arange(ROWS + 100), np.arange(50, 150))
    whole = target.copy()
    whole[50:150] = ["unread"] * 100
    target[300], target[700] = target[700], target[300]
    whole[300], whole[700] = target[300], target[700]
    found = misaligned(source, target, rows)
    assert [each.row for each in found] == [300, 700]
    assert misaligned(source, whole, rows) == found


def test_the_smoothed_probability_is_that_of_all_sequences_of_states() -> None:
    odds, share = np.array([-1.0, 2.0, 3.0, -0.5, 1.0]), 0.1
    begin, stay = alignment._BEGIN, alignment._STAY
    outside = [1 - share - begin, share, begin]
    inside = [(1 - stay) * (1 - share), (1 - stay) * share, stay]
    transitions = [outside, outside, inside]
    weight = np.zeros((len(odds), 2))
    for states in itertools.product(range(3), repeat=len(odds)):
        each, before = 1.0, 0
        for place, state in enumerate(states):
            each *= transitions[before][state] * (math.exp(odds[place]) if state else 1.0)
            before = state
        for place, state in enumerate(states):
            weight[place, int(state > 0)] += each
    expected = weight[:, 1] / weight.sum(1)
    np.testing.assert_allclose(alignment._smoothed(odds, share), expected)


def test_pooling_gives_the_nearest_rising_sequence() -> None:
    values, weights = np.array([1.0, 3.0, 2.0, 2.0, 5.0]), np.array([1.0, 1.0, 2.0, 1.0, 1.0])
    rising = alignment._rising(values, weights)
    np.testing.assert_allclose(rising, [1, 2.25, 2.25, 2.25, 5])
