import pytest

from crosshead.errors import DataError
from crosshead.evaluation.translations import corpus_scores, exact_match
from tests.evaluation.texts import REFERENCES


def test_a_perfect_translation_has_100() -> None:
    [score] = corpus_scores(REFERENCES, REFERENCES, ["bleu"])
    assert (score.value, score.low, score.high) == pytest.approx((100, 100, 100))


def test_exact_matches_are_exact() -> None:
    assert exact_match(["a", "b ", "C", "d"], ["a", "b", "c", "d"]) == 0.5
    assert exact_match(["a", "b", "C", "d"], ["a", "b", "c", "d"]) == 0.75


def test_sets_that_do_not_fit_are_refused() -> None:
    with pytest.raises(DataError, match=r"found 1 translations .* and 2 references"):
        corpus_scores(["a"], ["a", "b"])
    with pytest.raises(DataError, match="the test set is empty"):
        exact_match([], [])
