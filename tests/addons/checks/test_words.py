import numpy as np

from crosshead.addons.checks.words import MOST_WORDS, stemmed_words


def test_flat_arrays_hold_the_words_of_each_line() -> None:
    found = stemmed_words(["a b a", "", "b rare", "a"], 2)
    assert found.size == 2 and found.lengths.tolist() == [3, 0, 1, 1]
    assert found.ids.tolist() == [0, 1, 0, 1, 0]


def test_inflected_forms_are_one_word_and_long_lines_are_cut() -> None:
    found = stemmed_words(["translate translation", "x " * (MOST_WORDS + 5)], 1)
    assert found.lengths.tolist() == [2, MOST_WORDS] and found.size == 2


def test_some_lines_have_the_words_of_these_lines() -> None:
    lines = ["a b", "c", "", "a c b", "b"]
    rows = np.array([3, 2, 0, 3])
    found, whole = stemmed_words(lines, 1).some(rows), stemmed_words(lines, 1)
    ends = whole.ends - whole.lengths
    expected = [whole.ids[ends[row] : whole.ends[row]].tolist() for row in rows]
    assert [part.tolist() for part in np.split(found.ids, found.ends[:-1])] == expected
