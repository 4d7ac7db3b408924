"""Cross-validation: each fold is validated once, and the folds give mean and spread."""

import math
import statistics
from pathlib import Path

import pytest
import torch

from crosshead.addons.experiments.folds import (
    fold_experiment,
    fold_sentences,
    mean_interval,
)
from crosshead.addons.experiments.subsets import Outcome, Runs
from crosshead.bundle.config import BundleScore
from crosshead.errors import UserError
from crosshead.training.directory import stored_recipe
from tests.training.runs import recipe_for
from tests.training.setups import of_pairs


def test_each_fold_is_validated_by_its_own_run(text: Path, tmp_path: Path) -> None:
    valid = [f"data.valid_source={text / 'valid.en'}", f"data.valid_target={text / 'valid.de'}"]
    recipe = recipe_for(text, "max_updates=1", "decode.beam=1", "average=0", *valid)
    folder = tmp_path / "x.2-folds"
    found = fold_experiment(2).measure(Outcome(203, []), folder, Runs(recipe))
    assert found is not None and found.file == folder / "folds.tsv"
    assert list(found.outcomes) == ["fold-1", "fold-2"]
    held = [
        (folder / name / "held-out.tsv").read_text().splitlines()[1:] for name in found.outcomes
    ]
    assert not set(held[0]) & set(held[1])
    assert len(held[0]) + len(held[1]) > 100  # of 203 pairs, without the repeated ones
    assert stored_recipe(folder / "fold-2").data.fold == [2, 2]  # type: ignore[attr-defined]
    assert (folder / "folds.tsv").read_text().startswith("run\tpairs\tmetric")


def test_fewer_pairs_than_folds_are_refused() -> None:
    with pytest.raises(UserError, match=r"--folds: 4 training pairs are too few; at least 5 are"):
        fold_experiment(5).check_pairs(of_pairs(4))
    fold_experiment(5).check_pairs(of_pairs(5))


def test_the_sentence_has_mean_range_and_deviation() -> None:
    def sentences(*values: float) -> list[str]:
        scores = [
            BundleScore(metric="BLEU", value=value, signature="s", test_set="validation")
            for value in values
        ]
        return fold_sentences({str(each.value): Outcome(9, [each]) for each in scores})

    assert sentences(20.0, 23.0, 26.0) == [
        "BLEU over 3 folds: 23.00 on average (95 % interval 11.22 to 34.78), from 20.00 to 26.00 "
        "(standard deviation 3.00).",
    ]
    assert sentences(20.0, 23.0) == [
        "BLEU over 2 folds: 21.50 on average, from 20.00 to 23.00 (standard deviation 2.12).",
    ]
    assert "interval 0.00 to" in sentences(1.0, 3.0, 9.0)[0]


def share_outside(quantile: float, freedom: int) -> float:
    """The share of Student's t distribution above a quantile, by summing its density."""
    places = torch.logspace(math.log10(quantile), 5, 200_001, dtype=torch.float64)
    density = torch.distributions.StudentT(torch.tensor(float(freedom))).log_prob(places).exp()
    return float(torch.trapezoid(density, places))


@pytest.mark.parametrize("count", [3, 4, 6, 11, 20])
def test_the_interval_has_the_quantile_of_its_folds(count: int) -> None:
    values = [float(each) for each in range(40, 40 + count)]
    low, high = mean_interval(values)
    assert low + high == pytest.approx(2 * sum(values) / count)
    widened = statistics.stdev(values) * (1 / count + 1 / (count - 1)) ** 0.5
    quantile = (high - low) / 2 / widened
    assert share_outside(quantile, count - 1) == pytest.approx(0.025, rel=2e-3)


def test_the_interval_stays_within_the_scale() -> None:
    low, high = mean_interval([99.5, 93.0, 99.9])
    assert 80 < low < 90 and high == 100
    assert mean_interval([0.1, 5.0, 0.2])[0] == 0


def test_more_folds_than_the_table_has_take_its_last_quantile() -> None:
    values = [float(each) for each in range(30)]
    low, high = mean_interval(values)
    widened = statistics.stdev(values) * (1 / 30 + 1 / 29) ** 0.5
    assert (high - low) / 2 == pytest.approx(2.093 * widened)
