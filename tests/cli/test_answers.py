import pytest

from crosshead.cli.answers import answering
from crosshead.system.progress import Silent


def test_progress_is_shown_of_a_known_number_of_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown: list[tuple[float, str]] = []

    class Recorded(Silent):
        def __init__(self, messages: object) -> None: ...

        def say(self, line: str) -> None:
            shown.append((-1, line))

        def advance(self, fraction: float, line: str) -> None:
            shown.append((fraction, line.partition(",")[0]))

    monkeypatch.setattr("crosshead.cli.answers.Bar", Recorded)
    with answering(4) as advance:
        advance(1, 2, 0.5)
        advance(0, 2, 1.0)
    assert shown == [(0, "0 of 4 lines"), (0.5, "2 of 4 lines"), (0.5, "2 of 4 lines")]
    with answering(200, "characters") as advance:
        advance(0, 200, 0.5)
    assert shown[3:] == [(0, "0 of 200 characters"), (0.5, "100 of 200 characters")]
    assert capsys.readouterr().err == ""
    for unknown in (None, 0):
        with answering(unknown) as advance:
            advance(0, 2, 1.0)
    assert capsys.readouterr().err == ""
    assert len(shown) == 5
