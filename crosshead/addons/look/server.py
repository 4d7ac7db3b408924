"""The server of the page, for one person on this machine."""

import contextlib
import json
import socket
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from crosshead.addons.look.session import Session
from crosshead.errors import UserError
from crosshead.system.web import HEADERS, page_files

LARGEST = 2**20
"""The largest body of a request, in bytes."""


class Server(ThreadingHTTPServer):
    """Serves the page, with a text to begin with, and the answers of a session on 127.0.0.1."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, session: Session, port: int, text: str) -> None:
        self.session, self.text = session, text
        self.files = page_files("crosshead.inspection")
        super().__init__(("127.0.0.1", port), _Handler)
        self.names = {f"{host}:{self.server_port}" for host in ("127.0.0.1", "localhost")}


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Server  # HTTP/1.0: no connection has a second request that a refused body could hold

    def setup(self) -> None:
        """Send each answer at once."""
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def do_GET(self) -> None:
        """Send a file of the page, or what the models are."""
        name = "look.html" if self.path == "/" else self.path.removeprefix("/page/")
        if not self._is_own():
            self._send(403, {"error": "open the page by the address that crosshead has printed"})
        elif self.path == "/models":
            self._send(200, {"models": self.server.session.models, "text": self.server.text})
        elif name in self.server.files and name != self.path:
            file = self.server.files[name]
            self._send(200, file.content, file.kind)
        else:
            self._send(404, {"error": "there is no such file"})

    def do_POST(self) -> None:
        """Answer a request of the page."""
        length = self.headers.get("Content-Length", "")
        if not self._is_own() or self.headers.get("Content-Type") != "application/json":
            self._send(403, {"error": "only the page itself may ask"})
        elif self.path != "/ask":
            self._send(404, {"error": "there is no such path"})
        elif not length.isdecimal() or len(length) > 9 or int(length) > LARGEST:
            self._send(413, {"error": f"the request is too large; at most {LARGEST:,} bytes"})
        else:
            try:
                values = json.loads(self.rfile.read(int(length)))
                self._send(200, self.server.session.answer(values))
            except UserError as error:
                self._send(400, {"error": str(error)})
            except (ValueError, RecursionError):
                self._send(400, {"error": "the request is not JSON"})

    def _is_own(self) -> bool:
        """Return whether the page of this server asks, and not one of another site."""
        origin = self.headers.get("Origin", "").removeprefix("http://")
        host = self.headers.get("Host", "")
        return host in self.server.names and origin in ("", host)

    def _send(self, status: int, content: Any, kind: str = "application/json") -> None:
        """Send an answer."""
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        headers = {"Content-Type": f"{kind}; charset=utf-8", "Content-Length": str(len(body))}
        for header, value in (HEADERS | headers | {"X-Content-Type-Options": "nosniff"}).items():
            self.send_header(header, value)
        with contextlib.suppress(ConnectionError):  # the tab may be closed
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Keep quiet: the terminal is for the person."""
