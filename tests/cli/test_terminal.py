import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from crosshead.cli import terminal
from crosshead.cli.terminal import (
    answering,
    at_terminal,
    guarded,
    note,
    open_output,
    program,
    put,
    table,
    watched,
)
from crosshead.errors import UserError
from crosshead.system.progress import Silent


def raising(error: BaseException):
    def work() -> None:
        raise error

    return work


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (UserError("no such thing"), 2, "crosshead: error: no such thing\n"),
        (typer.BadParameter("bad value"), 2, "bad value; see `crosshead --help`\n"),
        (KeyboardInterrupt(), 130, ""),
        (BrokenPipeError(), 141, ""),
        (typer.Exit(7), 7, ""),
        (OSError(errno.ENOSPC, "No space left on device"), 2, "error: No space left on device\n"),
        (PermissionError(13, "Permission denied", "x"), 2, "error: x: Permission denied\n"),
        (MemoryError(), 2, "error: out of memory; give the program more memory"),
        (
            RuntimeError("DefaultCPUAllocator: can't allocate memory"),
            2,
            "error: out of memory; reduce the batch",
        ),
    ],
)
def test_how_work_ends(
    error: BaseException, code: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert guarded(raising(error)) == code
    captured = capsys.readouterr()
    assert line in captured.err
    assert captured.err.count("\n") == bool(line)
    assert captured.out == ""


def test_work_that_is_done_ends_with_0() -> None:
    assert guarded(lambda: None) == 0


def test_a_mistake_of_the_program_itself_is_not_hidden() -> None:
    with pytest.raises(RuntimeError, match="a bug"):
        guarded(raising(RuntimeError("a bug")))


def test_a_question_is_no_clause(capsys: pytest.CaptureFixture[str]) -> None:
    guarded(raising(typer.BadParameter("No such thing. Did you mean 'x'?")))
    assert "Did you mean 'x'? See `crosshead --help`\n" in capsys.readouterr().err


def test_somebody_watches_a_file_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not at_terminal()
    assert not watched(tmp_path / "out")  # standard error is no terminal here
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert at_terminal()
    assert watched(tmp_path / "out")
    for name, answer in ((tmp_path / "out", True), (Path("/dev/null"), False)):
        kept = os.dup(1)
        with name.open("wb") as file:
            os.dup2(file.fileno(), 1)
        try:
            assert watched(None) == answer
        finally:
            os.dup2(kept, 1)
            os.close(kept)
    monkeypatch.setattr("sys.stderr", None)
    assert not at_terminal()
    assert not watched(tmp_path / "out")


def test_a_message_stays_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    note("a\nfile\x1b[31m [bold]\udcff é")
    assert capsys.readouterr().err == "crosshead: a\\nfile\\u001b[31m [bold]\\udcff é\n"


def test_a_long_message_is_cut_in_the_middle(capsys: pytest.CaptureFixture[str]) -> None:
    note(f"error: no {'x' * 100_000} here; name another")
    said = capsys.readouterr().err
    assert len(said) < 1200
    assert said.startswith("crosshead: error: no xxx") and said.endswith("x here; name another\n")
    assert "characters left out" in said


def test_output_is_utf8(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    put("é\u200c\t\n")
    assert capfdbinary.readouterr().out == "é\u200c\t\n".encode()


@pytest.mark.parametrize("hostile", ["\x1b]0;owned\x07", "\x9b31m", "\x7f\b", "\u202egnp", "\r"])
def test_a_report_of_foreign_text_cannot_control_the_terminal(
    hostile: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    put(table([["a", f"x{hostile}\ny"], ["name", "z"]]) + f"{hostile}\n")
    said = capfdbinary.readouterr().out.decode()
    assert not any(each in said for each in hostile if not each.isprintable())
    assert said.count("\n") == 3  # a cell is one line
    line = json.dumps({"text": hostile}, ensure_ascii=False)
    put(line)  # JSON keeps its meaning
    assert json.loads(capfdbinary.readouterr().out) == {"text": hostile}


def test_the_program_is_named_as_the_shell_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("my env", "other"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "crosshead").touch(mode=0o755)
    monkeypatch.setattr("sys.executable", str(tmp_path / "my env" / "python"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "my env"))
    assert program() == "crosshead"
    for path in (tmp_path / "other", tmp_path):
        monkeypatch.setenv("PATH", str(path))
        assert program() == "'my env/crosshead'"
    monkeypatch.chdir(tmp_path / "other")
    assert program() == f"'{tmp_path}/my env/crosshead'"
    (tmp_path / "my env" / "crosshead").unlink()
    assert program() == "crosshead"


def test_an_output_file_is_whole_or_absent(tmp_path: Path) -> None:
    path = tmp_path / "out"

    def write_half() -> None:
        with open_output(path) as write:
            write(b"half")
            raise UserError("stop")

    with pytest.raises(UserError):
        write_half()
    assert list(tmp_path.iterdir()) == []
    with open_output(path) as write:
        write(b"a")
        write(b"b")
    assert path.read_bytes() == b"ab"


def test_a_table_is_aligned() -> None:
    rows = [["name", "n"], ["a", "1,000"], ["long name", ""]]
    assert table(rows, numbers=1) == "name           n\na          1,000\nlong name\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_standard_output_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with open("/dev/full", "w") as full:
        monkeypatch.setattr("sys.stdout", full)
        assert guarded(lambda: put("text")) == 2
        monkeypatch.undo()
    said = capsys.readouterr().err
    assert said == (
        "crosshead: error: standard output: cannot be written: No space left on device; "
        "free some disk space, or send the output elsewhere\n"
    )


def test_an_error_that_nobody_reads_still_has_its_exit_code() -> None:
    script = (
        "import sys\n"
        "from crosshead.errors import UserError\n"
        "from crosshead.cli.terminal import guarded\n"
        "def work(): raise UserError('no such thing')\n"
        "sys.exit(guarded(work))"
    )
    for redirection in ("2>&-", "2>/dev/full"):
        done = subprocess.run(
            ["bash", "-c", f'"$@" {redirection}', "-", sys.executable, "-c", script],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stdout) == (2, "")


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
    monkeypatch.setattr("crosshead.system.progress.choose_display", lambda lost: recorded)
    return recorded


def test_progress_is_shown_of_a_known_number_of_lines(
    display: Recorded, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(terminal, "at_terminal", lambda: True)
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
