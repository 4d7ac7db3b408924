import os
import signal
import threading
from pathlib import Path

import pytest

from crosshead.system.progress import Silent
from crosshead.training.interrupt import stop_on_interrupt
from crosshead.training.run import train
from tests.training.runs import recipe_for


class Pressing(Silent):
    """Presses Ctrl-C in the fourth update."""

    def due(self) -> bool:
        """Show every update."""
        return True

    def advance(self, fraction: float, line: str) -> None:
        if "update 4 " in line:
            os.kill(os.getpid(), signal.SIGINT)


def interrupted(text: Path, out: str) -> str:
    """What a process of its own says of a run in which Ctrl-C is pressed."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            train(recipe_for(text), out, display=Pressing())
        except KeyboardInterrupt as error:
            os.write(writer, str(error).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as said:
        found = said.read()
    os.waitpid(child, 0)
    return found


def test_an_interrupt_in_python_saves_the_run(text: Path, tmp_path: Path) -> None:
    """A real SIGINT, and a directory named by text."""
    out = tmp_path / "run"
    said = interrupted(text, str(out))
    assert "stopped at update 5 " in said and said.endswith("resume=True to continue")
    assert not (out / "config.json").exists()
    summary = train(recipe_for(text, "max_updates=6"), str(out), resume=True)
    assert summary.progress.update == 6 and summary.out == out


def test_the_second_interrupt_ends_at_once_and_the_handler_comes_back() -> None:
    with stop_on_interrupt(lambda: False) as interrupt:
        assert not interrupt()
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupt() and interrupt.was_pressed
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_where_somebody_handles_interrupts_that_stays_so() -> None:
    pressed: list[int] = []
    earlier = signal.signal(signal.SIGINT, lambda number, frame: pressed.append(number))
    try:
        with stop_on_interrupt(lambda: bool(pressed)) as interrupt:
            os.kill(os.getpid(), signal.SIGINT)
            assert interrupt() and not interrupt.was_pressed
    finally:
        signal.signal(signal.SIGINT, earlier)
    assert pressed == [signal.SIGINT]


def test_outside_of_the_main_thread_nothing_changes() -> None:
    found: list[bool] = []

    def work() -> None:
        with stop_on_interrupt(lambda: True) as interrupt:
            found.append(interrupt())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [True]
