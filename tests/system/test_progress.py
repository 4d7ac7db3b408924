import io
import itertools

import pytest

from crosshead.system import progress as progress_module
from crosshead.system.progress import (
    Bar,
    Lines,
    Messages,
    Silent,
    choose_display,
    counted,
    left_out,
)


def unexpected() -> None:
    pytest.fail("somebody reads")


def test_lines_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines(Messages(unexpected))
    lines.say("begins")
    lines.advance(0.5, "loss 2.0")
    lines.close()
    out, err = capsys.readouterr()
    assert (out, err) == ("", "begins\n 50%  loss 2.0\n")


@pytest.mark.parametrize("quiet", [0, 7])
def test_plain_lines_come_by_time(
    quiet: float, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 1000.0
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: now)
    lines, shown = Lines(Messages(unexpected), quiet), []
    for second in range(300):
        now = 1000.0 + second
        if lines.due():
            lines.advance(0.5, "loss 2.0")
            shown.append(second)
    assert shown[:2] == [quiet, quiet + 5]
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
    ("number", "noun", "said"),
    [
        (0, "epoch", "0 epochs"),
        (1, "epoch", "1 epoch"),
        (2000, "epoch", "2,000 epochs"),
        (1, "batch", "1 batch"),
        (2, "batch", "2 batches"),
    ],
)
def test_one_is_no_plural(number: int, noun: str, said: str) -> None:
    assert counted(number, noun) == said


def test_silence(capsys: pytest.CaptureFixture[str]) -> None:
    silent = Silent()
    silent.say("begins")
    silent.advance(0.5, "loss 2.0")
    silent.close()
    assert capsys.readouterr() == ("", "")


def test_the_first_names_of_what_is_left_out_are_shown() -> None:
    assert left_out(["a.png"], "broken image") == "left out: 1 broken image (a.png)"
    found = left_out(list("abcd"), "image", " without a caption")
    assert found == "left out: 4 images without a caption (a, b, c, ...)"
