import contextlib
import http.client
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from crosshead.addons.look.server import LARGEST, Server
from crosshead.addons.look.session import Session
from tests.inspection.pipelines import pipeline_of

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    found = Server(Session({"small": pipeline_of("transformer")}), 0, "to be or")
    thread = threading.Thread(target=found.serve_forever)
    thread.start()
    yield found
    found.shutdown()
    found.server_close()
    thread.join()


def asked(
    server: Server, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
) -> tuple[int, Any]:
    """The status and the values of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    connection.request(method, path, body, headers or {})
    answer = connection.getresponse()
    read = answer.read()
    connection.close()
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    is_json = answer.headers["Content-Type"].startswith("application/json")
    return answer.status, json.loads(read) if is_json else read


def test_the_page_and_its_files_are_served(server: Server) -> None:
    assert b"<title>Look inside</title>" in asked(server, "GET", "/")[1]
    for name in server.files:
        assert asked(server, "GET", f"/page/{name}")[0] == 200
    for path in ("/page/", "/page/../server.py", "/look.html", "/base.css", "/x"):
        assert asked(server, "GET", path)[0] == 404


def test_the_models_and_the_first_text_are_told(server: Server) -> None:
    status, found = asked(server, "GET", "/models")
    assert status == 200 and found["text"] == "to be or" and len(found["models"]) == 1


def test_a_request_is_answered(server: Server) -> None:
    body = json.dumps({"ask": "trace", "text": "to be"})
    status, found = asked(server, "POST", "/ask", body, JSON)
    assert status == 200 and found["source"][:2] == ["t", "o"]


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/ask", "{", 400),
        ("/ask", "[" * 100_000, 400),
        ("/ask", b"\xff", 400),
        ("/ask", '{"ask": "trace", "text": ""}', 400),
        ("/else", "{}", 404),
    ],
)
def test_a_wrong_request_has_a_message(server: Server, path: str, body: Any, status: int) -> None:
    found, values = asked(server, "POST", path, body, JSON)
    assert found == status and values["error"]


def test_no_second_request_follows_a_refused_one(server: Server) -> None:
    """Its body may be a whole request of another site's making."""
    host = f"Host: 127.0.0.1:{server.server_port}\r\n"
    body = json.dumps({"ask": "trace", "text": "to be"})
    inner = f"POST /ask HTTP/1.1\r\n{host}Content-Type: application/json\r\n"
    inner += f"Content-Length: {len(body)}\r\n\r\n{body}"
    outer = f"POST /ask HTTP/1.1\r\n{host}Origin: http://evil.example\r\n"
    outer += f"Content-Type: text/plain\r\nContent-Length: {len(inner)}\r\n\r\n{inner}"
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=20) as connection:
        connection.sendall(outer.encode())
        answer = b""
        with contextlib.suppress(ConnectionError):
            while found := connection.recv(2**16):
                answer += found
    assert b"HTTP/1.0 403" in answer and b"200 OK" not in answer


def test_a_large_request_is_not_read(server: Server) -> None:
    headers = JSON | {"Content-Length": str(LARGEST + 1)}
    assert asked(server, "POST", "/ask", None, headers)[0] == 413


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Origin": "http://evil.example"},
        {"Content-Type": "text/plain"},
        {"Host": "127.0.0.1"},
    ],
)
def test_other_sites_get_nothing(server: Server, headers: dict[str, str]) -> None:
    body = json.dumps({"ask": "trace", "text": "to be"})
    assert asked(server, "POST", "/ask", body, JSON | headers)[0] == 403
    if "Host" in headers:
        assert asked(server, "GET", "/models", headers=headers)[0] == 403
