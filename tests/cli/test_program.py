"""The program as a whole: it runs one verb and ends the process with its exit code."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence

import pytest

from crosshead.cli import program
from crosshead.system.signals import STOP_SIGNALS
from tests.cli.tools import COMMAND, environment, output_of

GROUPS = [
    "train", "translate", "evaluate", "compare", "score", "generate", "fill", "average",
    "attention", "recipe", "info", "pack", "presets", "study", "data",
]  # fmt: skip


@pytest.fixture
def signals(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put the signal handlers of this process back."""
    monkeypatch.setattr("atexit.register", lambda *arguments: None)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("signals")
@pytest.mark.parametrize(("chosen", "used"), [(None, "PASSIVE"), ("ACTIVE", "ACTIVE")])
def test_threads_wait_without_spinning_unless_the_user_chose_so(
    chosen: str | None,
    used: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    if chosen is None:
        monkeypatch.delenv("OMP_WAIT_POLICY")
    monkeypatch.setattr(sys, "argv", ["crosshead", "--version"])
    with pytest.raises(SystemExit):
        program.run_and_end()
    assert os.environ["OMP_WAIT_POLICY"] == used


def test_verbs_are_listed_from_training_to_data(capfd: pytest.CaptureFixture[str]) -> None:
    text = output_of(["--help"], capfd).partition("Commands")[2]
    found = re.findall(r"^\W*([a-z]+) ", text, re.MULTILINE)
    assert [name for name in found if name in GROUPS] == GROUPS


@pytest.mark.parametrize(("arguments", "code"), [(["--version"], 0), ([], 0), (["trian"], 2)])
def test_the_exit_code_is_returned(
    arguments: list[str], code: int, capfd: pytest.CaptureFixture[str]
) -> None:
    assert program.run(arguments) == code
    captured = capfd.readouterr()
    assert bool(captured.out) == (code == 0) and bool(captured.err) == (code != 0)


@pytest.mark.usefixtures("signals")
@pytest.mark.parametrize(
    ("outcome", "code"),
    [(0, 0), (2, 2), (SystemExit(143), 143), (SystemExit("a text"), 1), (SystemExit(), 1)],
)
def test_the_process_ends_with_the_code_of_the_work(
    outcome: int | SystemExit, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal and a worker whose main process ends the run raise `SystemExit`."""

    def run(arguments: Sequence[str]) -> int:
        assert list(arguments) == ["info", "x"]
        if isinstance(outcome, SystemExit):
            raise outcome
        return outcome

    monkeypatch.setattr(program, "run", run)
    monkeypatch.setattr(sys, "argv", ["crosshead", "info", "x"])
    with pytest.raises(SystemExit) as caught:
        program.run_and_end()
    assert caught.value.code == code


@pytest.mark.usefixtures("signals")
@pytest.mark.parametrize("number", STOP_SIGNALS[1:])
def test_a_signal_ends_the_process_with_its_code(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "run", lambda arguments: os.kill(os.getpid(), number))
    with pytest.raises(SystemExit) as caught:
        program.run_and_end()
    assert caught.value.code == 128 + number


@pytest.mark.usefixtures("signals")
def test_under_nohup_a_terminal_may_close(monkeypatch: pytest.MonkeyPatch) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    monkeypatch.setattr(program, "run", lambda arguments: os.kill(os.getpid(), signal.SIGHUP) or 0)
    with pytest.raises(SystemExit) as caught:
        program.run_and_end()
    assert caught.value.code == 0


@pytest.mark.parametrize(("argument", "code"), [("--help", 0), ("trian", 2)])
def test_a_worker_of_torchrun_ends_with_the_same_code_and_output(argument: str, code: int) -> None:
    def done(**more: str) -> tuple[int, str, str]:
        found = subprocess.run(
            [*COMMAND, argument],
            env={**environment(), **more}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return found.returncode, found.stdout, found.stderr

    alone = done()
    assert alone[0] == code and any(alone[1:])
    assert done(WORLD_SIZE="2") == alone


def test_what_a_worker_of_torchrun_has_printed_is_not_lost() -> None:
    script = (
        "from crosshead.cli import program\n"
        "program.run = lambda arguments: print('still in the buffer') or 3\n"
        "program.run_and_end()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**environment(), "WORLD_SIZE": "2", "PYTHONUNBUFFERED": ""},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (3, "still in the buffer\n")
