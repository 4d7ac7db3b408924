import numpy as np
import pytest

from crosshead.addons.checks import pair_odds
from crosshead.addons.checks.lexicon import Lexicon
from crosshead.addons.checks.pair_odds import PairOdds, SideWords
from crosshead.addons.checks.words import stemmed_words
from tests.addons.checks.made_up import pairs

ROWS = 900


def test_pairs_of_other_rows_have_high_odds() -> None:
    sides = SideWords(*(stemmed_words(side, 3) for side in pairs(ROWS)))
    places = np.arange(ROWS)
    odds = PairOdds(sides, places, places)
    aligned, share = odds.judged(places, places)
    shifted, all_of_them = odds.judged(places, np.roll(places, 7))
    assert np.mean(aligned < 0) > 0.99 and np.mean(shifted > 0) > 0.9
    assert share < 0.02 and all_of_them > 0.8


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
