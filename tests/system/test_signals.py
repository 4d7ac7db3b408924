"""Signals that ask a run to stop, each given again after the block."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from crosshead.system.signals import STOP_SIGNALS, StopRequest, end_on, stop_on_signals


@pytest.fixture(autouse=True)
def _program() -> Iterator[None]:
    """Handle signals as the command line does, and Ctrl-C as Python does."""
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    for number in STOP_SIGNALS[1:]:
        signal.signal(number, end_on)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def handlers() -> list[object]:
    return [signal.getsignal(number) for number in STOP_SIGNALS]


def sent(*numbers: int) -> StopRequest:
    """Send this process signals in a block."""
    with stop_on_signals(end_on) as request:
        assert handlers()[1] != end_on
        for number in numbers:
            os.kill(os.getpid(), number)
            assert request()
            request.outcome += "saved"
    return request


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_the_first_signal_asks_and_ends_the_program_after_the_block(number: int) -> None:
    before = handlers()
    is_interrupt = number == signal.SIGINT
    error = KeyboardInterrupt if is_interrupt else SystemExit
    with pytest.raises(error, match="^saved$" if is_interrupt else str(128 + number)):
        sent(number)
    assert handlers() == before


@pytest.mark.parametrize("number", STOP_SIGNALS[2:])
def test_warnings_may_be_repeated(number: int) -> None:
    """By a terminal, a scheduler or the kernel."""
    with pytest.raises(SystemExit, match=str(128 + number)):
        sent(number, number, *STOP_SIGNALS[2:])


@pytest.mark.parametrize(
    ("number", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)]
)
@pytest.mark.parametrize("first", STOP_SIGNALS)
def test_a_second_one_ends_at_once(
    number: int, error: type[BaseException], first: signal.Signals
) -> None:
    before = handlers()
    with pytest.raises(error, match="^$" if number == signal.SIGINT else "143"):
        sent(first, number)  # the message of Ctrl-C, which is empty here, is that of the run's end
    assert handlers() == before


def in_a_block(work: Callable[[StopRequest], object]) -> None:
    with stop_on_signals(end_on) as request:
        work(request)


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_only_ctrl_c_is_told_that_it_may_be_repeated(
    number: int, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises((KeyboardInterrupt, SystemExit)):
        sent(number)
    again = "; Ctrl-C again stops at once" if number == signal.SIGINT else ""
    assert capfd.readouterr().err == f"\ncrosshead: stopping and saving{again}\n"


def test_the_first_reason_counts() -> None:
    def work(request: StopRequest) -> None:
        os.kill(os.getpid(), signal.SIGHUP)
        request.ask(signal.SIGPIPE)

    with pytest.raises(SystemExit, match="129"):
        in_a_block(work)


def test_an_error_in_the_block_is_not_hidden_by_the_signal() -> None:
    def work(request: StopRequest) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        raise OSError("disk")

    before = handlers()
    with pytest.raises(OSError, match="disk"):
        in_a_block(work)
    assert handlers() == before


def test_a_block_inside_another_leaves_the_signal_to_the_outer_one() -> None:
    found: list[StopRequest] = []

    def work(request: StopRequest) -> None:
        found.extend([request, sent(signal.SIGTERM)])

    with pytest.raises(SystemExit, match="143"):
        in_a_block(work)
    assert found[0] is found[1]


@pytest.mark.parametrize("handler", [signal.SIG_IGN, lambda number, frame: None])
def test_a_signal_that_the_program_ignores_or_handles_stays_its_own(handler: object) -> None:
    """Such as SIGHUP under nohup."""
    signal.signal(signal.SIGHUP, handler)  # type: ignore[arg-type]
    with stop_on_signals(end_on) as request:
        os.kill(os.getpid(), signal.SIGHUP)
        assert not request()
        assert signal.getsignal(signal.SIGHUP) == handler
        assert signal.getsignal(signal.SIGTERM) != end_on


def test_outside_of_the_main_thread_nothing_changes() -> None:
    found: list[StopRequest] = []

    def work() -> None:
        before = handlers()
        with stop_on_signals(end_on) as request:
            assert handlers() == before
            found.append(request)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert len(found) == 1 and not found[0]()


def test_an_exception_in_the_block_does_not_keep_the_program_alive() -> None:
    program = (
        "import os, signal; from crosshead.system.signals import stop_on_signals\n"
        "try:\n"
        "    with stop_on_signals():\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "        raise ValueError('lost')\n"
        "except ValueError:\n"
        "    pass\n"
        "print('alive')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (-signal.SIGTERM, "")
    assert "ValueError: lost" in done.stderr
