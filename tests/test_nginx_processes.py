"""Several processes behind nginx, with the site in deploy/: who answers, and who goes on."""

import json
import re
import signal
import threading
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

pytest.importorskip("uvicorn", reason="needs the extra `serve`")

from tests.addons.serving.program import Program
from tests.conftest import ROOT
from tests.cores import on_all_cores
from tests.nginx import Proxy, needs_addresses, needs_nginx, running_nginx

pytestmark = [needs_nginx, needs_addresses]

BUNDLE = ROOT / "tests" / "fixtures" / "bundle-format-1"
CLIENTS = range(2, 26)
"""The last numbers of the clients' addresses. All go to one process once in eight million times."""


class StandIn(ThreadingHTTPServer):
    """A stand-in for a process: it gives all requests one status, or none and closes."""

    def __init__(self, status: int | None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status = status
        self.asked = 0


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        assert isinstance(self.server, StandIn)
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self.server.asked += 1
        if self.server.status is None:
            self.close_connection = True
            return
        self.send_response(self.server.status)
        self.send_header("Retry-After", "7")
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_POST = do_GET

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def stand_ins(folder: Path, *statuses: int | None) -> Iterator[tuple[Proxy, list[StandIn]]]:
    """Run nginx before a stand-in for each status."""
    with ExitStack() as closing:
        found = []
        for status in statuses:
            server = closing.enter_context(StandIn(status))
            closing.callback(server.shutdown)
            threading.Thread(target=server.serve_forever, args=(0.01,)).start()
            found.append(server)
        ports = [server.server_port for server in found]
        yield closing.enter_context(running_nginx(folder, ports)), found


@pytest.mark.parametrize("status", [None, 500, 503])
def test_another_process_answers_for_one_that_ends_loads_or_is_busy(
    status: int | None, tmp_path: Path
) -> None:
    with stand_ins(tmp_path, status, 200) as (proxy, [broken, sound]):
        answers = [proxy.post("/translate", {"q": "a"}, client) for client in CLIENTS]
    assert {answer.status for answer in answers} == {200}
    assert sound.asked == len(CLIENTS) and 0 < broken.asked < len(CLIENTS)


def test_busy_processes_say_so_and_stay_in_use(tmp_path: Path) -> None:
    with stand_ins(tmp_path, 503, 503) as (proxy, servers):
        answers = [proxy.post("/translate", {"q": "a"}, client) for client in CLIENTS]
        assert {(each.status, each.headers["Retry-After"]) for each in answers} == {(503, "7")}
        assert [server.asked for server in servers] == [len(CLIENTS)] * 2
        servers[0].status = servers[1].status = 200
        assert {proxy.get("/", client).status for client in CLIENTS} == {200}


@pytest.mark.parametrize("status", [400, 403, 404, 413, 429])
def test_answers_about_the_request_go_to_the_client(status: int, tmp_path: Path) -> None:
    with stand_ins(tmp_path, status, status) as (proxy, servers):
        assert proxy.post("/translate", {"q": "a"}).status == status
    assert sum(server.asked for server in servers) == 1


def test_a_request_that_ends_its_process_reaches_one_more_process(tmp_path: Path) -> None:
    with stand_ins(tmp_path, None, None, None, None) as (proxy, servers):
        assert proxy.post("/translate", {"q": "a"}).status == 502
    assert sorted(server.asked for server in servers) == [0, 0, 1, 1]


def test_a_file_is_looked_for_in_all_processes(tmp_path: Path) -> None:
    with stand_ins(tmp_path, 404, 404, 404, 200) as (proxy, servers):
        assert {proxy.get("/download_file/a", client).status for client in CLIENTS} == {200}
        servers[3].status = 404
        before = [server.asked for server in servers]
        assert proxy.get("/download_file/a").status == 404
    assert [server.asked - count for server, count in zip(servers, before, strict=True)] == [1] * 4


def test_metrics_are_for_this_machine_alone(tmp_path: Path) -> None:
    with stand_ins(tmp_path, 200) as (proxy, [server]):
        assert [proxy.get("/metrics", client).status for client in (1, 2)] == [200, 403]
    assert server.asked == 1


class Processes:
    """Processes of `crosshead serve`, each on a port that it keeps."""

    def __init__(self, count: int) -> None:
        self.programs = [self._started(0) for _ in range(count)]
        self.ports = [int(program.address().rsplit(":", 1)[1]) for program in self.programs]

    def _started(self, port: int) -> Program:
        return Program(str(BUNDLE), "--workers", "1", port=port)

    def start(self, number: int) -> None:
        """Start a process on its port, and wait until it is ready."""
        self.programs[number] = self._started(self.ports[number])
        self.programs[number].address()

    def stop(self, number: int) -> None:
        """End a process as systemd does, and wait until it has ended."""
        self.programs[number].process.send_signal(signal.SIGTERM)
        assert self.programs[number].process.wait(60) == 0
        self.programs[number].reader.join()

    def translated(self) -> list[int]:
        """The number of translations that each process has answered, from its metrics."""
        return [self._translated(port) for port in self.ports]

    def _translated(self, port: int) -> int:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            text = answer.read().decode()
        found = re.search(
            r'^crosshead_requests_total{path="/translate",status="200"} (.*)$', text, re.M
        )
        return int(float(found[1])) if found else 0


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    with on_all_cores():
        found = Processes(2)
        yield found
        for program in found.programs:
            program.kill()


@pytest.fixture
def proxy(processes: Processes, tmp_path: Path) -> Iterator[Proxy]:
    with running_nginx(tmp_path, processes.ports) as found:
        yield found


def translate(proxy: Proxy, client: int, lines: int = 1) -> int:
    """The status of a translation."""
    values = {"q": "\n".join(["A dog runs."] * lines), "source": "en", "target": "de"}
    return proxy.post("/translate", values, client).status


def homes(processes: Processes, proxy: Proxy) -> list[int]:
    """The number of the process that answers each client; one process answers all its requests."""
    found = []
    for client in CLIENTS:
        before = processes.translated()
        assert [translate(proxy, client) for _ in range(3)] == [200] * 3
        change = [new - old for new, old in zip(processes.translated(), before, strict=True)]
        assert sorted(change) == [0, 3]
        found.append(change.index(3))
    return found


@pytest.mark.slow
def test_each_client_stays_with_one_process_also_after_another_was_killed(
    processes: Processes, proxy: Proxy
) -> None:
    first = homes(processes, proxy)
    assert set(first) == {0, 1}

    processes.programs[0].kill()
    assert {translate(proxy, client) for client in CLIENTS} == {200}
    processes.start(0)
    assert homes(processes, proxy) == first


@pytest.mark.slow
def test_a_translated_file_is_found_from_every_address(processes: Processes, proxy: Proxy) -> None:
    parts = [("source", "", "en"), ("target", "", "de"), ("file", '; filename="a.txt"', "A dog.")]
    body = "".join(
        f'--x\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n{value}\r\n'
        for name, more, value in parts
    )
    answer = proxy.ask(
        "/translate_file", f"{body}--x--\r\n".encode(), "multipart/form-data; boundary=x", 2
    )
    assert answer.status == 200
    path = urlsplit(json.loads(answer.body)["translatedFileUrl"]).path
    found = [proxy.get(path, client) for client in CLIENTS]
    assert {each.status for each in found} == {200} and len({each.body for each in found}) == 1
    assert proxy.get("/download_file/made.up").status == 404


class Load:
    """Clients that ask without a pause, and the statuses of their answers."""

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy
        self.statuses: list[int] = []
        self.done = threading.Event()

    def work(self, client: int) -> None:
        while not self.done.is_set():
            self.statuses.append(translate(self.proxy, client, lines=5))

    def wait(self) -> None:
        """Wait until there are 20 more answers."""
        count, end = len(self.statuses), time.monotonic() + 90
        while len(self.statuses) < count + 20:
            assert time.monotonic() < end
            time.sleep(0.01)


@contextmanager
def load(proxy: Proxy) -> Iterator[Load]:
    """Eight clients that ask; an exception of one is raised at the end."""
    found = Load(proxy)
    with ThreadPoolExecutor(8) as threads:
        working = [threads.submit(found.work, client) for client in CLIENTS[:8]]
        try:
            found.wait()
            yield found
            found.wait()
        finally:
            found.done.set()
        for each in working:
            each.result()


@pytest.mark.slow
def test_no_request_is_lost_while_the_processes_restart_one_after_the_other(
    processes: Processes, proxy: Proxy
) -> None:
    with load(proxy) as found:
        for number in (0, 1):
            processes.stop(number)
            processes.start(number)
            found.wait()
    assert set(found.statuses) == {200}


@pytest.mark.slow
def test_requests_under_way_are_answered_when_their_process_is_killed(
    processes: Processes, proxy: Proxy
) -> None:
    with load(proxy) as found:
        processes.programs[1].kill()
    assert set(found.statuses) == {200}
    processes.start(1)
