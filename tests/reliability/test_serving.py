"""A server under abuse, load and failures: the short forms run by default.

docs/reliability.md has the counts. Times are recorded and not asserted.
"""

import gzip
import hashlib
import json
import re
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("uvicorn", reason="needs the extra `serve`")

from crosshead.addons.serving import scheduler as scheduler_module
from crosshead.addons.serving.app import make_app
from crosshead.addons.serving.directory import Directory, load_directory
from crosshead.addons.serving.keys import ApiKey, Keys
from crosshead.addons.serving.scheduler import Limits
from tests.addons.serving.loopback import Answer, Client, running
from tests.addons.serving.program import Program
from tests.conftest import ROOT
from tests.parameters import mostly_slow

Record = Callable[[str], None]

BUNDLE = ROOT / "tests" / "fixtures" / "bundle-format-1"
PAIR = {"source": "en", "target": "de"}
SAME = {"source": "en", "target": "en"}
JSON = {"Content-Type": "application/json"}
KEYS = Keys({hashlib.sha256(b"secret").hexdigest(): ApiKey("friend", 0)})


@pytest.fixture(scope="module")
def directory() -> Directory:
    return load_directory([f"en-de={BUNDLE}"], lambda line: None, "cpu")


@pytest.fixture(scope="module")
def client(directory: Directory) -> Iterator[Client]:
    with running(directory) as found:
        yield found


def until(condition: Callable[[], bool], seconds: float = 60.0) -> float:
    begin = time.monotonic()
    while not condition():
        assert time.monotonic() < begin + seconds
        time.sleep(0.005)
    return time.monotonic() - begin


def connected(client: Client) -> socket.socket:
    host, port = client.address.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=60)


def post(path: str, body: bytes, kind: str = "application/json", more: str = "") -> bytes:
    """The bytes of a request."""
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\n{more}"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


# 19. More requests than the server can answer


def test_a_server_with_too_much_to_do_refuses_with_a_time(
    directory: Directory, record: Record
) -> None:
    with running(directory, limits=Limits(sentences=2, waiting=8)) as client:
        text = "\n".join(["A dog runs."] * 8)

        def ask(number: int) -> Answer:
            return client.post("/translate", PAIR | {"q": f"{number}\n{text}"})

        with ThreadPoolExecutor(24) as threads:
            answers = list(threads.map(ask, range(120)))
        assert client.post("/translate", PAIR | {"q": "A dog."}).status == 200
    counts = Counter(each.status for each in answers)
    refused = [each for each in answers if each.status != 200]
    record(f"overload: {dict(counts)} of 120 requests of 24 clients")
    assert counts.keys() <= {200, 429, 503} and counts[200] and refused
    assert all(1 <= int(each.headers["Retry-After"]) <= 60 for each in refused)


# 20. Bodies


CHUNKED = b"POST /translate HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


def streamed(client: Client, head: bytes, part: bytes, count: int) -> tuple[bytes, int]:
    """The answer to a body in parts, and the parts that were sent until it came."""
    with connected(client) as connection:
        connection.sendall(head)
        sent = 0
        try:
            while sent < count:
                connection.sendall(part)
                sent += 1
        except ConnectionError:
            pass  # refused, and closed
        else:
            connection.sendall(b"0\r\n\r\n")
        try:
            return connection.recv(4096), sent
        except ConnectionError:
            return b"", sent


@pytest.mark.parametrize("singles", mostly_slow([30_000, 3 * 2**20], [30_000]))
def test_bodies_that_are_too_much_are_refused(client: Client, record: Record, singles: int) -> None:
    bomb = gzip.compress(b'{"q": "' + b"a" * 2**24 + b'"}')
    fields = b"".join(
        b'--x\r\nContent-Disposition: form-data; name="f%d"\r\n\r\n1\r\n' % n for n in range(10_000)
    )
    many = "multipart/form-data; boundary=x"
    cases = {
        "10,000 fields": (post("/translate", fields + b"--x--\r\n", many), 400),
        "a gzip bomb": (post("/translate", bomb, more="Content-Encoding: gzip\r\n"), 400),
        "JSON 10,000 deep": (post("/translate", b"[" * 10_000), 400),
        "JSON 1,000,000 deep": (post("/translate", b'{"q":' * 1_000_000), 400),
        "1 GB announced": (
            b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n", 413,
        ),
    }  # fmt: skip
    for name, (data, status) in cases.items():
        begin = time.monotonic()
        with connected(client) as connection:
            connection.sendall(data)
            found = connection.recv(4096)
        record(f"{name}: {status} in {time.monotonic() - begin:.2f} s")
        assert found.startswith(b"HTTP/1.1 %d " % status), (name, found)
    part = b"10000\r\n" + b"a" * 2**16 + b"\r\n"
    found, sent = streamed(client, CHUNKED, part, 2**14)
    assert sent < 1000  # of 16,384; the limit of 10 MiB is 160 parts, and the network holds some
    assert not found or found.startswith(b"HTTP/1.1 413 ")
    begin = time.monotonic()
    found, sent = streamed(client, CHUNKED, b"1\r\na\r\n" * 1000, singles // 1000)
    record(f"{singles:,} bytes, each in a chunk of its own: {time.monotonic() - begin:.2f} s")
    assert found.split()[1] in (b"400", b"408", b"413")
    assert client.post("/translate", PAIR | {"q": "A dog."}).status == 200


# 21. Numbers

NUMBERS = ["-1", "0", "1000000", str(10**18), "NaN", '"8"', "null", "true"]


def test_numbers_that_make_no_sense_are_refused(client: Client, record: Record) -> None:
    times, statuses = [], Counter[int]()

    def ask(path: str, body: str) -> int:
        begin = time.monotonic()
        status = client.ask(path, body.encode(), JSON).status
        times.append(time.monotonic() - begin)
        statuses[status] += 1
        return status

    for number in NUMBERS:
        for name in ("alternatives", "n", "beam", "max_len", "batch"):
            expected = 200 if (name, number) == ("alternatives", "0") else 422
            body = f'{{"text": "12", "source": "en", "target": "en", "{name}": {number}}}'
            assert ask("/v1/translate", body) == expected, (name, number)
        # LibreTranslate takes a number as text, `true` as 1, or none.
        expected = 200 if number in ("0", '"8"', "null", "true") else 400
        body = f'{{"q": "12", "source": "en", "target": "en", "alternatives": {number}}}'
        assert ask("/translate", body) == expected, number
    record(f"{len(times)} requests with odd numbers: {dict(statuses)}, {max(times) * 1000:.0f} ms")


# 22. Clients that are gone


@pytest.mark.parametrize("count", mostly_slow([40, 200], [40]))
def test_clients_that_are_gone_cost_nothing(
    directory: Directory, record: Record, count: int
) -> None:
    with running(directory, limits=Limits(sentences=8)) as client:
        text = json.dumps(PAIR | {"q": "A dog runs.\n" * 200}).encode()
        gone = [connected(client) for _ in range(count)]
        for connection in gone:
            connection.sendall(post("/translate", text))
        until(lambda: client.scheduler.waiting > 0)
        for connection in gone:
            connection.close()
        seconds = until(lambda: client.scheduler.running + client.scheduler.waiting == 0)
        steps = client.scheduler.steps
        assert client.post("/translate", PAIR | {"q": "A dog."}).status == 200
    # Each request has 200 sentences, 8 in a batch at a time, of several steps each.
    record(f"{count} clients gone: nothing waits after {seconds:.2f} s and {steps} steps")
    assert steps < count * 25


# 23. Health


def test_health_tells_the_truth_when_a_decoding_thread_is_lost(
    directory: Directory, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler_module, "_WATCH_SECONDS", 0.5)
    model = directory.pairs["en", "de"].translator.model
    step, killed = model.step, threading.Event()

    def deadly(*given: object) -> object:
        if not killed.is_set():
            killed.set()
            raise SystemExit
        return step(*given)  # type: ignore[arg-type]

    with running(None) as client:
        assert (client.get("/livez").status, client.get("/readyz").status) == (200, 503)
    with running(directory, limits=Limits(sentences=1)) as client:
        assert (client.get("/livez").status, client.get("/readyz").status) == (200, 200)
        monkeypatch.setattr(model, "step", deadly)
        with ThreadPoolExecutor(6) as threads:
            asked = [
                threads.submit(client.post, "/translate", PAIR | {"q": "A dog runs."})
                for _ in range(6)
            ]
            unready = until(lambda: client.get("/readyz").status == 503)
            assert client.get("/livez").status == 200
            ready = until(lambda: client.get("/readyz").status == 200)
            counts = Counter(each.result(60).status for each in asked)
    record(f"a thread is lost: not ready after {unready:.2f} s, ready {ready:.2f} s later; 6 "
           f"requests: {dict(counts)}")  # fmt: skip
    assert counts == {503: 1, 200: 5}


# 24. Keys and errors

OPEN = {
    "/", "/docs", "/livez", "/readyz", "/health", "/languages", "/frontend/settings", "/v1/limits",
    "/spec", "/download_file/{name}", "/suggest", "/v1/openapi.json",
    "/v2/{path:path}", "/v3/{path:path}",
}  # fmt: skip
"""Paths that need no key (docs/serving.md); `/suggest` is off, and the last two answer 404."""


def test_every_route_that_costs_something_needs_a_key(directory: Directory, record: Record) -> None:
    with running(directory, keys=KEYS) as client:
        closed = Counter[int]()
        for route in make_app(client.state, client.scheduler).routes:
            if route.path in OPEN or route.path == "/page/{name}":
                continue
            for key in ({}, {"Authorization": "Bearer wrong"}):
                for method in sorted(route.methods or ()):
                    posts = method == "POST"
                    kind = JSON if posts else {}
                    found = client.ask(route.path, b"{}" if posts else None, kind | key)
                    message = str(found.json)
                    assert found.status in (400, 401, 403), (route.path, found)
                    assert "key" in message.lower() or "Authorization" in message, message
                    closed[found.status] += 1
        # With the key, the same requests come further.
        good = JSON | {"Authorization": "Bearer secret"}
        assert client.ask("/translate", b'{"q": "1", "source": "en", "target": "en"}', good).json
    record(f"requests without a key or with a wrong one: {dict(closed)}")
    assert sum(closed.values()) >= 14


@pytest.mark.parametrize("count", mostly_slow([100, 1000], [100]))
def test_errors_hold_no_paths_and_no_traces(client: Client, record: Record, count: int) -> None:
    """Requests that are wrong in one of many ways, with the number of the request in them."""
    wrong: list[Callable[[int], Answer]] = [
        lambda n: client.ask("/translate", b"{" * n, JSON),
        lambda n: client.post("/translate", {"q": "a", "source": f"x{n}", "target": "de"}),
        lambda n: client.post("/translate", PAIR | {"q": "a", "format": f"f{n}"}),
        lambda n: client.post("/translate", PAIR | {"q": "a", "alternatives": f"{n}a"}),
        lambda n: client.post("/v1/translate", {"text": n}),
        lambda n: client.post("/v1/translate", {"text": "a", f"n{n}": 1, "target": "de"}),
        lambda n: client.post("/v2/translate", {"text": ["a"], "target_lang": f"x{n}"}),
        lambda n: client.post("/translate_file", PAIR | {"file": n}),
        lambda n: client.get(f"/download_file/..%2f{n}"),
        lambda n: client.get(f"/download_file/{n}"),
        lambda n: client.post("/suggest", {"q": n}),
        lambda n: client.get(f"/nothing/{n}"),
        lambda n: client.ask("/translate", b"\xff" * n, {"Content-Type": "multipart/form-data"}),
    ]
    statuses = Counter[int]()
    for number in range(count):
        found = wrong[number % len(wrong)](number + 1)
        text = found.body.decode()
        statuses[found.status] += 1
        assert 400 <= found.status < 500, (number, found)
        assert not re.search(r"Traceback|\.py\b|line \d+, in|(/[a-z][\w.-]*){3,}", text), text
    record(f"{count} wrong requests: {dict(statuses)}; none shows a path or a trace")


# 25. Counts


def test_the_metrics_are_the_counts_of_the_clients(directory: Directory, record: Record) -> None:
    bodies = [
        ("/translate", PAIR | {"q": "A dog runs."}, 1),
        ("/translate", PAIR | {"q": ["A dog.", "Two dogs."]}, 2),
        ("/v1/translate", PAIR | {"text": "A dog. A cat."}, 2),
        ("/translate", PAIR | {"alternatives": "x", "q": "a"}, 0),
        ("/v1/translate", {"text": 1}, 0),
    ]
    with running(directory) as client:
        with ThreadPoolExecutor(8) as threads:
            done = list(threads.map(
                lambda n: (bodies[n % 5], client.post(*bodies[n % 5][:2]).status), range(100)
            ))  # fmt: skip
        text = client.get("/metrics").body.decode()
    expected = Counter((path, status) for (path, _, _), status in done)
    for (path, status), count in expected.items():
        line = f'crosshead_requests_total{{path="{path}",status="{status}"}} {count}.0\n'
        assert line in text
    sentences = sum(count for (_, _, count), status in done if status == 200)
    assert f"crosshead_sentences_total {sentences}.0\n" in text
    assert sentences == 100 and "crosshead_running 0.0\n" in text
    record(f"100 requests of 8 clients, {len(expected) + 1} counts: all equal")


# 26. The end


@pytest.mark.parametrize("count", mostly_slow([8, 40], [8]))
def test_all_requests_under_way_are_answered_before_the_end(record: Record, count: int) -> None:
    program = Program(str(BUNDLE), "--workers", "1", "--batch", "4")
    try:
        address = program.address()
        text = "\n".join(["A dog runs."] * 5)
        with ThreadPoolExecutor(count) as threads:
            asked = [threads.submit(program.translate, address, text) for _ in range(count)]
            until(lambda: _waiting(address) > 0)
            program.process.send_signal(signal.SIGTERM)
            begin = time.monotonic()
            found = {each.result() for each in asked}
            code = program.process.wait(60)
        seconds = time.monotonic() - begin
        host, port = address.removeprefix("http://").split(":")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)), timeout=10)
    finally:
        program.kill()
    record(f"SIGTERM with {count} requests under way: {count} answered, end in {seconds:.1f} s")
    assert code == 0 and len(found) == 1


def _waiting(address: str) -> float:
    import urllib.request

    with urllib.request.urlopen(f"{address}/metrics", timeout=30) as answer:
        found = re.search(r"^crosshead_waiting (\S+)$", answer.read().decode(), re.MULTILINE)
    assert found is not None
    return float(found[1])


# 27. The page


def test_the_page_runs_no_text_and_knows_no_ranges(client: Client, record: Record) -> None:
    page = ROOT / "crosshead" / "addons" / "serving" / "page"
    names = [path.name for path in page.iterdir() if path.suffix in (".css", ".mjs", ".svg")]
    paths = ["/", "/docs", *(f"/page/{name}" for name in names)]
    ranges = {
        "Range": "bytes=" + ",".join(f"{n}-{n}" for n in range(5_000))
    }  # headers have 64 KiB at most
    for path in paths:
        whole = client.get(path)
        policy = whole.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy
        found = client.get(path, ranges)
        assert (found.status, found.body) == (200, whole.body)
    record(f"{len(paths)} files of the page: a policy without unsafe sources, and no ranges")


@pytest.mark.parametrize("count", mostly_slow([20, 200], [20]))
def test_markup_in_a_text_comes_back_as_data(client: Client, record: Record, count: int) -> None:
    parts = (
        "<script>alert(%d)</script>", "<img src=x onerror=alert(%d)>", "\"><svg onload=alert(%d)>",
        "javascript:alert(%d)", "</title><script>alert(%d)</script>",
    )  # fmt: skip
    for number in range(count):
        text = parts[number % len(parts)] % number
        for path, values in (
            ("/translate", SAME | {"q": text}),
            ("/translate", {"q": "a", "source": text, "target": "de"}),
            ("/v1/translate", SAME | {"text": text}),
        ):
            found = client.post(path, values)
            assert found.headers["Content-Type"] == "application/json"
            assert found.headers["X-Content-Type-Options"] == "nosniff"
    record(f"{count} texts with markup, in three places each: all answers are JSON")


# 28. Privacy


@pytest.mark.parametrize("count", mostly_slow([200, 10_000], [200]))
def test_metrics_name_no_client_however_many_there_are(
    directory: Directory, record: Record, count: int
) -> None:
    with running(directory, per_minute=100_000) as client:
        sizes = []
        for number in range(count):
            address = f"192.0.{number // 250}.{number % 250}"
            headers = {"X-Forwarded-For": address, "Authorization": f"Bearer secret{number}"}
            client.post("/translate", SAME | {"q": f"a text {number}"}, headers)
            client.get(f"/made/up/{number}?q=secret{number}", headers)
            if number in (9, count - 1):
                sizes.append(client.get("/metrics").body.count(b"\n"))
        text = client.get("/metrics").body.decode()
    record(f"{count} clients: {sizes[0]} lines of metrics after ten of them, {sizes[1]} after all")
    # The first reading of the metrics is not in itself.
    assert sizes[1] <= sizes[0] + 20
    assert not re.search(r"192\.0\.|secret|made|a text", text)
