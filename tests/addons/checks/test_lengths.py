import random

import numpy as np
import pytest

from crosshead.addons.checks.lengths import changed_numbers, odd_lengths
from tests.addons.checks.made_up import pairs


def text(count: int, spread: float) -> tuple[list[str], list[str]]:
    """Lines of 20 to 80 characters, and lines about 1.2 times as long."""
    rng = random.Random(1)
    lengths = [rng.randint(20, 80) for _ in range(count)]
    ratio = [1.2 * 2.718 ** rng.gauss(0, spread) for _ in range(count)]
    return (
        ["x" * each for each in lengths],
        ["y" * max(1, round(each * r)) for each, r in zip(lengths, ratio, strict=True)],
    )


def test_a_cut_side_is_found() -> None:
    source, target = text(1000, 0.1)
    target[3], source[500] = target[3][:5], source[500][:5]
    found = odd_lengths(source, target, np.arange(1000))
    assert [each.row for each in found] == [3, 500]
    usual = round(1.2 * len(source[3]))
    assert found[0].reason.startswith(f"{len(source[3])} and 5 characters, usual are ")
    assert abs(int(found[0].reason.split()[-1]) - usual) <= 2


@pytest.mark.parametrize("every", [100, 50, 20, 10, 5])
@pytest.mark.parametrize("factor", [1 / 3, 1 / 6, 3])
def test_many_damaged_sides_are_found(every: int, factor: float) -> None:
    source, target = text(2000, 0.15)
    damaged = set(range(7, 2000, every))
    for row in damaged:
        target[row] = "y" * round(factor * len(target[row]))
    found = {each.row for each in odd_lengths(source, target, np.arange(2000))}
    assert len(found & damaged) >= 0.9 * len(damaged)
    assert len(found - damaged) <= 2


@pytest.mark.parametrize("every", [20, 10, 5, 4])
def test_many_texts_of_one_length_are_found_on_either_side(every: int) -> None:
    sides = text(2000, 0.15)
    damaged = set(range(7, 2000, every))
    for number, row in enumerate(sorted(damaged)):
        sides[number % 2][row] = f"img_{number:04}.jpg"
    found = {each.row for each in odd_lengths(*sides, np.arange(2000))}
    # Some of the whole lines are of about the length of these texts.
    unlike = {row for row in damaged if abs(len(sides[0][row]) - len(sides[1][row])) > 25}
    assert unlike and len(found & unlike) >= 0.95 * len(unlike)
    assert found <= damaged


def test_single_words_decide_about_the_ratio_of_short_lines() -> None:
    source, target = text(1000, 0.1)
    source[3], target[3] = "x" * 6, "y" * 18
    source[500], target[500] = "x" * 6, "y" * 30
    found = odd_lengths(source, target, np.arange(1000))
    assert [each.row for each in found] == [500]
    # The side with more characters counts, whichever it is.
    found = odd_lengths(target, source, np.arange(1000))
    assert [each.row for each in found] == [500]


def test_freer_translations_need_larger_distances() -> None:
    source, target = text(1000, 0.6)
    target[3] = "y" * (len(source[3]) // 2)
    assert all(each.row != 3 for each in odd_lengths(source, target, np.arange(1000)))


def test_small_differences_are_usual_even_in_a_very_regular_text() -> None:
    source, target = text(1000, 0.01)
    for row, factor in ((3, 1.4), (500, 1.7)):
        target[row] = "y" * round(1.2 * factor * len(source[row]))
    found = odd_lengths(source, target, np.arange(1000))
    assert [each.row for each in found] == [500]


def test_sides_of_one_ratio_have_no_suspects() -> None:
    source, _ = text(1000, 0.0)
    assert odd_lengths(source, source, np.arange(1000)) == []
    assert odd_lengths([], [], np.arange(0)) == []


def numbered(count: int) -> tuple[list[str], list[str]]:
    source, target = pairs(count)
    return (
        [f"{line} {row + 10}" for row, line in enumerate(source)],
        [f"{row + 10} {line}" for row, line in enumerate(target)],
    )


def test_changed_numbers_are_found() -> None:
    source, target = numbered(50)
    target[3] = target[3].replace("13", "31")
    source[9] = source[9].replace("19", "190")
    target[20] = target[20].replace("30", "3000")
    found = changed_numbers(source, target)
    assert [(each.row, each.score) for each in found] == [(3, 0.94), (9, 0.94), (20, 0.94)]
    assert {each.reason for each in found} == {"a number differs between the sides"}


def test_a_number_without_its_thousands_is_changed() -> None:
    source, target = numbered(50)
    source[3], target[3] = "20,000 dogs", "20 Hunde"
    assert [each.row for each in changed_numbers(source, target)] == [3]


def test_other_ways_to_write_numbers_are_no_fault() -> None:
    source, target = numbered(50)
    source[3:8] = ["7 dogs", "1,000 dogs", "20 May 1939", "12 cats", "10:30"]
    target[3:8] = ["9 Hunde", "1.000 Hunde", "1939-05-20", "zwölf Katzen", "10.30"]
    assert changed_numbers(source, target) == []


def test_languages_that_write_numbers_differently_have_no_suspects() -> None:
    source, target = numbered(50)
    for row in range(10):
        target[row] = f"99 {target[row][3:]}"
    assert len(changed_numbers(source, target)) == 10
    target[10] = f"99 {target[10][3:]}"
    assert changed_numbers(source, target) == []


def test_a_text_without_numbers_has_no_suspects() -> None:
    assert changed_numbers(*pairs(50)) == []
