"""Every route: health, keys, limits of bodies, headers, counts, gone clients."""

import contextlib
import hashlib
import socket
import time
from collections.abc import Iterator

import pytest

pytest.importorskip("uvicorn", reason="needs the extra `serve`")

from crosshead.serving import server as server_module
from crosshead.serving.directory import Directory
from crosshead.serving.keys import ApiKey, Keys
from crosshead.serving.requests import Settings
from crosshead.serving.scheduler import Limits
from tests.serving.loopback import Client, running

PAIR = {"source": "en", "target": "de"}
KEYS = Keys({hashlib.sha256(b"secret").hexdigest(): ApiKey("friend", 60)})


def test_a_server_that_loads_is_alive_but_not_ready() -> None:
    with running(None) as client:
        assert (client.get("/livez").status, client.get("/readyz").status) == (200, 503)
        for path in ("/health", "/languages", "/frontend/settings"):
            assert client.get(path).status == 503
        found = client.post("/translate", PAIR | {"q": "a"})
        assert found.status == 503 and found.headers["Retry-After"] == "5"


def test_headers_allow_other_origins_but_no_credentials(client: Client) -> None:
    for path in ("/languages", "/livez", "/nothing"):
        headers = client.get(path).headers
        assert headers["Access-Control-Allow-Origin"] == "*"
        assert "Access-Control-Allow-Credentials" not in headers


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/translate", "OPTIONS, POST"),
        ("/v1/translate", "OPTIONS, POST"),
        ("/v2/translate", "OPTIONS, POST"),
        ("/languages", "GET, HEAD, OPTIONS"),
        ("/download_file/a", "GET, HEAD, OPTIONS"),
    ],
)
def test_a_browser_may_ask_before_it_sends_from_another_origin(
    locked: Client, path: str, methods: str
) -> None:
    asks = {"Origin": "https://example.org", "Access-Control-Request-Method": "POST"}
    found = locked.ask(path, None, asks, "OPTIONS")
    assert (found.status, found.body, found.headers["Allow"]) == (204, b"", methods)
    assert found.headers["Access-Control-Allow-Origin"] == "*"
    assert "Content-Type" in found.headers["Access-Control-Allow-Headers"]
    assert "Authorization" in found.headers["Access-Control-Allow-Headers"]
    assert locked.ask("/nothing", None, asks, "OPTIONS").status == 404


@pytest.fixture(scope="module")
def locked(directory: Directory) -> Iterator[Client]:
    with running(directory, keys=KEYS) as client:
        yield client


def test_without_a_key_nothing_is_translated_or_told(locked: Client) -> None:
    message = {"error": "Please contact the server operator to get an API key"}
    for path in ("/translate", "/detect", "/translate_file"):
        found = locked.post(path, PAIR | {"q": "a"})
        assert (found.status, found.json) == (400, message)
    assert locked.post("/v1/translate", {}).status == 401
    assert locked.get("/metrics").status == 401
    assert locked.get("/livez").status == locked.get("/languages").status == 200


def test_a_key_opens_and_a_wrong_one_does_not(locked: Client) -> None:
    values = PAIR | {"q": "A dog."}
    assert locked.post("/translate", values | {"api_key": "secret"}).status == 200
    assert locked.post("/translate", values, {"Authorization": "Bearer secret"}).status == 200
    wrong = locked.post("/translate", values | {"api_key": "Secret"})
    assert (wrong.status, wrong.json) == (403, {"error": "Invalid API key"})


def test_too_many_requests_a_minute_are_told_when_to_come_back(directory: Directory) -> None:
    with running(directory, per_minute=2) as client:
        found = [client.post("/detect", {"q": "a"}) for _ in range(3)]
    assert [each.status for each in found] == [200, 200, 429]
    assert found[2].json["error"].startswith("Slowdown: ")
    assert 1 <= int(found[2].headers["Retry-After"]) <= 30


def test_a_proxy_on_this_machine_names_the_address_that_is_limited(directory: Directory) -> None:
    with running(directory, per_minute=1) as client:
        found = [
            client.post("/detect", {"q": "A dog"}, {"X-Forwarded-For": address}).status
            for address in ("192.0.2.1", "192.0.2.2", "192.0.2.1")
        ]
    assert found == [200, 200, 429]


def test_the_addresses_of_one_network_of_ipv6_are_limited_together(directory: Directory) -> None:
    with running(directory, per_minute=1) as client:
        found = [
            client.post("/detect", {"q": "A dog"}, {"X-Forwarded-For": address}).status
            for address in ("2001:db8::1", "2001:db8::ffff:1", "2001:db8:0:1::1")
        ]
    assert found == [200, 429, 200]


def test_a_full_queue_gives_503_and_a_deadline_too(directory: Directory) -> None:
    with running(directory, Settings(seconds=0.0)) as client:
        late = client.post("/translate", PAIR | {"q": "A dog."})
    with running(directory, limits=Limits(waiting=0)) as client:
        full = client.post("/translate", PAIR | {"q": "A dog."})
    assert (late.status, full.status) == (503, 503)
    assert late.headers["Retry-After"] and full.headers["Retry-After"]


def test_a_large_body_is_refused_before_it_is_read(directory: Directory) -> None:
    with running(directory, Settings(body=1000)) as client:
        told = client.post("/translate", PAIR | {"q": "a" * 2000})
        assert told.status == 413 and "larger than 1000 bytes" in told.json["error"]
        # One gigabyte is announced, and nothing of it is sent.
        found = raw(
            client, b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n"
        )
        assert b" 413 " in found.split(b"\r\n")[0]
        chunks = b"".join(b"1\r\na\r\n" for _ in range(1500))
        head = b"POST /translate HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        assert b" 413 " in raw(client, head + chunks).split(b"\r\n")[0]


def raw(client: Client, data: bytes, seconds: float = 30) -> bytes:
    """What the server sends back to bytes on a connection, until it closes or stops."""
    host, port = client.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=seconds) as connection:
        connection.sendall(data)
        return connection.recv(4096)


def test_a_connection_whose_headers_do_not_arrive_is_closed(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "_HEADER_SECONDS", 0.05)
    with running(directory) as client:
        assert raw(client, b"") == b""
        assert raw(client, b"POST /translate HTTP/1.1\r\nHost: ") == b""
        assert client.get("/livez").status == 200


def test_a_body_that_does_not_arrive_is_given_up(directory: Directory) -> None:
    with running(directory, Settings(body_seconds=0.05)) as client:
        head = b"POST /detect HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nq=a"
        assert b" 408 " in raw(client, head)


@pytest.mark.parametrize("more", [b"", b"\n"], ids=["", "after a further byte"])
def test_the_work_of_a_client_that_has_gone_is_dropped(directory: Directory, more: bytes) -> None:
    with running(directory, limits=Limits(sentences=1)) as client:
        text = "A dog runs. " * 3000
        body = (f'{{"q": "{text}", "source": "en", "target": "de"}}').encode()
        host, port = client.address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as connection:
            head = f"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
            connection.sendall(f"{head}Content-Type: application/json\r\n\r\n".encode() + body)
            until(lambda: client.scheduler.running > 0)
            connection.sendall(more)
        until(lambda: client.scheduler.waiting == 0 and client.scheduler.running == 0)
        assert client.scheduler.steps < 3000
        assert client.post("/translate", PAIR | {"q": "A dog."}).status == 200


def until(condition) -> None:  # type: ignore[no-untyped-def]
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_an_error_shows_no_path_and_no_traceback(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(text: str) -> None:
        raise RuntimeError("/home/somebody/model is broken")

    assert client.state.service is not None
    monkeypatch.setattr(client.state.service.detector, "detect", broken)
    found = client.post("/detect", {"q": "a"})
    assert (found.status, found.json) == (500, {"error": "internal error"})


def _answer_to(client: Client, request: bytes) -> bytes:
    place = client.address.removeprefix("http://").split(":")
    with socket.create_connection((place[0], int(place[1])), timeout=30) as connection:
        connection.sendall(request)
        found = b""
        with contextlib.suppress(ConnectionResetError):  # the server has not read everything
            while part := connection.recv(4096):
                found += part
        return found


def test_a_target_may_be_a_whole_url(client: Client) -> None:
    request = (
        b"GET HTTP://somewhere/livez?a=b HTTP/1.1\r\nHost: somewhere\r\nConnection: close\r\n\r\n"
    )
    answer = _answer_to(client, request)
    assert answer.startswith(b"HTTP/1.1 200 ") and answer.endswith(b"\r\n\r\nok\n")


@pytest.mark.parametrize("path", ["/translate", "/v1/translate"])
def test_a_body_in_tiny_chunks_is_refused_at_once(client: Client, path: str) -> None:
    counted = client.state.metrics.requests.labels(path, "400")._value.get
    before = counted()
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    answer = _answer_to(client, head + b"1\r\na\r\n" * 30_000)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"\r\nThe chunks of the body are too small.\r\n" in answer
    deadline = time.monotonic() + 10
    while counted() == before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert counted() == before + 1


@pytest.mark.parametrize(
    "request_bytes",
    [b"\x16\x03\x01\x02\r\n\r\n", b"POST /translate HTTP/1.1\r\nContent-Length: x\r\n\r\n"],
    ids=["no HTTP", "a wrong length"],
)
def test_what_is_no_http_is_counted(client: Client, request_bytes: bytes) -> None:
    def counted() -> float:
        found = client.state.metrics.requests.labels("other", "400")
        return float(found._value.get())

    before = counted()
    assert _answer_to(client, request_bytes).startswith(b"HTTP/1.1 400 ")
    assert counted() == before + 1


def test_garbage_after_an_answer_ends_the_connection_in_silence(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    counted = client.state.metrics.requests.labels("other", "400")._value.get
    before = counted()
    host, port = client.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        head = b"POST /nowhere HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        connection.sendall(head)
        assert connection.recv(4096).startswith(b"HTTP/1.1 404 ")
        connection.sendall(b"zz\r\n")
        with contextlib.suppress(ConnectionResetError):
            assert connection.recv(4096) == b""
    assert client.get("/livez").status == 200
    assert counted() == before and not caplog.records


def test_a_client_that_sends_much_before_its_answer_is_disconnected(directory: Directory) -> None:
    with running(directory, limits=Limits(sentences=1)) as client:
        body = b'{"q": "%s", "source": "en", "target": "de"}' % (b"A dog runs. " * 3000)
        head = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        request = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
        assert _answer_to(client, request * 4) == b""
        until(lambda: client.scheduler.waiting == 0 and client.scheduler.running == 0)
