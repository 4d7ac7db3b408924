from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from crosshead.addons.studies import forecasting, runs
from crosshead.addons.studies.forecasting import (
    DIRECT,
    KINDS,
    LINEAR_BANDS,
    LINEAR_PAST,
    LONG,
    PATCHED,
    PLAIN,
    PLAIN_PAST,
    SHORT,
    errors_sheets,
    linear,
    made_up,
    mean_error,
    run_on,
    scored,
    update_times,
)
from crosshead.addons.studies.study import Trial
from tests.addons.studies.trials import full, quick


@pytest.fixture
def series(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CROSSHEAD_DATA", str(tmp_path))
    (tmp_path / "ett").mkdir()
    return made_up(tmp_path / "ett").rename(tmp_path / "ett" / "ETTh1.csv")


def test_runs_of_other_settings_have_places_of_their_own(series: Path, tmp_path: Path) -> None:
    places = {
        run_on(trial, kind, context, seed).place
        for trial in (full(tmp_path), quick(tmp_path))
        for kind in KINDS
        for context in (SHORT, LONG)
        for seed in (1, 2)
    }
    # Patches and PatchTST differ in the size of their batches alone.
    assert len(places) == 2 * len(KINDS) * 2 * 2


@pytest.mark.parametrize("kind", KINDS)
def test_batches_hold_as_many_windows_as_stated(kind: str, series: Path) -> None:
    recipe = run_on(full(), kind, LONG, 1).recipe
    assert recipe.train.batch_tokens == KINDS[kind].windows * 336 * 7
    assert recipe.train.max_updates == KINDS[kind].updates
    assert (recipe.data.context, recipe.data.horizon) == (336, 96)  # type: ignore[attr-defined]


def test_a_run_is_trained_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    trial = Trial(True, 1, said.append, tmp_path)
    found = scored(trial, [("dlinear", SHORT)])
    [kept] = trial.kept
    assert len(said) == 1 and "1 of 1" in said[0] and kept.is_file()
    monkeypatch.setattr(runs, "train", lambda *arguments, **named: pytest.fail("trained again"))
    assert scored(trial, [("dlinear", SHORT)]) == found


def test_means_and_tables_are_of_one_kind_and_context() -> None:
    untrained = {"MSE of last value": 4.0, "MAE of last value": 2.0}
    found = {
        ("dlinear", 96): [
            {"MSE": 1.0, "MAE": 0.5, **untrained}, {"MSE": 2.0, "MAE": 0.6, **untrained},
        ],
        ("dlinear", 336): [{"MSE": 7.0, "MAE": 0.7, **untrained}],
    }  # fmt: skip
    assert mean_error(found, "dlinear", 96) == 1.5
    mse, mae = (sheet.table.rows for sheet in errors_sheets(found))
    assert mse[1:] == [
        ["dlinear", "1.000, 2.000", "7.000"],
        ["last value", "4.000", ""],
    ]
    assert mae[2] == ["last value", "2.000", ""]


def test_ratios_compare_what_their_names_say() -> None:
    errors = {
        ("dlinear", 96): 4.0, ("dlinear", 336): 2.0, ("transformer", 96): 8.0,
        ("transformer", 336): 12.0, ("direct", 336): 3.0, ("patchtst", 336): 1.8,
    }  # fmt: skip
    found = linear({past: [{"MSE": each}] for past, each in errors.items()})
    assert set(found) == {band.name for band in LINEAR_BANDS}
    names = (PLAIN, DIRECT, PATCHED, LINEAR_PAST, PLAIN_PAST)
    assert [found[name] for name in names] == pytest.approx([6.0, 1.5, 0.9, 0.5, 1.5])


def test_an_update_of_each_kind_is_compared_with_patches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = quick(tmp_path)
    recipes = {kind: run_on(trial, kind, LONG, 1).recipe for kind in ("patches", "points")}
    tokens = {kind: each.model.patch_stride for kind, each in recipes.items()}  # type: ignore[attr-defined]
    assert tokens == {"patches": 8, "points": 1}

    def timed(
        trial: Trial, calls: Mapping[str, Callable[[], None]], rounds: int, seconds: float
    ) -> dict[str, list[float]]:
        for call in calls.values():
            call()
        return {"patches": [2.0], "points": [6.0]}

    monkeypatch.setattr(forecasting, "in_turns", timed)
    assert list(update_times(recipes, trial)) == ["patches", "points"]
