"""Downloads from servers that mean ill: bounded in bytes, in memory and in time."""

import gzip
import hashlib
import random
import socket
import threading
import time
import tracemalloc
import zlib
from collections.abc import Callable, Iterator

import pytest

from crosshead.errors import DataError
from crosshead.system import remote
from crosshead.system.remote import RemoteFile, fetch

TEXT = "".join(f"line {number}\n" for number in range(2000)).encode()
OK = b"HTTP/1.1 200 OK\r\n"
Send = Callable[[bytes], object]
Answer = Callable[[Send, str], None]


class Server:
    """A server on this machine that answers each path as it is told, byte by byte."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._socket.settimeout(0.05)
        self.address = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.answers: dict[str, Answer] = {}
        self.stopped = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        threads = []
        while not self.stopped.is_set():
            try:
                connection, _ = self._socket.accept()
            except TimeoutError:
                continue
            threads.append(threading.Thread(target=self._reply, args=(connection,)))
            threads[-1].start()
        for thread in threads:
            thread.join()
        self._socket.close()

    def _reply(self, connection: socket.socket) -> None:
        connection.settimeout(5)
        with connection:
            try:
                request = b""
                while b"\r\n\r\n" not in request:
                    request += connection.recv(4096)
                path = request.split()[1].decode()
                self.answers[path](connection.sendall, self.address)
            except OSError:
                pass  # who asked has heard enough

    def close(self) -> None:
        self.stopped.set()
        self._thread.join()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "*")
    found = Server()
    yield found
    found.close()


def refusal(server: Server, answer: Answer, path: str = "/file") -> str:
    """What is said of an answer; it takes less than two megabytes more than the file."""
    server.answers[path] = answer
    file = RemoteFile("a.txt", server.address + path, len(TEXT), hashlib.sha256(TEXT).hexdigest())
    tracemalloc.start()
    try:
        with pytest.raises(DataError) as caught:
            fetch(file)
        assert tracemalloc.get_traced_memory()[1] < 2 * 10**6
    finally:
        tracemalloc.stop()
    return str(caught.value)


def body(data: bytes, *headers: bytes) -> Answer:
    head = OK + b"".join(header + b"\r\n" for header in headers)
    return lambda send, address: send(head + b"\r\n" + data)


def endless(chunk: bytes, *headers: bytes, pause: float = 0.0) -> Answer:
    def answer(send: Send, address: str) -> None:
        body(b"", *headers)(send, address)
        for _ in range(2000):
            send(chunk)
            time.sleep(pause)

    return answer


def to(where: str, code: int = 302, after: bytes = b"") -> Answer:
    def answer(send: Send, address: str) -> None:
        place = where.replace("HERE", address)
        send(f"HTTP/1.1 {code} Found\r\nLocation: {place}\r\n\r\n".encode())
        send(after)

    return answer


def bomb(size: int) -> bytes:
    """A gzip file of zeros, made without holding them."""
    packer = zlib.compressobj(9, wbits=31)
    parts = [packer.compress(bytes(1 << 20)) for _ in range(size >> 20)]
    return b"".join([*parts, packer.flush()])


def test_a_file_comes_whole_also_behind_redirects_and_in_several_parts(server: Server) -> None:
    half = len(TEXT) // 2
    server.answers |= {
        "/plain": body(TEXT, b"Content-Length: %d" % len(TEXT)),
        "/until-the-end": body(TEXT),
        "/there": to("/plain"),
        "/over-there": to("HERE/there", 308),
        "/packed.gz": body(gzip.compress(TEXT)),
        "/twice.gz": body(gzip.compress(TEXT[:half]) + gzip.compress(TEXT[half:])),
    }
    sha256 = hashlib.sha256(TEXT).hexdigest()
    for path in server.answers:
        assert fetch(RemoteFile("a", server.address + path, len(TEXT), sha256)) == TEXT


def test_a_body_without_an_end_is_left_at_once(server: Server) -> None:
    chunked = b"%x\r\n" % len(TEXT) + TEXT + b"\r\n"
    for answer in (
        endless(TEXT), endless(TEXT, b"Content-Length: 99999999999"),
        endless(chunked, b"Transfer-Encoding: chunked"),
    ):  # fmt: skip
        assert "its SHA-256 is" in refusal(server, answer)
    for packed in (gzip.compress(b""), gzip.compress(b"", mtime=0) * 100):
        refusal(server, endless(packed), "/file.gz")


def test_a_gzip_bomb_is_not_unpacked(server: Server) -> None:
    packed = bomb(64 << 20)
    assert len(packed) < 100_000
    for sent in (packed, gzip.compress(packed)):
        refusal(server, body(sent), "/file.gz")


def test_what_is_cut_or_is_another_file_is_refused(server: Server) -> None:
    length = b"Content-Length: %d" % len(TEXT)
    for sent in (TEXT[:100], TEXT[::-1], TEXT + b"x"):
        assert "its SHA-256 is" in refusal(server, body(sent))
    refusal(server, body(TEXT[:100], length))
    packed = gzip.compress(TEXT)
    for damaged in (packed[:-4], packed[:50], TEXT, b""):
        refusal(server, body(damaged), "/file.gz")


@pytest.mark.parametrize(
    "where", ["/file", "HERE/file?again", "file:///etc/passwd", "data:,text", "http://[::1"]
)
def test_redirects_lead_to_servers_and_not_in_circles(server: Server, where: str) -> None:
    server.answers["/file?again"] = to("HERE/file")
    refusal(server, to(where))


@pytest.mark.slow
def test_a_slow_server_is_given_up(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "LONGEST", 0.3)
    slow = endless(b"x", b"Content-Length: 9999", pause=0.001)
    assert "more than 0 seconds" in refusal(server, slow)
    monkeypatch.setattr(remote, "TIMEOUT", 0.2)
    assert "timed out" in refusal(server, lambda send, address: server.stopped.wait(1))


@pytest.mark.filterwarnings(
    "ignore::ResourceWarning"
)  # urllib leaves some sockets to the collector
def test_answers_that_are_no_http(server: Server) -> None:
    """Random bytes, with and without the beginning of an answer."""
    rng = random.Random(1)
    for number in range(60):
        noise = rng.randbytes(rng.randint(0, 300))
        start = (
            b"",
            b"HTTP/1.1 ",
            OK,
            OK + b"Content-Length: -1\r\n\r\n",
            OK + b"Transfer-Encoding: chunked\r\n\r\n",
        )
        answer = start[number % len(start)] + noise

        def send_it(send: Send, address: str, answer: bytes = answer) -> None:
            send(answer)

        refusal(server, send_it, "/file.gz" if number % 2 else "/file")
