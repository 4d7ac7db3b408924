"""The protocol: clients that are slow, and bytes that are no HTTP."""

import contextlib
import socket
import time

import pytest

pytest.importorskip("uvicorn", reason="needs the extra `serve`")

from crosshead.addons.serving import protocol as module
from crosshead.addons.serving.directory import Directory
from crosshead.addons.serving.requests import Settings
from crosshead.addons.serving.scheduler import Limits
from tests.addons.serving.loopback import Client, running
from tests.addons.serving.test_app import raw, until


@pytest.fixture(scope="module")
def directory(own_directory: Directory) -> Directory:
    """Of one engine: what these tests see is the same with both."""
    return own_directory


def closed_after(client: Client, begin: bytes, drip: bytes, most: float = 5.0) -> float | None:
    """The seconds until the server closes a connection into which bytes drip, or None."""
    host, port = client.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(begin)
        connection.settimeout(0.02)
        start = time.monotonic()
        while (passed := time.monotonic() - start) < most:
            try:
                if connection.recv(4096) == b"":
                    return passed
            except TimeoutError:
                connection.sendall(drip)
            except ConnectionError:
                return passed
    return None


def received(connection: socket.socket, end: bytes) -> bytes:
    """What has come up to an end: headers and body come one after the other."""
    found = b""
    while end not in found:
        part = connection.recv(4096)
        assert part, found
        found += part
    return found


BODY = b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"


@pytest.mark.parametrize(
    ("begin", "drip"),
    [
        (b"", b""),
        (b"GET /livez HTTP/1.1\r\nX: ", b"a"),
        (b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n", b"a"),  # the next request
        (BODY % b"/livez", b"a"),  # answered at once
        (BODY % b"/detect", b"a"),  # 408
    ],
    ids=["nothing", "headers", "next headers", "body after the answer", "body"],
)
def test_a_client_that_drips_is_closed(
    directory: Directory, monkeypatch: pytest.MonkeyPatch, begin: bytes, drip: bytes
) -> None:
    monkeypatch.setattr(module, "_HEADER_SECONDS", 0.3)
    with running(directory, Settings(body_seconds=0.3)) as client:
        found = closed_after(client, begin, drip)
        assert found is not None and 0.2 < found < 3
        assert client.get("/livez").status == 200


def test_a_body_may_take_longer_than_headers(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_HEADER_SECONDS", 0.1)
    body = b'{"q": "12", "source": "en", "target": "en"}'
    head = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    with running(directory) as client:
        host, port = client.address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            connection.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body))
            for place in range(len(body)):
                connection.sendall(body[place : place + 1])
                time.sleep(0.01)
            assert received(connection, b'{"translatedText":"12"}')


@pytest.mark.parametrize("slow", [True, False])
def test_a_client_that_does_not_take_its_answer_is_closed(
    directory: Directory, monkeypatch: pytest.MonkeyPatch, slow: bool
) -> None:
    monkeypatch.setattr(module, "_TAKE_SECONDS", 0.3)
    text = "12 " * (3 * 2**20)  # more than the buffers of the network hold
    body = b'{"q": "%s", "source": "en", "target": "en"}' % text.encode()
    head = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    with running(directory) as client, socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**16)
        host, port = client.address.removeprefix("http://").split(":")
        connection.connect((host, int(port)))
        connection.settimeout(30)
        connection.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        received = len(connection.recv(4096))
        time.sleep(2.0 if slow else 0.05)
        try:
            while part := connection.recv(2**20):
                received += len(part)
                if received > len(text):
                    break
        except ConnectionError:
            pass
        assert (received > len(text)) is not slow


def test_a_connection_whose_headers_do_not_arrive_is_closed(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_HEADER_SECONDS", 0.05)
    with running(directory) as client:
        assert raw(client, b"") == b""
        assert raw(client, b"POST /translate HTTP/1.1\r\nHost: ") == b""
        assert client.get("/livez").status == 200


@pytest.mark.parametrize("path", ["/translate", "/v1/translate"])
def test_a_body_in_tiny_chunks_is_refused_at_once(client: Client, path: str) -> None:
    counted = client.state.metrics.requests.labels(path, "400")._value.get
    before = counted()
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    answer = client.exchange(head + b"1\r\na\r\n" * 30_000)
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
    assert client.exchange(request_bytes).startswith(b"HTTP/1.1 400 ")
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
        assert received(connection, b"\r\n\r\nNot Found").startswith(b"HTTP/1.1 404 ")
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
        assert client.exchange(request * 4) == b""
        until(lambda: client.scheduler.waiting == 0 and client.scheduler.running == 0)
