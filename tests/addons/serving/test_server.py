"""The process: its ready line, its signals, and the errors of its start."""

import os
import shutil
import signal
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

pytest.importorskip("uvicorn", reason="needs the extra `serve`")

from crosshead.addons.serving.server import ServerConfig, bound_socket, run_server
from crosshead.cli import run
from crosshead.models.transformer import Transformer
from crosshead.tasks.translation.engine import Engines
from crosshead.tasks.translation.model_engine import model_engines
from crosshead.tasks.translation.translator import Translator
from tests.addons.serving.program import Program
from tests.bundle.text_bundles import bundle_of
from tests.conftest import ROOT

BUNDLE = ROOT / "tests" / "fixtures" / "bundle-format-1"


def other_bundle(folder: Path) -> None:
    """The stored bundle with other weights, whose translations differ."""
    shutil.copytree(BUNDLE, folder)
    weights = folder / "model.safetensors"
    save_file({name: -each for name, each in load_file(weights).items()}, weights)


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    shutil.copytree(BUNDLE, tmp_path / "bundle")
    found = Program(str(tmp_path / "bundle"), "--workers", "1", "--batch", "2")
    yield found
    found.kill()


def test_it_reloads_without_losing_a_request_and_answers_everything_before_it_ends(
    program: Program, tmp_path: Path
) -> None:
    line = program.wait_for("ready on ")
    address = program.address()
    assert address.startswith("http://127.0.0.1:") and "(en-de by crosshead)" in line
    old = program.translate(address, "A dog runs.")

    found: list[str] = []
    enough = threading.Event()

    def ask() -> None:
        while not enough.is_set():
            found.append(program.translate(address, "A dog runs."))
        found.append("the end")  # and no error before

    asking = [threading.Thread(target=ask) for _ in range(3)]
    for thread in asking:
        thread.start()
    other_bundle(tmp_path / "other")
    (tmp_path / "bundle").rename(tmp_path / "before")
    (tmp_path / "other").rename(tmp_path / "bundle")
    program.process.send_signal(signal.SIGHUP)
    program.wait_for("loaded again")
    first = program.translate(address, "A dog runs.")
    enough.set()
    for thread in asking:
        thread.join()
    assert first != old and set(found) == {old, first, "the end"}
    assert found.count("the end") == 3 and program.translate(address, "A dog runs.") == first

    found.clear()
    text = "\n".join(["A dog runs."] * 10)
    whole = program.translate(address, text)
    work = threading.Thread(target=lambda: found.append(program.translate(address, text)))
    work.start()
    while not _running(address):
        time.sleep(0.005)
    program.process.send_signal(signal.SIGTERM)
    work.join()
    assert found == [whole] and len(whole.split("\n")) == 10
    assert program.process.wait(30) == 0
    program.reader.join()
    assert program.lines[-1] == "crosshead: stopped\n"


def _running(address: str) -> bool:
    with urllib.request.urlopen(f"{address}/metrics", timeout=30) as answer:
        counts = answer.read().decode()
    return "crosshead_running 0.0" not in counts


def test_an_answer_does_not_wait_for_the_client_to_confirm_its_headers() -> None:
    """Nagle's algorithm would hold the body back for 40 ms."""
    with (
        bound_socket("127.0.0.1", 0) as listening,
        socket.create_connection(listening.getsockname()),
        listening.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_port_in_use_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    with bound_socket("127.0.0.1", 0) as taken:
        port = str(taken.getsockname()[1])
        assert run(["serve", str(BUNDLE), "--port", port]) == 2
    error = capfd.readouterr().err
    assert f"127.0.0.1, port {port}: Address already in use" in error and error.count("\n") == 1


def test_an_address_of_another_machine_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", str(BUNDLE), "--host", "192.0.2.1"]) == 2
    assert capfd.readouterr().err.count("\n") == 1


def test_bundles_that_cannot_be_served_are_refused_in_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from crosshead.bundle.io import save_bundle

    save_bundle(tmp_path / "nameless", bundle_of(), "card")
    for places, message in (
        ([str(tmp_path / "missing")], "no such directory"),
        ([str(BUNDLE), f"en-de={BUNDLE}"], "both translate en to de"),
        ([str(tmp_path / "nameless")], "does not say which languages it translates"),
    ):
        assert run(["serve", *places, "--port", "0"]) == 2
        *loading, error = capfd.readouterr().err.splitlines()
        assert message in error and error.startswith("crosshead: error: ")
        assert all(line.startswith("crosshead: ") for line in loading)


def test_a_free_port_is_found() -> None:
    with bound_socket("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port), timeout=10):
            assert port > 0


class Signals:
    """A server in this thread whose loading of bundles a test steers; signals come from threads."""

    def __init__(self, done: Callable[[list[str]], bool], *loads: Callable[[], None]) -> None:
        self.done, self.loads, self.drain = done, list(loads), 10.0
        self.lines: list[str] = []

    def engines(self, translator: Translator) -> Engines:
        if self.loads:
            self.loads.pop(0)()
        return model_engines(translator)

    def say(self, line: str) -> None:
        self.lines.append(line)
        if not line.startswith("stopped") and self.done(self.lines):
            os.kill(os.getpid(), signal.SIGTERM)

    def run(self) -> float:
        """Serve until the lines are those that are awaited, and return the seconds."""
        places = [f"en-de={BUNDLE}", f"de-fr={BUNDLE}"]
        config = ServerConfig(places, port=0, device="cpu", engines=self.engines, drain=self.drain)
        begin = time.monotonic()
        guard = threading.Timer(60, lambda: os.kill(os.getpid(), signal.SIGTERM))
        guard.start()
        try:
            run_server(config, self.say)
        finally:
            guard.cancel()
        return time.monotonic() - begin


def hang_up() -> None:
    os.kill(os.getpid(), signal.SIGHUP)


def nothing() -> None:
    pass


def test_sigterm_ends_a_server_that_loads() -> None:
    release = threading.Event()

    def slow() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        release.wait(20)

    server = Signals(lambda lines: False, slow)
    server.drain = 2.0
    assert server.run() < 10
    release.set()
    for thread in threading.enumerate():
        if thread.name == "loader":
            thread.join(30)
    assert not any("ready" in line or "2 of 2" in line for line in server.lines)
    assert server.lines[-1] == "stopped"


def test_a_reload_that_is_asked_for_while_bundles_load_happens_afterwards() -> None:
    again = "the bundles are loaded again"
    # During the first load, and during the one that follows it.
    server = Signals(lambda lines: lines.count(again) == 2, hang_up, nothing, hang_up)
    server.run()
    kept = [line.split(" on ")[0] for line in server.lines]
    load = [f"loading {BUNDLE} as {pair}" for pair in ("en-de (1 of 2)", "de-fr (2 of 2)")]
    assert kept[:9] == [*load, "ready", *load, again, *load, again]


def test_whatever_goes_wrong_in_a_reload_the_old_bundles_stay() -> None:
    def broken() -> None:
        raise RuntimeError("one line\nand another")

    said = "the bundles stay as they were: RuntimeError: one line and another"
    server = Signals(lambda lines: said in lines, hang_up, nothing, broken)
    server.run()
    assert said in server.lines


def test_what_is_not_done_at_the_end_is_answered_with_503(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[int | str] = []
    step, begun, release = Transformer.step, threading.Event(), threading.Event()

    def stuck(*given: object) -> object:
        if threading.current_thread().name.startswith("decoder"):
            begun.set()
            release.wait(30)
        return step(*given)  # type: ignore[arg-type]

    def ask() -> None:
        address = server.lines[-1].split("ready on ")[1].split()[0]
        body = b'{"q": "A dog.", "source": "en", "target": "de"}'
        kind = {"Content-Type": "application/json"}
        try:
            urllib.request.urlopen(
                urllib.request.Request(f"{address}/translate", body, kind), timeout=30
            )
        except urllib.error.HTTPError as error:
            with error:
                found.extend([error.code, error.headers["Retry-After"]])

    def then() -> None:
        begun.wait(30)
        os.kill(os.getpid(), signal.SIGTERM)

    def ready(lines: list[str]) -> bool:
        if "ready on " in lines[-1]:
            threads.extend([threading.Thread(target=ask), threading.Thread(target=then)])
            for thread in threads:
                thread.start()
        return False

    threads: list[threading.Thread] = []
    monkeypatch.setattr(Transformer, "step", stuck)
    server = Signals(ready)
    server.drain = 3.0
    server.run()
    release.set()
    for thread in threads:
        thread.join(30)
    assert found == [503, "5"]
    assert server.lines[-1] == "stopped; 1 request did not finish in time"


def test_whatever_a_request_waits_for_the_end_answers_it_with_503() -> None:
    found: list[bytes] = []
    waiting = threading.Barrier(4)

    def ask(body: bytes, length: int) -> None:
        address = server.lines[-1].split("ready on http://")[1].split()[0]
        host, port = address.split(":")
        head = f"POST /translate HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n"
        kind = "Content-Type: application/x-www-form-urlencoded\r\n\r\n"
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            connection.sendall((head + kind).encode() + body)
            waiting.wait(30)
            found.append(connection.recv(15))

    def then() -> None:
        waiting.wait(30)
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGTERM)

    def ready(lines: list[str]) -> bool:
        if "ready on " in lines[-1]:
            document = b"source=auto&target=de&format=html&q=" + b"<b>1" * 500_000
            for text, length in ((b"q=", 10), (document, len(document)), (b"q=", 10**7)):
                threads.append(threading.Thread(target=ask, args=(text, length)))
            threads.append(threading.Thread(target=then))
            for thread in threads:
                thread.start()
        return False

    threads: list[threading.Thread] = []
    server = Signals(ready)
    server.drain = 3.0
    server.run()
    ended = time.monotonic()
    for thread in threads:
        thread.join(30)
    assert found == [b"HTTP/1.1 503 Se"] * 3
    assert time.monotonic() - ended < 1
    assert server.lines[-1] == "stopped; 3 requests did not finish in time"
