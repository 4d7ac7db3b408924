"""A fork of the preloaded process is as good as a process of its own."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.preloaded import command

TELL = """
import json, os, sys
said = [sys.argv[1:], os.environ["WORD"], os.getcwd(), sys.stdin.read(), "torch" in sys.modules]
print(json.dumps(said), os.getpid(), flush=True)
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return tmp_path / "script.py"


def test_it_has_its_arguments_its_environment_its_folder_and_its_streams(
    script: Path, tmp_path: Path
) -> None:
    script.write_text(TELL + "print('to the other', file=sys.stderr)\nsys.exit(3)\n")
    done = subprocess.run(
        [*command(), script, "one", "two"],
        env={**os.environ, "WORD": "a word"}, cwd=tmp_path, input="given", text=True,
        capture_output=True, check=False,
    )  # fmt: skip
    said, _ = json.JSONDecoder().raw_decode(done.stdout)
    imported = sys.platform == "linux"
    assert said == [["one", "two"], "a word", str(tmp_path), "given", imported]
    assert (done.returncode, done.stderr) == (3, "to the other\n")


def test_it_ends_by_the_signal_that_ends_the_fork(script: Path) -> None:
    script.write_text("import os\nos.kill(os.getpid(), 11)\n")
    assert subprocess.run([*command(), script], check=False).returncode == -signal.SIGSEGV


def test_who_kills_it_kills_the_fork(script: Path) -> None:
    script.write_text("import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(60)\n")
    with subprocess.Popen([*command(), script], stdout=subprocess.PIPE) as process:
        assert process.stdout
        fork = int(process.stdout.readline())
        process.kill()
        assert process.stdout.read() == b""  # nobody is left who could write
    until = time.monotonic() + 10
    while time.monotonic() < until:
        try:
            os.kill(fork, 0)
        except ProcessLookupError:
            return
        time.sleep(0.01)
    raise AssertionError("the fork is still there")


def test_an_error_is_printed_and_ends_it_with_1(script: Path) -> None:
    script.write_text("raise ValueError('wrong')\n")
    done = subprocess.run([*command(), script], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stderr.endswith("ValueError: wrong\n")
