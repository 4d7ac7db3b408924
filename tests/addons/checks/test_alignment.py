import itertools
import math
import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from crosshead.addons.checks import alignment
from crosshead.addons.checks.alignment import (
    APART,
    LEAST_ROWS,
    MOST_MISALIGNED,
    best_path,
    misaligned,
    shift_reason,
    smoothed,
)
from crosshead.system.lines import read_lines
from tests.addons.checks.made_up import pairs
from tests.parameters import mostly_slow

ROWS = 900


def test_swapped_and_shifted_pairs_are_found() -> None:
    source, target = pairs(ROWS)
    swapped = [10, 200, 430, 777]
    target[10], target[200], target[430], target[777] = (
        target[200], target[430], target[777], target[10],
    )  # fmt: skip
    target[500:560] = target[501:560] + target[500:501]
    found = {each.row: each for each in misaligned(source, target, np.arange(ROWS)).suspects}
    expected = {*swapped, *range(500, 560)}
    # The last row of the stretch has a target from above; so only a part of it may be missed.
    assert set(found) <= expected and len(found) >= len(expected) - 2
    assert {found[row].reason for row in swapped if row in found} == {APART}
    below = "the target translates the source 1 line below"
    assert all(found[row].reason == below for row in range(505, 555))
    assert all(0.5 < each.score <= 1 for each in found.values())


@pytest.mark.parametrize(
    ("first", "shift"),
    mostly_slow(itertools.product([90, 450, 810], [1, 2]), [(90, 2), (450, 1), (810, 2)]),
)
def test_a_shift_to_the_end_is_named(first: int, shift: int) -> None:
    source, target = pairs(ROWS + shift)
    del source[ROWS:], target[first : first + shift]
    suspects = misaligned(source, target, np.arange(ROWS)).suspects
    named = [each.row for each in suspects if each.reason == shift_reason(shift)]
    # The last targets translate sources that are cut off.
    assert set(range(first + 5, ROWS - shift)) <= set(named) <= set(range(first - 5, ROWS))


def test_two_shifts_of_one_stretch_are_named_each() -> None:
    source, target = pairs(ROWS + 2)
    del source[ROWS:], target[600], target[300]
    suspects = misaligned(source, target, np.arange(ROWS)).suspects
    reasons = {each.row: each.reason for each in suspects}
    assert all(reasons[row] == shift_reason(1) for row in range(305, 594))
    assert all(reasons[row] == shift_reason(2) for row in range(605, 890))


def test_a_shift_counts_rows_that_take_no_part() -> None:
    source, target = pairs(ROWS + 1)
    del source[ROWS:], target[450]
    rows = np.delete(np.arange(ROWS), np.arange(500, 800, 10))
    suspects = misaligned(source, target, rows).suspects
    reasons = Counter(each.reason for each in suspects if each.row >= 450)
    assert reasons[shift_reason(1)] > 400 and reasons.keys() <= {shift_reason(1), APART}


@pytest.mark.parametrize("share", mostly_slow([0.1, 0.3, 0.6, 1.0], [0.1, 1.0]))
def test_random_pairs_are_no_stretch(share: float) -> None:
    source, target = pairs(ROWS)
    rng = random.Random(1)
    rows = rng.sample(range(ROWS), round(share * ROWS))
    texts = [target[row] for row in rows]
    for row, text in zip(rows, texts[1:] + texts[:1], strict=True):
        target[row] = text
    found = misaligned(source, target, np.arange(ROWS))
    assert {each.reason for each in found.suspects} == {APART}
    assert found.share == pytest.approx(share, abs=0.1)


@pytest.mark.parametrize("language", mostly_slow(["cs", "de"], ["de"]))
def test_a_side_that_was_sorted_alone_has_no_shifts(data: Path, language: str) -> None:
    # Sorted captions resemble their neighbours, so that some of them fit by chance.
    source, target = (
        read_lines(data / f"multi30k/raw/train.{name}")[:600] for name in ("en", language)
    )
    found = misaligned(source, sorted(target), np.arange(600))
    # Of eight draws, the share was 0.86 to 0.95, and 81 to 548 pairs were clear one by one.
    assert found.share > 0.8 and len(found.suspects) > 60
    assert {each.reason for each in found.suspects} == {APART}


@pytest.mark.parametrize("shift", mostly_slow([-3, -1, 1, 2], [-3, 1]))
def test_a_text_that_is_shifted_as_a_whole_has_one_shift(shift: int) -> None:
    source, target = pairs(ROWS)
    target = target[shift:] + target[:shift]
    found = misaligned(source, target, np.arange(ROWS))
    assert found.share > MOST_MISALIGNED
    assert sum(each.shift == shift for each in found.suspects) >= ROWS - 5
    assert {each.reason for each in found.suspects if each.shift} == {shift_reason(shift)}


def test_a_clean_text_has_no_suspects() -> None:
    assert misaligned(*pairs(ROWS), np.arange(ROWS)).suspects == []


def test_pairs_that_are_all_alike_have_no_suspects() -> None:
    source, target = ["a cat", "a dog", "!"] * ROWS, ["eine Katze", "ein Hund", "?"] * ROWS
    assert misaligned(source, target, np.arange(3 * ROWS)).suspects == []


def test_too_few_pairs_are_not_judged() -> None:
    source, target = pairs(ROWS)
    assert misaligned(source, target[::-1], np.arange(LEAST_ROWS - 1)).suspects == []


def test_other_rows_take_no_part() -> None:
    source, target = pairs(ROWS + 100)
    rows = np.delete(np.arange(ROWS + 100), np.arange(50, 150))
    whole = target.copy()
    whole[50:150] = ["unread"] * 100
    target[300], target[700] = target[700], target[300]
    whole[300], whole[700] = target[300], target[700]
    found = misaligned(source, target, rows).suspects
    assert [each.row for each in found] == [300, 700]
    assert misaligned(source, whole, rows).suspects == found


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
    np.testing.assert_allclose(smoothed(odds, share), expected)


@pytest.mark.parametrize("seed", range(5))
def test_the_best_path_is_the_best_of_all_paths(seed: int) -> None:
    evidence = np.random.default_rng(seed).normal(0, 12, (5, 3))
    change = math.log(alignment._BEGIN)

    def score(path: tuple[int, ...]) -> float:
        around = (0, *path, 0)
        changes = sum(a != b for a, b in itertools.pairwise(around))
        return change * changes + sum(evidence[row, state] for row, state in enumerate(path))

    expected = max(itertools.product(range(3), repeat=5), key=score)
    assert tuple(best_path(evidence).tolist()) == expected
