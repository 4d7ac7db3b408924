"""The curve over the amount of data: its runs, its law, its sentences."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from crosshead.addons.experiments import subsets as module
from crosshead.addons.experiments.data_curve import (
    CURVE,
    MetricCurve,
    ScoreOfPairs,
    fit_power_law,
    gain,
    metric_curves,
)
from crosshead.addons.experiments.subsets import Outcome, Report, Runs
from crosshead.bundle.config import BundleScore
from crosshead.errors import UserError
from tests.training.runs import recipe_for
from tests.training.setups import of_pairs

SCORES = {"quarter": 23.9, "half": 29.5, "all": 34.8}


def outcome(name: str) -> Outcome:
    pairs = {"quarter": 7250, "half": 14_500, "all": 29_000}[name]
    values = {"BLEU": SCORES[name], "chrF2": 25 + SCORES[name]}
    return Outcome(pairs, [
        BundleScore(metric=metric, value=y, signature="s", test_set="v", low=y - 1, high=y + 1)
        for metric, y in values.items()
    ])  # fmt: skip


@pytest.fixture
def report(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Report:
    """The report of a curve whose runs are replaced by stated scores."""

    def train_subsets(runs: Runs, folder: Path, subsets: list[module.Subset]) -> dict[str, Outcome]:
        folder.mkdir()
        assert [each.data["share"] for each in subsets] == [0.4, 0.2]
        return {each.name: outcome(each.name) for each in subsets}

    monkeypatch.setattr(module, "train_subsets", train_subsets)
    runs = Runs(recipe_for(text, "data.share=0.8"))
    found = CURVE.measure(outcome("all"), tmp_path / "x.curve", runs)
    assert found is not None
    return found


def test_the_curve_has_all_scores_from_the_smallest_set(report: Report, tmp_path: Path) -> None:
    assert list(report.outcomes) == list(SCORES)
    bleu, chrf = metric_curves(report.outcomes)
    assert [each.value for each in bleu.measured] == list(SCORES.values())
    assert [each.pairs for each in chrf.measured] == [7250, 14_500, 29_000]
    table = tmp_path / "x.curve" / "curve.tsv"
    assert report.file == table
    assert len(table.read_text().splitlines()) == 1 + 3 * 2
    assert report.sentences == [bleu.sentence(), chrf.sentence()]
    assert bleu.sentence().startswith("Twice the data (58,000 pairs) would likely change BLEU by +")


def test_a_gain_that_may_be_chance_is_not_promised() -> None:
    flat = [ScoreOfPairs(1000 * 2**n, 30.0, 29.0, 31.0) for n in range(3)]
    wild = [ScoreOfPairs(1000 * 2**n, y, y, y) for n, y in enumerate([9.0, 1.0, 9.0])]
    falling = [ScoreOfPairs(675 * 2**n, y, y - 1, y + 1) for n, y in enumerate([92.9, 90.2, 85.3])]
    worse = "cannot be told: the model of all pairs is worse than one of fewer pairs"
    for points, words in (
        (flat, "do not show that it would help"), (wild, "no power law fits"), (falling, worse),
    ):  # fmt: skip
        law = fit_power_law(points)
        assert words in MetricCurve("BLEU", points, law).sentence()


@pytest.mark.parametrize(
    ("bleu", "chrf", "told"),
    [
        ([2.5, 3.3, 1.4], [20.0, 22.0, 24.0], [False, False]),
        ([0.0, 0.0, 0.0], [40.0, 46.0, 50.0], [False, True]),  # texts too short for BLEU
        ([2.5, 8.0, 12.0], [20.0, 26.0, 30.0], [True, True]),
    ],
)
def test_a_curve_of_models_that_are_not_usable_tells_nothing(
    bleu: list[float], chrf: list[float], told: list[bool]
) -> None:
    outcomes = {
        str(n): Outcome(1000 * 2**n, [
            BundleScore(metric=metric, value=y, signature="s", test_set="v",
                        low=max(0.0, y - 1), high=y + 1)
            for metric, y in zip(("BLEU", "chrF2"), scores, strict=True)
        ])
        for n, scores in enumerate(zip(bleu, chrf, strict=True))
    }  # fmt: skip
    said = [each.sentence() for each in metric_curves(outcomes)]
    assert [line.startswith("Twice the data (8,000 pairs) would") for line in said] == told
    assert "cannot be told: all of these runs have a BLEU below 5" in said[0] or told[0]


def test_too_few_pairs_are_refused() -> None:
    with pytest.raises(UserError, match=r"--curve: 399 .* pairs are too few; at least 400 are"):
        CURVE.check_pairs(of_pairs(399))
    CURVE.check_pairs(of_pairs(400))


PAIRS = (7250, 14_500, 29_000)


def on_law(
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

    points = on_law(law, 0.1)
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
        points = on_law(law, 1.2, seed)
        found = gain(fit_power_law(points), points[-1])
        held += found.low <= truth <= found.high
    assert held >= 17


@pytest.mark.parametrize("slope", [0.0, -3.0])
def test_more_data_that_do_not_help_are_not_promised(slope: float) -> None:
    def law(pairs: float) -> float:
        return float(30 + slope * np.log2(pairs))

    points = on_law(law, 1.0)
    found = gain(fit_power_law(points), points[-1])
    assert found.low <= 0 and found.is_certain == (found.high < 0)


def test_scores_on_no_law_tell_nothing() -> None:
    values = (2.0, 2.0, 0.0)
    points = [ScoreOfPairs(n, y, y, y) for n, y in zip(PAIRS, values, strict=True)]
    fitted = fit_power_law(points)
    assert not fitted.fits and not gain(fitted, points[-1]).is_certain


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
