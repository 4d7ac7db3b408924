"""The process: its ready line, its signals, and the errors of its start."""

import signal
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="needs the extra `serve`")

from crosshead.cli import run
from crosshead.serving.server import bound_socket
from tests.bundle.text_bundles import bundle_of
from tests.conftest import ROOT
from tests.preloaded import command
from tests.serving.program import Program

BUNDLE = ROOT / "tests" / "fixtures" / "bundle-format-1"


@pytest.fixture(scope="module")
def program() -> Iterator[Program]:
    found = Program(str(BUNDLE), "--workers", "1", "--batch", "2")
    yield found
    found.kill()


def test_it_serves_reloads_and_answers_everything_before_it_ends(program: Program) -> None:
    line = program.wait_for("ready on ")
    address = program.address()
    assert address.startswith("http://127.0.0.1:") and "(en-de)" in line
    first = program.translate(address, "A dog runs.")

    program.process.send_signal(signal.SIGHUP)
    program.wait_for("loaded again")
    assert program.translate(address, "A dog runs.") == first

    found: list[str] = []
    text = "\n".join(["A dog runs."] * 100)
    work = threading.Thread(target=lambda: found.append(program.translate(address, text)))
    work.start()
    while not _running(address):
        time.sleep(0.005)
    program.process.send_signal(signal.SIGTERM)
    work.join()
    assert found == ["\n".join([first] * 100)]
    assert program.process.wait(30) == 0


def _running(address: str) -> bool:
    with urllib.request.urlopen(f"{address}/metrics", timeout=30) as answer:
        counts = answer.read().decode()
    return "crosshead_running 0.0" not in counts


def test_a_port_in_use_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    with bound_socket("127.0.0.1", 0) as taken:
        port = str(taken.getsockname()[1])
        assert run(["serve", str(BUNDLE), "--port", port]) == 2
    message = f"crosshead: error: port {port} of 127.0.0.1 is in use; choose another with --port\n"
    assert capfd.readouterr().err == message


def test_an_address_of_another_machine_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", str(BUNDLE), "--host", "192.0.2.1"]) == 2
    assert capfd.readouterr().err.count("\n") == 1


def test_bundles_that_cannot_be_served_are_refused_in_one_line(tmp_path: Path) -> None:
    from crosshead.bundle.io import save_bundle

    save_bundle(tmp_path / "nameless", bundle_of(), "card")
    for places, message in (
        ([str(tmp_path / "missing")], "no such directory"),
        ([str(BUNDLE), f"en-de={BUNDLE}"], "both translate en to de"),
        ([str(tmp_path / "nameless")], "does not say which languages it translates"),
    ):
        done = subprocess.run(
            [*command(), "-m", "crosshead", "serve", *places, "--port", "0"],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        *loading, error = done.stderr.splitlines()
        assert done.returncode == 2 and message in error and error.startswith("crosshead: error: ")
        assert all(line.startswith("crosshead: ") for line in loading)


def test_a_free_port_is_found() -> None:
    with bound_socket("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port), timeout=10):
            assert port > 0
