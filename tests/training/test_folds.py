"""Cross-validation: each fold is validated once, and the folds give mean and spread."""

from pathlib import Path

import pytest

from crosshead.bundle.config import BundleScore
from crosshead.training.folds import TABLE, Folds, cross_validate
from crosshead.training.settings import stored_recipe
from crosshead.training.subsets import Outcome, Runs
from tests.training.runs import recipe_for


def test_each_fold_is_validated_by_its_own_run(text: Path, tmp_path: Path) -> None:
    valid = [f"data.valid_source={text / 'valid.en'}", f"data.valid_target={text / 'valid.de'}"]
    recipe = recipe_for(text, "max_updates=1", "decode.beam=1", "average=0", *valid)
    found = cross_validate(tmp_path / "x", 2, Runs(recipe))
    assert found is not None and found.folder == tmp_path / "x.2-folds"
    assert list(found.outcomes) == ["fold-1", "fold-2"]
    held = [
        (found.folder / name / "held-out.tsv").read_text().splitlines()[1:]
        for name in found.outcomes
    ]
    assert not set(held[0]) & set(held[1])
    assert len(held[0]) + len(held[1]) > 100  # of 203 pairs, without the repeated ones
    assert stored_recipe(found.folder / "fold-2").data.fold == [2, 2]  # type: ignore[attr-defined]
    assert (found.folder / TABLE).read_text().startswith("run\tpairs\tmetric")


def test_the_sentence_has_mean_range_and_deviation(tmp_path: Path) -> None:
    def outcome(value: float) -> Outcome:
        score = BundleScore(metric="BLEU", value=value, signature="s", test_set="validation")
        return Outcome(tmp_path, 9, [score])

    folds = Folds(tmp_path, {str(value): outcome(value) for value in (10.0, 13.0, 16.0)})
    assert folds.values("BLEU") == pytest.approx([10, 13, 16])
    assert folds.sentences() == [
        "BLEU over 3 folds: 13.00 on average, from 10.00 to 16.00 (standard deviation 3.00)."
    ]
