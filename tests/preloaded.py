"""Programs that start in milliseconds: forks of a process that has the imports behind it.

`command()` stands for `python`: `[*command(), "-m", "crosshead", ...]` or
`[*command(), "script.py", ...]`. Tests of the start, the end, the limits, and the signals of a
process use Python itself.
"""

import atexit
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent
FORKS = TESTS / "forks.py"


def command() -> list[str]:
    """The words that stand for `python`; the server is started at the first call."""
    if sys.platform != "linux":  # elsewhere a fork of a process with PyTorch may fail
        return [sys.executable]
    return [sys.executable, "-I", "-S", str(FORKS), "run", _server()]


@cache
def folder_for_path() -> str:
    """The folder of a program `crosshead` that starts in milliseconds."""
    words = [*command(), "-m", "crosshead"]
    program = _folder() / "crosshead"
    program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    program.chmod(0o755)
    return str(program.parent)


@cache
def _server() -> str:
    """Start the server, once in a process, and return the name of its socket.

    Its standard input is a pipe from this process: it ends when this process does.
    """
    name = str(_folder() / "socket")
    process = subprocess.Popen(
        [sys.executable, FORKS, "serve", name],
        env={**os.environ, "PYTHONPATH": str(TESTS.parent)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout and process.stdout.readline() == b"ready\n"
    atexit.register(process.kill)
    return name


@cache
def _folder() -> Path:
    """A folder that goes with this process."""
    folder = tempfile.mkdtemp(prefix="crosshead-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)
