"""The curve over the amount of data: its runs, its sentences, its picture."""

import dataclasses
from pathlib import Path

import pytest

from crosshead.addons.experiments import data_curve as module
from crosshead.addons.experiments.data_curve import (
    PICTURE,
    TABLE,
    DataCurve,
    MetricCurve,
    data_curve,
    draw_data_curve,
    metric_curves,
)
from crosshead.addons.experiments.power_law import ScoreOfPairs, fit_power_law, gain
from crosshead.addons.experiments.subsets import Outcome, Runs
from crosshead.bundle.config import BundleScore
from crosshead.errors import UserError
from tests.training.runs import recipe_for

SCORES = {"quarter": 23.9, "half": 29.5, "all": 34.8}


def outcome(name: str) -> Outcome:
    pairs = {"quarter": 7250, "half": 14_500, "all": 29_000}[name]
    values = {"BLEU": SCORES[name], "chrF2": 25 + SCORES[name]}
    return Outcome(Path(name), pairs, [
        BundleScore(metric=metric, value=y, signature="s", test_set="v", low=y - 1, high=y + 1)
        for metric, y in values.items()
    ])  # fmt: skip


@pytest.fixture
def curve(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DataCurve:
    """A curve whose runs are replaced by stated scores."""

    def train_subsets(runs: Runs, folder: Path, subsets: list[module.Subset]) -> dict[str, Outcome]:
        folder.mkdir()
        assert [each.data["share"] for each in subsets] == [0.4, 0.2]
        return {each.name: outcome(each.name) for each in subsets}

    monkeypatch.setattr(module, "train_subsets", train_subsets)
    monkeypatch.setattr(module, "outcome_of", lambda out: outcome("all"))
    found = data_curve(tmp_path / "x", Runs(recipe_for(text, "data.share=0.8")))
    assert found is not None
    return found


def test_the_curve_has_all_scores_from_the_smallest_set(curve: DataCurve) -> None:
    assert list(curve.outcomes) == list(SCORES)
    bleu, chrf = curve.metrics
    assert [each.value for each in bleu.measured] == list(SCORES.values())
    assert [each.pairs for each in chrf.measured] == [7250, 14_500, 29_000]
    assert len((curve.folder / TABLE).read_text().splitlines()) == 1 + 3 * 2
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
        assert words in MetricCurve("BLEU", points, law, gain(law, points[-1])).sentence()


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
    rows = [
        [ScoreOfPairs(1000 * 2**n, y, max(0.0, y - 1), y + 1) for n, y in enumerate(scores)]
        for scores in (bleu, chrf)
    ]
    said = [each.sentence() for each in metric_curves(["BLEU", "chrF2"], rows)]
    assert [line.startswith("Twice the data (8,000 pairs) would") for line in said] == told
    assert "cannot be told: all of these runs have a BLEU below 5" in said[0] or told[0]


def test_the_picture_has_an_axis_for_each_metric(curve: DataCurve) -> None:
    draw_data_curve(curve)
    both = (curve.folder / PICTURE).read_bytes()
    draw_data_curve(dataclasses.replace(curve, metrics=curve.metrics[:1]))
    assert both.startswith(b"\x89PNG") and (curve.folder / PICTURE).read_bytes() != both


def test_too_few_pairs_are_refused(text: Path, finished: Path) -> None:
    with pytest.raises(UserError, match=r"--curve: .* pairs are too few; a curve needs .* 400: l"):
        data_curve(finished, Runs(recipe_for(text)))
