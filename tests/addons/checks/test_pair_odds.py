import numpy as np
import pytest

from crosshead.addons.checks import pair_odds
from crosshead.addons.checks.pair_odds import (
    MOST_WORDS,
    Lexicon,
    PairOdds,
    SideWords,
    stemmed_words,
)
from crosshead.text import scripts
from tests.addons.checks.made_up import pairs


def test_flat_arrays_hold_the_words_of_each_line() -> None:
    found = stemmed_words(["a b a", "", "b rare", "a"], 2)
    assert found.size == 2 and found.lengths.tolist() == [3, 0, 1, 1]
    a, b = found.ids.tolist()[:2]
    assert found.ids.tolist() == [a, b, a, b, a] and {a, b} == {0, 1}


def test_inflected_forms_are_one_word_and_long_lines_are_cut() -> None:
    found = stemmed_words(["translate translation", "x " * (MOST_WORDS + 5)], 1)
    assert found.lengths.tolist() == [2, MOST_WORDS] and found.size == 2


def test_words_do_not_depend_on_the_lines_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["a b", "", "c a", "d", "x " * (MOST_WORDS + 5), "b y", "y"]
    whole = stemmed_words(lines, 2)
    monkeypatch.setattr(pair_odds, "_LINES", 2)
    monkeypatch.setattr(scripts, "_BLOCK", 2)
    parts = stemmed_words(lines, 2)
    assert parts.ids.tolist() == whole.ids.tolist() and parts.ends.tolist() == whole.ends.tolist()


def test_some_lines_have_the_words_of_these_lines() -> None:
    lines = ["a b", "c", "", "a c b", "b"]
    rows = np.array([3, 2, 0, 3])
    found, whole = stemmed_words(lines, 1).some(rows), stemmed_words(lines, 1)
    ends = whole.ends - whole.lengths
    expected = [whole.ids[ends[row] : whole.ends[row]].tolist() for row in rows]
    assert [part.tolist() for part in np.split(found.ids, found.ends[:-1])] == expected


def learned(count: int = 400) -> tuple[Lexicon, np.ndarray, np.ndarray]:
    """A lexicon, and the scores of unseen pairs as they are and with the next row's target."""
    source, target = (stemmed_words(side, 1) for side in pairs(count + 50))
    rows, unseen = np.arange(count), np.arange(count, count + 50)
    lexicon = Lexicon(source.some(rows), target.some(rows))
    right = lexicon.scores(source.some(unseen), target.some(unseen))
    wrong = lexicon.scores(source.some(unseen), target.some(np.roll(unseen, 1)))
    return lexicon, right, wrong


def test_translations_score_above_other_sentences_in_both_directions() -> None:
    _, right, wrong = learned()
    assert (right.min(0) > wrong.max(0)).all()


def test_scores_do_not_depend_on_the_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    _, whole, _ = learned()
    monkeypatch.setattr(pair_odds, "_LINKS", 100)
    _, parts, _ = learned()
    np.testing.assert_allclose(parts, whole)


def test_a_side_without_words_has_the_score_zero() -> None:
    source, target = stemmed_words(["a b", ""], 1), stemmed_words(["x", "x"], 1)
    lexicon = Lexicon(source, target)
    assert lexicon.scores(source, target)[1].tolist() == [0, 0]


ROWS = 900


def test_pairs_of_other_rows_have_high_odds() -> None:
    sides = SideWords(*(stemmed_words(side, 3) for side in pairs(ROWS)))
    places = np.arange(ROWS)
    odds = PairOdds(sides, places, places)
    aligned, share = odds.judged(places, places)
    shifted, all_of_them = odds.judged(places, np.roll(places, 7))
    assert np.mean(aligned < 0) > 0.99 and np.mean(shifted > 0) > 0.9
    assert share < 0.02 and all_of_them > 0.8


def test_the_pairs_that_were_learned_from_are_judged_as_other_pairs() -> None:
    sides = SideWords(*(stemmed_words(side, 3) for side in pairs(ROWS)))
    places, some = np.arange(ROWS), np.arange(0, ROWS, 3)
    odds = PairOdds(sides, places, places)
    np.testing.assert_array_equal(odds.judged(some, some)[0], odds.judged(places, places)[0][some])


def test_random_pairs_have_the_sources_and_targets_of_the_pairs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sides = SideWords(*(stemmed_words(side, 3) for side in pairs(ROWS)))
    features, seen = SideWords.features, []

    def recorded(
        self: SideWords, lexicon: Lexicon, left: np.ndarray, right: np.ndarray
    ) -> np.ndarray:
        seen.append((left, right))
        return features(self, lexicon, left, right)

    monkeypatch.setattr(SideWords, "features", recorded)
    left, right = np.arange(1, ROWS, 2), np.arange(0, ROWS, 2)
    PairOdds(sides, left, right)
    assert {*np.concatenate([each for each, _ in seen])} == {*left}
    assert {*np.concatenate([each for _, each in seen])} == {*right}
    pairs_seen = [(one, other) for each in seen for one, other in zip(*each, strict=True)]
    assert sum(one == other + 1 for one, other in pairs_seen) < 0.55 * len(pairs_seen)


def test_a_pair_without_known_words_is_not_judged() -> None:
    source, target = pairs(ROWS)
    sides = SideWords(stemmed_words([*source, "?"], 3), stemmed_words([*target, "!"], 3))
    places = np.arange(ROWS)
    odds, _ = PairOdds(sides, places, places).judged(np.array([ROWS]), np.array([ROWS]))
    assert odds.tolist() == [0.0]


def test_pooling_gives_the_nearest_rising_sequence() -> None:
    values, weights = np.array([1.0, 3.0, 2.0, 2.0, 5.0]), np.array([1.0, 1.0, 2.0, 1.0, 1.0])
    rising = pair_odds._rising(values, weights)
    np.testing.assert_allclose(rising, [1, 2.25, 2.25, 2.25, 5])
