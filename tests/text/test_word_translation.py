"""IBM model 1 beside its equations."""

import itertools

import numpy as np
import pytest

from crosshead.text import word_translation
from crosshead.text.word_translation import (
    PRIOR,
    Direction,
    Links,
    Translations,
    WordIds,
    WordPairs,
    learn,
)

A, B, X, Y = range(4)


def words(*rows: list[int], size: int = 4) -> WordIds:
    ends = np.cumsum([len(row) for row in rows])
    return WordIds(np.array(list(itertools.chain(*rows))), ends, size)


def learned(
    source: WordIds, target: WordIds, likely: float = 1.0, none: float = 1.0
) -> tuple[Translations, list[tuple[int, int]]]:
    """The probabilities of translations, and their pairs of words."""
    links = Links(source, target)
    pairs = WordPairs(source.ids[links.source], target.ids[links.target], target.size)
    found = learn(
        Direction(pairs.source, pairs.target, pairs.of_link, links.target, target, source.size),
        likely=likely, none=none,
    )  # fmt: skip
    return found, list(zip(pairs.source.tolist(), pairs.target.tolist(), strict=True))


def test_links_are_all_pairs_of_words_of_a_row() -> None:
    source, target = words([A, B], [], [B]), words([X], [Y], [X, Y])
    links = Links(source, target)
    assert links.row.tolist() == [0, 0, 2, 2]
    assert source.ids[links.source].tolist() == [A, B, B, B]
    assert target.ids[links.target].tolist() == [X, X, X, Y]


def test_pairs_are_found_and_forgotten() -> None:
    pairs = WordPairs(np.array([B, A, B, A]), np.array([X, Y, X, X]), 4)
    assert list(zip(pairs.source, pairs.target, strict=True)) == [(A, X), (A, Y), (B, X)]
    assert pairs.of_link.tolist() == [2, 1, 2, 0]
    index, known = pairs.find(np.array([[A], [B]]), np.array([X, Y]))
    assert known.tolist() == [[True, True], [True, False]]
    assert index[known].tolist() == [0, 1, 2]
    pairs.forget(np.array([True, False, True]))
    index, known = pairs.find(np.array([[A], [B]]), np.array([X, Y]))
    assert known.tolist() == [[True, False], [True, False]] and index[known].tolist() == [0, 1]


def test_some_rows_keep_their_words() -> None:
    found = words([A, B], [], [B], [X, Y]).some(np.array([3, 0, 1]))
    assert found.ids.tolist() == [X, Y, A, B] and found.ends.tolist() == [2, 4, 4]
    assert found.lengths.tolist() == [2, 2, 0]


def test_one_iteration_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brown et al. 1993, equations 10 and 17, on two pairs and all alignments one by one."""
    monkeypatch.setattr(word_translation, "ITERATIONS", 1)
    model, pairs = learned(words([A, B], [A]), words([X, Y], [X]))
    frequency = {X: 3 / 7, Y: 2 / 7}  # one is added to the count of each of the four words
    # At first, a word translates into x with the frequency of x, and so does the empty word.
    counts = {(A, X): 1 / 3 + 1 / 2, (A, Y): 1 / 3, (B, X): 1 / 3, (B, Y): 1 / 3}
    totals = {A: counts[A, X] + counts[A, Y], B: 2 / 3}
    expected = [(counts[a, b] + PRIOR * frequency[b]) / (totals[a] + PRIOR) for a, b in pairs]
    np.testing.assert_allclose(model.frequency[[X, Y]], [3 / 7, 2 / 7])
    np.testing.assert_allclose(model.probabilities, expected)
    np.testing.assert_allclose(model.unknown[[A, B]], [PRIOR / (totals[a] + PRIOR) for a in (A, B)])


def test_factors_of_links_count_only_beside_the_one_of_no_word() -> None:
    pairs = words([A, B], [A], [B, A]), words([X, Y], [X], [Y, X])
    (whole, _), (doubled, _), (other, _) = (
        learned(*pairs), learned(*pairs, likely=2.0, none=2.0), learned(*pairs, none=2.0)
    )  # fmt: skip
    np.testing.assert_allclose(doubled.probabilities, whole.probabilities)
    assert not np.allclose(other.probabilities, whole.probabilities)


def test_words_that_occur_together_translate_each_other() -> None:
    rows = [(A, X), (B, Y)] * 40
    both = [[one, other] for one, other in itertools.product((A, B), repeat=2)] * 10
    translate = {A: X, B: Y}
    source = words(*[[a] for a, _ in rows], *both)
    target = words(*[[b] for _, b in rows], *[[translate[a] for a in row] for row in both])
    found, pairs = learned(source, target)
    by_pair = dict(zip(pairs, found.probabilities, strict=True))
    assert min(by_pair[A, X], by_pair[B, Y]) > 0.8 > 0.2 > max(by_pair[A, Y], by_pair[B, X])
