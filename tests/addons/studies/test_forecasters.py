import dataclasses
from pathlib import Path

import pytest

from crosshead.addons.studies import runs
from crosshead.addons.studies.effort import FULL, QUICK, Effort
from crosshead.addons.studies.forecasters import (
    KINDS,
    LONG,
    SHORT,
    SeriesRuns,
    errors_table,
    etth1,
    made_up,
    mean_error,
    scored,
)


def quick_runs(folder: Path) -> SeriesRuns:
    found = etth1(QUICK, folder, print)
    assert found is not None
    return found


def test_runs_of_other_settings_have_places_of_their_own(tmp_path: Path) -> None:
    series = quick_runs(tmp_path)
    other = dataclasses.replace(series, share=0.5)
    places = {
        each.place(each.recipe(kind, context, seed))
        for each in (series, other)
        for kind in KINDS
        for context in (SHORT, LONG)
        for seed in (1, 2)
    }
    assert len(places) == 2 * len(KINDS) * 2 * 2


@pytest.mark.parametrize("kind", KINDS)
def test_batches_hold_as_many_windows_as_stated(kind: str) -> None:
    recipe = SeriesRuns(Path("x.csv"), Path("runs"), "12/4/4 months", 1).recipe(kind, LONG, 1)
    assert recipe.train.batch_tokens == KINDS[kind].windows * 336 * 7
    assert recipe.train.max_updates == KINDS[kind].updates
    assert (recipe.data.context, recipe.data.horizon) == (336, 96)  # type: ignore[attr-defined]


def test_a_run_is_trained_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    series, said = quick_runs(tmp_path), []
    job = ("dlinear", SHORT, 1)
    found = scored(series, [job], said.append)
    assert said == [f"dlinear, 96 steps, seed 1: MSE {found[job]['MSE']:.3f}"]
    monkeypatch.setattr(runs, "train", lambda *arguments, **named: pytest.fail("trained again"))
    assert scored(series, [job], said.append) == found
    assert series.finished(*job).is_file()


def test_means_and_tables_are_of_one_kind_and_context() -> None:
    untrained = {"MSE of last value": 4.0, "MAE of last value": 2.0}
    found = {
        ("dlinear", 96, 1): {"MSE": 1.0, "MAE": 0.5, **untrained},
        ("dlinear", 96, 2): {"MSE": 2.0, "MAE": 0.6, **untrained},
        ("dlinear", 336, 1): {"MSE": 7.0, "MAE": 0.7, **untrained},
    }
    assert mean_error(found, "dlinear", 96) == 1.5
    assert errors_table(found, "x").rows[1:] == [
        ["dlinear", "96", "1.000, 2.000", "0.500, 0.600"],
        ["dlinear", "336", "7.000", "0.700"],
        ["last value", "", "4.000", "2.000"],
    ]


def test_measurements_that_are_not_there_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSHEAD_DATA", str(tmp_path))
    said: list[str] = []
    assert etth1(FULL, tmp_path, said.append) is None
    assert len(said) == 1 and "crosshead data get ett" in said[0]
    (tmp_path / "ett").mkdir()
    made_up(tmp_path / "ett").rename(tmp_path / "ett" / "ETTh1.csv")
    found = etth1(Effort(0.5), tmp_path, said.append)
    assert found is not None and found.share == 0.5 and len(said) == 1
    assert found.recipe("dlinear", SHORT, 1).train.max_updates == KINDS["dlinear"].updates // 2
