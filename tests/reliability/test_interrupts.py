"""Ctrl-C ends the program quietly with 130, from the first line of `main` to its end."""

import builtins
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from itertools import count as numbers
from pathlib import Path
from typing import Any

import pytest

from crosshead import cli
from tests.parameters import mostly_slow
from tests.reliability.tools import SEALED, counts, environment

SCRIPT = """
import sys
class Watch:
    def find_spec(self, name, path, target=None):
        if name == "crosshead.cli.program":  # the first import in main
            sys.stderr.write("+")
            sys.stderr.flush()
sys.meta_path.insert(0, Watch())
from crosshead.cli import main
sys.exit(main())
"""
"""An installed console script, that says where `main` begins."""


def interrupted(arguments: list[str], seconds: float) -> tuple[int, str]:
    """The code and messages of a program that gets SIGINT so many seconds after `main` began."""
    command = [sys.executable, "-c", SCRIPT, *arguments]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=environment(), text=True, **pipes) as process:
        assert process.stdin and process.stderr and process.stderr.read(1) == "+"
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        code = process.wait(timeout=60)
        return code, process.stderr.read()


def test_the_handler_is_set_before_anything_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python ignores a KeyboardInterrupt in some callbacks of an import."""

    class Set(Exception):
        pass

    imported: list[str] = []
    before_it: list[str] = []

    def set_it(number: int, handler: object) -> None:
        before_it.extend(imported)
        raise Set

    def noted(name: str, *arguments: Any) -> Any:
        imported.append(name)
        return real(name, *arguments)

    real = builtins.__import__
    monkeypatch.setattr(signal, "signal", set_it)
    monkeypatch.setattr(builtins, "__import__", noted)
    with pytest.raises(Set):
        cli.main()
    assert not before_it


@counts(quick=2, full=150)
def test_translation_is_interrupted_at_any_moment(
    count: int, record: Callable[[str], None]
) -> None:
    """Early ones above all. Standard input stays open: nothing ends before it is interrupted."""
    command = ["translate", str(SEALED), "--threads", "1"]
    span = 3.0
    for number in range(count):
        moment = 0.01 + span * (number / count) ** 2
        assert interrupted(command, moment) == (130, ""), f"after {moment:.3f} s"
    record(f"{count} of {count} interrupts in {span:.1f} s from the start: 130 and no message")


@counts(quick=6, full=50)
def test_what_ends_by_itself_is_interrupted_at_any_moment(
    count: int, record: Callable[[str], None]
) -> None:
    """To the end and beyond it: either it was done, or it was interrupted."""
    found: Counter[int] = Counter()
    for number in range(count):
        code, said = interrupted(["--help"], 0.5 * number / count)
        assert code in (0, 130) and said == "", f"{code} after {0.5 * number / count:.3f} s"
        found[code] += 1
    record(f"{count} interrupts of --help: {found[130]} end with 130, {found[0]} were done")


@pytest.mark.slow
@pytest.mark.parametrize(
    "start", mostly_slow([["-m", "crosshead"], ["-c", SCRIPT]], [["-c", SCRIPT]])
)
def test_both_ways_of_starting_it(start: list[str], tmp_path: Path) -> None:
    """An unfinished output file is removed."""
    command = [sys.executable, *start, "translate", str(SEALED), "--output", str(tmp_path / "out")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=environment(), text=True, **pipes) as process:
        assert process.stderr
        for _ in numbers():
            if list(tmp_path.iterdir()):
                break
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130
        assert process.stderr.read() in ("", "+")
    assert list(tmp_path.iterdir()) == []
