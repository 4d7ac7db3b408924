import contextlib
import json
import os
import sys
from pathlib import Path

import pytest

from crosshead.errors import UserError
from crosshead.training import log as log_module
from crosshead.training.log import LOG, RunLog


@pytest.fixture(autouse=True)
def _no_tensorboard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)


def updates(directory: Path) -> list[int]:
    return [json.loads(line)["update"] for line in (directory / LOG).read_text().splitlines()]


def test_a_line_is_one_object(tmp_path: Path) -> None:
    log = RunLog(tmp_path)
    log.write("train", 3, loss=1.5, note="a\nb")
    lines = (tmp_path / LOG).read_text().splitlines()  # before it is closed
    log.close()
    assert [json.loads(line) for line in lines] == [
        {"kind": "train", "update": 3, "loss": 1.5, "note": "a\nb"}
    ]


def test_what_came_after_a_checkpoint_is_logged_again(tmp_path: Path) -> None:
    log = RunLog(tmp_path)
    log.write("train", 1)
    length = log.tell()
    log.write("train", 2)
    log.close()
    again = RunLog(tmp_path, keep=length)
    assert again.tell() == length == (tmp_path / LOG).stat().st_size
    again.write("train", 2)
    assert again.tell() == (tmp_path / LOG).stat().st_size
    again.close()
    assert updates(tmp_path) == [1, 2]


def test_a_log_that_was_lost_is_begun_anew(tmp_path: Path) -> None:
    log = RunLog(tmp_path, keep=1000)
    log.write("train", 7)
    log.close()
    assert updates(tmp_path) == [7]


def test_an_earlier_run_is_not_continued_unasked(tmp_path: Path) -> None:
    for update in (1, 2):
        log = RunLog(tmp_path)
        log.write("train", update)
        log.close()
    assert updates(tmp_path) == [2]


def test_a_file_that_may_not_grow_is_named(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    log = RunLog(tmp_path)
    log.write("train", 1)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (log.tell(), limits[1]))
    try:
        with pytest.raises(UserError, match=r"log\.jsonl: cannot be written: File too large"):
            log.write("train", 2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    log.write("train", 3)
    log.close()
    assert updates(tmp_path) == [1, 3]


def test_a_log_that_is_no_file_is_refused_by_name(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / LOG)
    with pytest.raises(UserError, match=r"log\.jsonl: is not a regular file; remove it"):
        RunLog(tmp_path)
    (tmp_path / LOG).unlink()
    (tmp_path / LOG).symlink_to("/dev/full")
    with pytest.raises(UserError, match=r"log\.jsonl: is not a regular file; remove it"):
        RunLog(tmp_path)


@pytest.mark.parametrize("ends", [False, True])
def test_a_moved_directory_is_reported_before_an_error_of_tensorboard(
    ends: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Lost:
        def add_scalar(self, *values: object) -> None:
            raise FileNotFoundError(2, "No such file or directory", "events")

        def close(self) -> None:
            raise FileNotFoundError(2, "No such file or directory", "events")

    monkeypatch.setattr(log_module, "_tensorboard", lambda directory: Lost())
    asked: list[int] = []

    def check() -> None:
        asked.append(1)
        if ends or len(asked) == 2:
            raise UserError("the directory has moved")

    log = RunLog(tmp_path, check=check)
    with pytest.raises(UserError, match="the directory has moved"):
        log.close() if ends else log.write("train", 1, loss=1.0)
    with contextlib.suppress(UserError):
        log.close()


def test_tensorboard_gets_the_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard")
    log = RunLog(tmp_path)
    log.write("valid", 3, loss=1.5, reason="text is not for a curve")
    log.close()
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert events.Tags()["scalars"] == ["valid/loss"]
    assert [(event.step, event.value) for event in events.Scalars("valid/loss")] == [(3, 1.5)]
