import numpy as np

from crosshead.data.checks.language import foreign, ngrams
from tests.data.checks.made_up import pairs


def test_lines_in_a_third_language_are_found_and_no_others() -> None:
    source, target = pairs(600)
    _, others = pairs(600, ("source", "other"))
    wrong = list(range(0, 600, 40))
    for row in wrong:
        target[row] = others[row]
    found = foreign(target, source, "target") or []
    assert [each.row for each in found] == wrong
    assert {each.reason for each in found} == {
        "the target is in another language than the other targets"
    }
    assert foreign(source, target, "source") == []


def test_a_single_line_in_the_language_of_the_other_side_is_found() -> None:
    source, target = pairs(600)
    target[17] = source[17]
    found = foreign(target, source, "target") or []
    assert [(each.row, each.reason) for each in found] == [
        (17, "the target is in the language of the other side")
    ]


def test_one_language_has_no_suspects_even_if_an_odd_line_is_repeated() -> None:
    source, target = pairs(600)
    for row in range(0, 600, 60):
        target[row] = f"{row}: qwx qwxq xwq wqx!"
    assert foreign(target, source, "target") == []


def test_short_lines_and_small_sides_are_not_judged() -> None:
    source, target = pairs(600)
    assert foreign(["12:30"] * 600, source, "target") is None
    assert foreign(target[:45] + source[:45], source, "target") is None


def test_means_and_histograms_agree_with_counting() -> None:
    found = ngrams(["Ab, ab", "", "ab 12 ab"])
    assert found.lengths.tolist() == [5, 0, 5]  # " ab ab " has five n-grams of three characters
    total, first = found.histogram(), found.histogram(np.array([True, False, False]))
    np.testing.assert_array_equal(total, 2 * first)
    np.testing.assert_allclose(found.means(np.ones(len(total))), [1, 0, 1])
