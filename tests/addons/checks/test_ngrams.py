"""Character n-grams of lines."""

import numpy as np

from crosshead.addons.checks.ngrams import (
    LEAST_LINES,
    LEAST_WORDS,
    has_enough,
    letters_of,
    ngrams,
)


def test_letters_are_words_in_lower_case() -> None:
    assert letters_of(" Am 3. Mai_2019, um 12:30 Uhr! ") == "am mai um uhr"


def test_code_has_no_letters() -> None:
    line = "See <b>%(name)s</b> of {count} at http://x.de/a&b: %s &amp; more, 5 % and %d"
    assert letters_of(line) == "see of at more and"


def test_latin_letters_count_only_in_latin_lines() -> None:
    assert letters_of("GEDCOM-ファイルの読み込みに失敗") == "ファイルの読み込みに失敗"
    assert letters_of("Импорт из GeneWeb") == "импорт из"
    assert letters_of("Ein schönes α") == "ein schönes α"
    assert (
        letters_of(letters_of("Файл {name} Äpfel"))
        == letters_of("Файл {name} Äpfel")
        == "файл äpfel"
    )


def test_enough_means_lines_and_different_words() -> None:
    lines = [f"{chr(97 + n % 26)}{chr(97 + n // 26)} und" for n in range(LEAST_WORDS)]
    everything = np.ones(len(lines), bool)
    assert has_enough(lines, everything)
    assert not has_enough(lines, np.arange(len(lines)) < LEAST_LINES - 1)
    assert not has_enough(["wie er sagt"] * len(lines), everything)


def test_means_and_histograms_agree_with_counting() -> None:
    found = ngrams(["Ab, ab", "", "ab 12 ab"])
    assert found.lengths.tolist() == [5, 0, 5]  # " ab ab " has five n-grams of three characters
    total, first = found.histogram(), found.histogram(np.array([True, False, False]))
    np.testing.assert_array_equal(total, 2 * first)
    np.testing.assert_allclose(found.means(np.ones(len(total))), [1, 0, 1])
