"""`train --folds` and `train --curve`, as a user types them."""

from pathlib import Path

import pytest

from crosshead.addons.experiments.data_curve import DataCurve, MetricCurve
from crosshead.addons.experiments.folds import Folds
from crosshead.addons.experiments.power_law import ScoreOfPairs, fit_power_law, gain
from crosshead.addons.experiments.reports import curve_report, folds_report
from crosshead.addons.experiments.subsets import Outcome
from crosshead.bundle.config import BundleScore
from crosshead.cli import run
from crosshead.training.settings import stored_recipe
from tests.cli.tools import TINY, Refused

FAST = ["--max-updates", "1", *TINY, "--set", "decode.beam=1", "--set", "average=0",
        "--set", "max_extra=2"]  # fmt: skip


def test_folds_are_trained_once_and_added_to_a_finished_run(
    tmp_path: Path, corpus: list[object], capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert run([*map(str, ["train", *corpus, "--out", out, *FAST, "--folds", 2])]) == 0
    report, said = capfd.readouterr()
    follow = "more models after this one, each with the same limits"
    assert f"crosshead: --folds 2 trains 2 {follow}\n" in said
    assert "Translate with: " in report
    assert "\nrun     pairs  BLEU  chrF2\nfold-1     15" in report
    assert "BLEU over 2 folds: " in report
    assert str(tmp_path / "run.2-folds" / "folds.tsv") in report
    assert run(["train", "--resume", "--out", str(out), "--folds", "2"]) == 0
    report, said = capfd.readouterr()
    assert said.count(": finished in ") == 2 and "BLEU over 2 folds: " in report
    assert follow not in said


def test_folds_of_a_finished_run_have_its_limits(tmp_path: Path, corpus: list[object]) -> None:
    out = tmp_path / "run"
    assert run([*map(str, ["train", *corpus, "--out", out, *FAST, "--max-updates", 2])]) == 0
    assert run(["train", "--resume", "--out", str(out), "--folds", "2", "--max-updates", "1"]) == 0
    for each in (out, *(tmp_path / "run.2-folds" / f"fold-{number}" for number in (1, 2))):
        assert stored_recipe(each).train.max_updates == 2


def test_a_curve_of_too_few_pairs_is_refused_before_training(
    tmp_path: Path, corpus: list[object], refused: Refused
) -> None:
    out = tmp_path / "run"
    languages = ["--source-language", "en", "--target-language", "de"]  # else a line says "unknown"
    said = refused("train", *corpus, *languages, "--out", out, *FAST, "--curve")
    assert "--curve: 27 training pairs are too few; a curve needs at least 400" in said
    assert not out.exists()


def test_more_folds_than_different_pairs_are_refused_before_training(
    tmp_path: Path, refused: Refused
) -> None:
    (tmp_path / "pairs.tsv").write_text("a b\tc d\n" * 9 + "e f\tg h\n" * 9)
    out = tmp_path / "run"
    said = refused("train", "--pairs", tmp_path / "pairs.tsv", "--out", out, *FAST, "--folds", 5)
    assert "--folds 5: the training data have only 2 different pairs; choose at most 2" in said
    assert not out.exists()


def test_subsets_of_other_data_are_refused_before_training(
    tmp_path: Path, refused: Refused
) -> None:
    (tmp_path / "text").write_text("a b\n" * 9)
    out = tmp_path / "run"
    said = refused("train", "--text", tmp_path / "text", "--out", out, "--curve")
    assert "--curve takes subsets of pairs of texts" in said and not out.exists()
    assert "greater than or equal to 2" in refused(
        "train", "--text", tmp_path / "text", "--out", out, "--folds", 1
    )


def test_reports_have_a_table_sentences_and_files(tmp_path: Path) -> None:
    points = [ScoreOfPairs(1000 * 2**n, y, y - 1, y + 1) for n, y in enumerate([20.0, 26.0, 30.0])]
    outcomes = {
        str(each.pairs): Outcome(tmp_path, each.pairs, [
            BundleScore(metric="BLEU", value=each.value, signature="s", test_set="v")
        ])
        for each in points
    }  # fmt: skip
    law = fit_power_law(points)
    curve = DataCurve(tmp_path, outcomes, [MetricCurve("BLEU", points, law, gain(law, points[-1]))])
    said = curve_report(curve, [tmp_path / "curve.png"])
    assert said.startswith("\nrun   pairs   BLEU\n1000  1,000  20.00\n")
    assert "Twice the data (8,000 pairs) would likely change BLEU by +" in said
    assert said.endswith(f"Written: {tmp_path / 'curve.tsv'}, {tmp_path / 'curve.png'}\n")
    assert "BLEU over 3 folds: 25.33 on average" in folds_report(Folds(tmp_path, outcomes))
