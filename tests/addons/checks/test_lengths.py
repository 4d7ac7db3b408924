import random

import numpy as np
import pytest

from crosshead.addons.checks.lengths import odd_lengths


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
