import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from crosshead.errors import UserError
from crosshead.system.plotting import rendered
from crosshead.tasks.registry import TASKS
from crosshead.training import log as log_module
from crosshead.training.log import LOG, RunLog, draw_training_curve, read_log


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


def test_an_error_of_tensorboard_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Lost:
        def add_scalar(self, *values: object) -> None:
            raise FileNotFoundError(2, "No such file or directory", "events")

        def close(self) -> None:
            raise FileNotFoundError(2, "No such file or directory", "events")

    monkeypatch.setattr(log_module, "_tensorboard", lambda directory: Lost())
    log = RunLog(tmp_path)
    with pytest.raises(UserError, match="tensorboard: cannot be written: No such file"):
        log.write("train", 1, loss=1.0)
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


@pytest.fixture(autouse=True)
def _drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere pictures of runs are blank."""
    monkeypatch.setattr(log_module, "rendered", rendered)


def write_log(path: Path, validations: int) -> Path:
    rows: list[dict[str, Any]] = [
        {"kind": "train", "update": n, "nll": 5 / n} for n in range(1, 41)
    ]
    rows += [
        {"kind": "valid", "update": 10 * n, "nll": 1 / n, "bleu": 9.0 * n}
        for n in range(1, validations + 1)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("validations", [0, 4])
def test_a_curve_is_drawn(validations: int, tmp_path: Path) -> None:
    picture = tmp_path / "curve.png"
    draw_training_curve(write_log(tmp_path / "log.jsonl", validations), picture)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_curve_has_a_gap_where_no_update_was_finite(tmp_path: Path) -> None:
    log, picture = write_log(tmp_path / "log.jsonl", 1), tmp_path / "curve.png"
    with log.open("a") as file:
        for update, nll in ((41, None), (42, 0.1)):
            file.write(json.dumps({"kind": "train", "update": update, "nll": nll}) + "\n")
    draw_training_curve(log, picture)
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("bleu", [0.0, 0.02])
def test_a_score_of_nothing_looks_as_low_as_it_is(
    bleu: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures: list[Figure] = []
    monkeypatch.setattr(log_module, "rendered", lambda figure: figures.append(figure) or b"")
    log = tmp_path / "log.jsonl"
    rows = [
        {"kind": "train", "update": 30, "nll": 5.2},
        {"kind": "valid", "update": 30, "nll": 5.0, "bleu": bleu},
    ]
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    draw_training_curve(log, tmp_path / "curve.png", TASKS["translation"].metrics)
    _, scores = figures[0].axes
    assert scores.get_ylim() == (0, 10)  # a BLEU of nothing does not fill the axis


def test_a_curve_that_fails_as_it_is_drawn_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(figure: Figure) -> None:
        raise MemoryError

    monkeypatch.setattr(Figure, "subplots", failing)
    with pytest.raises(UserError, match=r"^no picture: matplotlib fails"):
        draw_training_curve(write_log(tmp_path / "log.jsonl", 1), tmp_path / "curve.png")
    assert not (tmp_path / "curve.png").exists()


DAMAGED = [
    b"{damaged", b"", b"null", b"7", b"[]", b'"train"', b"{}", b'{"kind": "train"}', b"\xff\xfe",
    b"[" * 100_000,
]  # fmt: skip


def test_damaged_lines_are_left_out(tmp_path: Path) -> None:
    log, picture = write_log(tmp_path / "log.jsonl", 2), tmp_path / "curve.png"
    whole, rows = log.read_bytes(), read_log(log)
    log.write_bytes(b"".join(line + b"\n" for line in DAMAGED) + whole + b'{"kind": "end", "u')
    assert read_log(log) == rows
    draw_training_curve(log, picture)
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("data", [b"", b"nothing\n", bytes(1000)])
def test_a_log_that_is_no_log_gives_an_empty_picture(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_bytes(data)
    draw_training_curve(tmp_path / "log.jsonl", tmp_path / "curve.png")
    assert (tmp_path / "curve.png").is_file()


def test_a_log_that_is_gone_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"log\.jsonl: no such file"):
        draw_training_curve(tmp_path / "log.jsonl", tmp_path / "curve.png")
