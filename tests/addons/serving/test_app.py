"""Every route: health, keys, limits of bodies, headers, counts, gone clients."""

import hashlib
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="needs the extra `serve`")

from uvicorn.protocols.http.h11_impl import H11Protocol

from crosshead.addons.serving.directory import Directory
from crosshead.addons.serving.keys import ApiKey, Keys
from crosshead.addons.serving.requests import Settings
from crosshead.addons.serving.scheduler import Limits
from tests.addons.serving.loopback import Client, running

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


def test_a_body_that_does_not_arrive_is_given_up(directory: Directory) -> None:
    with running(directory, Settings(body_seconds=0.05)) as client:
        head = b"POST /detect HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nq=a"
        assert b" 408 " in raw(client, head)


def test_a_connection_is_read_in_small_parts(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    read = H11Protocol.data_received

    def noted(self: H11Protocol, data: bytes) -> None:
        sizes.append(len(data))
        read(self, data)

    monkeypatch.setattr(H11Protocol, "data_received", noted)
    head = (
        b"POST /detect HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n"
    )
    found = client.exchange(head + b"1\r\na\r\n" * 5000 + b"0\r\n\r\n")
    assert found.startswith(b"HTTP/1.1 400") and max(sizes) <= 4096


def test_the_work_of_a_client_that_has_gone_is_dropped(directory: Directory) -> None:
    with running(directory, limits=Limits(sentences=1)) as client:
        text = "A dog runs. " * 3000
        body = (f'{{"q": "{text}", "source": "en", "target": "de"}}').encode()
        host, port = client.address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as connection:
            head = f"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
            connection.sendall(f"{head}Content-Type: application/json\r\n\r\n".encode() + body)
            until(lambda: client.scheduler.running > 0)
        until(lambda: client.scheduler.waiting == 0 and client.scheduler.running == 0)
        assert client.scheduler.steps < 3000
        assert client.post("/translate", PAIR | {"q": "A dog."}).status == 200


def test_the_body_of_a_client_that_has_gone_is_not_read_to_its_end(directory: Directory) -> None:
    with running(directory) as client:
        body = b"q=" + b"%41" * 3_000_000
        before = children()
        host, port = client.address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as connection:
            kind = "Content-Type: application/x-www-form-urlencoded"
            head = f"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n{kind}"
            connection.sendall(f"{head}\r\n\r\n".encode() + body)
            until(lambda: children() - before)
        begin = time.monotonic()
        until(lambda: not children() - before)
        assert time.monotonic() - begin < 1


def children() -> set[str]:
    """The numbers of the processes that this process has started."""
    found = Path("/proc/self/task").glob("*/children")
    return {number for path in found for number in path.read_text().split()}


def test_the_deadline_of_a_request_begins_when_its_body_is_there(directory: Directory) -> None:
    body = "q=" + "%41" * 2_000_000 + "&source=en&target=de"
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    with running(directory, Settings(seconds=0.3)) as client:
        begin = time.monotonic()
        assert client.ask("/translate", body.encode(), kind).status == 503
        assert time.monotonic() - begin < 5


def until(condition) -> None:  # type: ignore[no-untyped-def]
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_an_error_has_the_form_of_its_dialect(client: Client) -> None:
    names = {"/nothing": None, "/v3/any": None, "/translate": "error", "/v1/translate": "error"}
    for path, name in (names | {"/v2/translate": "message"}).items():
        found = client.post(path, {})
        assert found.status >= 400
        assert found.body == b"Not Found" if name is None else list(found.json) == [name]


def test_an_error_shows_no_path_and_no_traceback(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(text: str) -> None:
        raise RuntimeError("/home/somebody/model is broken")

    assert client.state.service is not None
    monkeypatch.setattr(client.state.service.detector, "detect", broken)
    found = client.post("/detect", {"q": "a"})
    assert (found.status, found.json) == (500, {"error": "internal error"})
