"""Laws that are known are found again, and chance is not taken for a gain."""

from collections.abc import Callable

import numpy as np
import pytest

from crosshead.addons.experiments.power_law import ScoreOfPairs, fit_power_law, gain

PAIRS = (7250, 14_500, 29_000)


def curve(
    law: Callable[[float], float], half: float, seed: int | None = None
) -> list[ScoreOfPairs]:
    """Return scores on a law; a seed adds the noise that the intervals state."""
    noise = np.zeros(3) if seed is None else np.random.default_rng(seed).standard_normal(3)
    values = [law(n) + float(each) * half / 1.96 for n, each in zip(PAIRS, noise, strict=True)]
    return [ScoreOfPairs(n, y, y - half, y + half) for n, y in zip(PAIRS, values, strict=True)]


@pytest.mark.parametrize("exponent", [0.1, 0.3, 0.8])
def test_a_power_law_is_found_again(exponent: float) -> None:
    def law(pairs: float) -> float:
        return float(50 - 20 * (pairs / 3625) ** -exponent)

    points = curve(law, 0.1)
    fitted = fit_power_law(points[::-1])
    assert fitted.fits
    for pairs in PAIRS:
        assert fitted.values(pairs)[0] == pytest.approx(law(pairs), abs=0.05)
    found = gain(fitted, points[-1])
    assert found.value == pytest.approx(law(58_000) - law(29_000), abs=0.15)
    assert found.low < found.value < found.high and found.is_certain


@pytest.mark.parametrize("unsure", range(4))
def test_each_score_counts_by_its_own_interval(unsure: int) -> None:
    """Three scores are almost certain and on a law; the fourth is far off it and unsure."""

    def law(pairs: float) -> float:
        return float(60 - 400 * pairs**-0.3)

    sizes, halves = (3625, *PAIRS), [0.1] * 4
    values = [law(pairs) for pairs in sizes]
    values[unsure], halves[unsure] = values[unsure] + 6, 20
    points = [
        ScoreOfPairs(pairs, value, value - half, value + half)
        for pairs, value, half in zip(sizes, values, halves, strict=True)
    ]
    fitted = fit_power_law([points[place] for place in (2, 0, 3, 1)])
    assert fitted.fits
    for place, pairs in enumerate(sizes):
        drawn = fitted.values(pairs)
        assert abs(drawn[0] - law(pairs)) < (2 if place == unsure else 0.1)
        if place != unsure:
            assert np.std(drawn[1:]) < 0.1


def test_the_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    def law(pairs: float) -> float:
        return float(50 - 400 * pairs**-0.3)

    truth, held = law(58_000) - law(29_000), 0
    for seed in range(20):
        points = curve(law, 1.2, seed)
        found = gain(fit_power_law(points), points[-1])
        held += found.low <= truth <= found.high
    assert held >= 17


@pytest.mark.parametrize("slope", [0.0, -3.0])
def test_more_data_that_do_not_help_are_not_promised(slope: float) -> None:
    def law(pairs: float) -> float:
        return float(30 + slope * np.log2(pairs))

    points = curve(law, 1.0)
    found = gain(fit_power_law(points), points[-1])
    assert found.low <= 0 and found.is_certain == (found.high < 0)


def test_scores_on_no_law_tell_nothing() -> None:
    values = (2.0, 2.0, 0.0)
    points = [ScoreOfPairs(n, y, y, y) for n, y in zip(PAIRS, values, strict=True)]
    fitted = fit_power_law(points)
    assert not fitted.fits and not gain(fitted, points[-1]).is_certain


def test_a_law_needs_three_scores() -> None:
    with pytest.raises(ValueError, match="expected at least three scores, found 2"):
        fit_power_law(curve(lambda pairs: pairs, 1.0)[:2])


def test_no_score_is_above_the_largest() -> None:
    rising = [ScoreOfPairs(500 * 2**n, y, y - 1, y + 1) for n, y in enumerate([60.0, 75.0, 90.0])]
    law = fit_power_law(rising)
    assert law.values(4000).max() == 100 and gain(law, rising[-1]).value > 0


@pytest.mark.parametrize(
    ("values", "room"),
    [
        ((60.0, 88.0, 98.0), 2.0),
        ((60.0, 75.0, 98.0), 2.0),  # the law is below the last score
        ((80.0, 99.0, 100 + 1e-13), 0.0),  # rounding makes a BLEU of 100 slightly larger
    ],
)
def test_no_gain_leads_above_the_largest_score(values: tuple[float, ...], room: float) -> None:
    points = [ScoreOfPairs(n, y, y - 4, y + 4) for n, y in zip(PAIRS, values, strict=True)]
    law = fit_power_law(points)
    fitted, found = law.values(2 * PAIRS[-1]) - law.values(PAIRS[-1]), gain(law, points[-1])
    assert np.quantile(fitted[1:], 0.975) > room
    assert found.low <= found.value <= found.high == room
    assert found.value == min(fitted[0], room)
