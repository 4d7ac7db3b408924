import json
from dataclasses import asdict
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from crosshead.training.progress import MAX_SKIPPED, Meter, Progress, UpdateResult, Window

STORED = Path(__file__).parents[1] / "fixtures/run-format-1/model/checkpoints/update-00000004"


def test_a_run_begins_at_nothing() -> None:
    numbers = {key: value for key, value in asdict(Progress()).items() if type(value) is int}
    assert numbers == dict.fromkeys(numbers, 0) | {"microbatches": 1, "processes": 1}


def test_the_names_in_stored_checkpoints_stay() -> None:
    stored = json.loads((STORED / "state.json").read_text())["progress"]
    written = TypeAdapter(Progress).dump_python(Progress(), by_alias=True)
    assert stored.keys() <= written.keys()


def test_the_epoch_under_way_counts_by_its_batches() -> None:
    assert Progress().epochs == 0
    assert Progress(epoch=2).epochs == 2
    assert Progress(epoch=2, batch=1, batches=4).epochs == 2.25


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time in seconds, which a test moves."""
    now = [100.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    return now


def result(loss: float, count: int, norm: float | None = 1.0) -> UpdateResult:
    return UpdateResult({"loss": loss, "nll": loss / 2}, count, norm)


def test_means_are_over_predictions_not_over_updates(clock: list[float]) -> None:
    window = Window("target_tokens")
    window.add(result(30.0, 10, 2.0), 0.1)
    window.add(result(10.0, 30, 3.0), 0.2)
    clock[0] += 4
    assert window.loss == "nll 0.500" and window.speed == 10.0
    assert window.values() == {
        "loss": 1.0, "nll": 0.5, "target_tokens_per_second": 10.0, "learning_rate": 0.2,
        "gradient_norm": 3.0,
    }  # fmt: skip


def test_a_skipped_update_counts_for_the_speed_only(clock: list[float]) -> None:
    window = Window("values")
    window.add(result(30.0, 10, 2.0), 0.1)
    window.add(result(float("inf"), 10, None), 0.1)
    clock[0] += 2
    assert window.loss == "nll 1.500" and window.values()["gradient_norm"] == 2.0
    assert window.values()["values_per_second"] == 10.0


def test_nothing_finite_has_no_means(clock: list[float]) -> None:
    window = Window("values")
    assert window.loss == "no finite update"
    window.add(result(float("nan"), 10, None), 0.1)
    clock[0] += 1
    found = window.values()
    assert window.loss == "no finite update"
    assert found["loss"] is found["nll"] is found["gradient_norm"] is None
    assert found["learning_rate"] == 0.1 and found["values_per_second"] == 10.0


def test_a_cleared_window_begins_anew(clock: list[float]) -> None:
    window = Window("values")
    window.add(result(30.0, 10), 0.1)
    clock[0] += 5
    window.clear()
    window.add(result(8.0, 4), 0.1)
    clock[0] += 2
    assert (window.loss, window.speed) == ("nll 1.000", 2.0)


def test_time_spent_on_validation_is_left_out_of_both_speeds(clock: list[float]) -> None:
    meter = Meter(Progress(), "values")
    meter.add(result(1.0, 20), 0.1)
    clock[0] += 7
    meter.leave_out(5)
    assert meter.logged.speed == meter.shown.speed == 10.0
    assert meter.elapsed() == 7  # the time of the run has it


def test_the_windows_of_log_and_display_are_cleared_by_themselves(clock: list[float]) -> None:
    meter = Meter(Progress(), "values")
    meter.add(result(6.0, 2), 0.1)
    meter.shown.clear()
    meter.add(result(2.0, 2), 0.1)
    assert (meter.logged.loss, meter.shown.loss) == ("nll 1.000", "nll 0.500")


def test_the_time_since_the_last_restart(clock: list[float]) -> None:
    meter = Meter(Progress(), "values")
    clock[0] += 3
    assert meter.restart() == 3
    clock[0] += 2
    assert meter.elapsed() == 2


def test_only_skipped_updates_in_a_row_end_a_run() -> None:
    progress = Progress()
    meter = Meter(progress, "values")
    for _ in range(MAX_SKIPPED - 1):
        assert meter.add(result(1.0, 3, None), 0.1)
    assert meter.add(result(1.0, 3), 0.1) and progress.skipped_in_a_row == 0
    found = [meter.add(result(1.0, 3, None), 0.1) for _ in range(MAX_SKIPPED)]
    assert found == [True] * (MAX_SKIPPED - 1) + [False]
    assert progress.skipped == 2 * MAX_SKIPPED - 1
    assert progress.predictions == 3 * 2 * MAX_SKIPPED
