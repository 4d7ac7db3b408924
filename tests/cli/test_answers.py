import pytest

from crosshead.cli import answers
from crosshead.cli.answers import answering
from crosshead.system.progress import Silent


class Recorded(Silent):
    def __init__(self) -> None:
        self.shown: list[tuple[float, str]] = []

    def due(self) -> bool:
        return True

    def advance(self, fraction: float, line: str) -> None:
        self.shown.append((fraction, line.partition(",")[0]))


@pytest.fixture
def display(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    recorded = Recorded()
    monkeypatch.setattr(answers, "choose_display", lambda lost: recorded)
    return recorded


def test_progress_is_shown_of_a_known_number_of_lines(
    display: Recorded, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(answers, "at_terminal", lambda: True)
    shown = display.shown
    with answering(4) as advance:
        advance(1, 2, 0.5)
        advance(0, 2, 1.0)
    assert shown == [(0, "0 of 4 lines"), (0.5, "2 of 4 lines"), (0.5, "2 of 4 lines")]
    with answering(200, "characters") as advance:
        advance(0, 200, 0.5)
    assert shown[3:] == [(0, "0 of 200 characters"), (0.5, "100 of 200 characters")]
    for unknown in (None, 0):
        with answering(unknown) as advance:
            advance(0, 2, 1.0)
    assert capsys.readouterr().err == ""
    assert len(shown) == 5


def test_away_from_a_terminal_lines_begin_after_two_seconds(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    with answering(100, "lines", "; the scores follow") as advance:
        for now[0] in (1.0, 1.9, 2.5, 2.6, 30.0):
            advance(0, 100, now[0] / 30)
    said = capfd.readouterr().err.splitlines()
    assert said == [
        "  8%  8 of 100 lines, 3 lines/s", "100%  100 of 100 lines, 3 lines/s; the scores follow"
    ]  # fmt: skip
