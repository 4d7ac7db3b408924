"""nginx with a site of deploy/: on a free port of the loopback, before processes on any ports."""

import http.client
import json
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import ROOT

PROCESSES = ROOT / "deploy" / "nginx-processes.conf"

needs_nginx = pytest.mark.skipif(shutil.which("nginx") is None, reason="needs nginx")
needs_addresses = pytest.mark.skipif(
    sys.platform != "linux", reason="needs 127.0.0.2 and so on as addresses of this machine"
)


class Answer(NamedTuple):
    """An answer over HTTP."""

    status: int
    headers: dict[str, str]
    body: bytes


class Proxy(NamedTuple):
    """A running nginx, and clients of several addresses."""

    port: int

    def ask(self, path: str, body: bytes | None, kind: str, client: int) -> Answer:
        """Send a request from 127.0.0.CLIENT: a GET if there is no body, else a POST."""
        connection = http.client.HTTPConnection(
            "127.0.0.1", self.port, timeout=90, source_address=(f"127.0.0.{client}", 0)
        )
        try:
            headers = {} if body is None else {"Content-Type": kind}
            connection.request("GET" if body is None else "POST", path, body, headers)
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.getheaders()), answer.read())
        finally:
            connection.close()

    def get(self, path: str, client: int = 1) -> Answer:
        return self.ask(path, None, "", client)

    def post(self, path: str, values: object, client: int = 1) -> Answer:
        return self.ask(path, json.dumps(values).encode(), "application/json", client)


def configuration(site: str, folder: Path) -> Path:
    """The path of a whole configuration that has the site, and writes to the folder alone."""
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    places = " ".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
    main = f"daemon off; master_process off; pid {folder}/pid; error_log {folder}/errors;"
    whole = folder / "nginx.conf"
    whole.write_text(f"{main} events {{}} http {{ access_log off; {places}\n{site} }}")
    return whole


def with_ports(site: str, port: int, processes: Sequence[int]) -> str:
    """The site on another port of 127.0.0.1, before processes on other ports."""
    line = re.compile(r"^( *server 127\.0\.0\.1:)\d+(.*;)\n", re.MULTILINE)
    first = line.search(site)
    assert first is not None
    own = "".join(f"{first[1]}{each}{first[2]}\n" for each in processes)
    changed = site[: first.start()] + own + line.sub("", site[first.end() :])
    changed = changed.replace("listen [::]:80;", "")
    return changed.replace("listen 80;", f"listen 127.0.0.1:{port};")


@contextmanager
def running_nginx(folder: Path, processes: Sequence[int]) -> Iterator[Proxy]:
    """Run nginx with the site of several processes, before processes on these ports."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    text = with_ports(PROCESSES.read_text(), port, processes)
    nginx = subprocess.Popen(["nginx", "-p", str(folder), "-c", str(configuration(text, folder))])
    try:
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=10).close()
                break
            except ConnectionRefusedError:
                assert nginx.poll() is None, (folder / "errors").read_text()
                time.sleep(0.01)
        yield Proxy(port)
    finally:
        nginx.terminate()
        nginx.wait(30)
