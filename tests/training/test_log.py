import io
import itertools
import json
from pathlib import Path

import pytest

from crosshead.errors import UserError
from crosshead.system import progress as progress_module
from crosshead.system.progress import Bar, Lines, Messages, Silent, choose_display, counted
from crosshead.training import log as log_module
from crosshead.training.log import LOG, RunLog

TENSORBOARD = log_module._tensorboard


@pytest.fixture(autouse=True)
def _no_tensorboard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "_tensorboard", lambda directory: None)


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


def unexpected() -> None:
    pytest.fail("somebody reads")


def test_lines_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines(Messages(unexpected))
    lines.say("begins")
    lines.advance(0.5, "loss 2.0")
    lines.close()
    out, err = capsys.readouterr()
    assert (out, err) == ("", "begins\n 50%  loss 2.0\n")


def test_plain_lines_come_by_time(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 1000.0
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: now)
    lines, shown = Lines(Messages(unexpected)), []
    for second in range(300):
        now = 1000.0 + second
        if lines.due():
            lines.advance(0.5, "loss 2.0")
            shown.append(second)
    assert shown[:2] == [0, 5]  # the first ones within 10 seconds
    pauses = [after - before for before, after in itertools.pairwise(shown)]
    assert pauses == sorted(pauses) and pauses[-1] == 60


def test_a_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stderr", terminal := Terminal())
    monkeypatch.setenv("TERM", "xterm")
    bar = choose_display(unexpected)
    bar.say("on 2 threads [not markup]")
    bar.advance(0.25, "loss 2.0")
    bar.close()
    assert "on 2 threads [not markup]" in terminal.getvalue()
    assert "25%" in terminal.getvalue() and "loss 2.0" in terminal.getvalue()
    assert isinstance(bar, Bar)


def test_a_pipe_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", io.StringIO())
    assert isinstance(choose_display(unexpected), Lines)


class Unread(io.StringIO):
    """A stream that nobody reads any more."""

    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_a_reader_that_left_is_told_of_and_nothing_is_raised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lost: list[str] = []
    monkeypatch.setattr("sys.stderr", Unread())
    display = choose_display(lambda: lost.append("lost"))
    display.say("begins")
    assert lost
    display.advance(0.5, "loss 2.0")
    display.close()


def test_a_bar_outlives_its_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    lost: list[str] = []
    terminal = Unread()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    bar = choose_display(lambda: lost.append("lost"))
    assert isinstance(bar, Bar)
    bar.say("begins")
    bar.advance(0.25, "loss 2.0")
    bar.close()
    assert lost


def test_a_closed_standard_error_is_no_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", None)
    display = choose_display(unexpected)
    display.say("begins")
    display.advance(0.5, "loss 2.0")
    display.close()


@pytest.mark.parametrize(
    ("number", "said"), [(0, "0 epochs"), (1, "1 epoch"), (2, "2 epochs"), (2000, "2,000 epochs")]
)
def test_one_is_no_plural(number: int, said: str) -> None:
    assert counted(number, "epoch") == said


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_said_of_the_log(tmp_path: Path) -> None:
    log = RunLog(tmp_path)
    log._file.close()
    with Path("/dev/full").open("ab", buffering=0) as full:
        log._file = full
        with pytest.raises(UserError, match=r"log\.jsonl: cannot be written: No space left"):
            log.write("train", 1)


def test_silence(capsys: pytest.CaptureFixture[str]) -> None:
    silent = Silent()
    silent.say("begins")
    silent.advance(0.5, "loss 2.0")
    silent.close()
    assert capsys.readouterr() == ("", "")


def test_tensorboard_gets_the_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    monkeypatch.setattr(log_module, "_tensorboard", TENSORBOARD)
    log = RunLog(tmp_path)
    log.write("valid", 3, loss=1.5, reason="text is not for a curve")
    log.close()
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert events.Tags()["scalars"] == ["valid/loss"]
    assert [(event.step, event.value) for event in events.Scalars("valid/loss")] == [(3, 1.5)]
