"""A server on the loopback in a thread of the test process, and a plain client."""

import asyncio
import json
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="needs the extra `serve`")

from crosshead.addons.serving.directory import Directory
from crosshead.addons.serving.glossaries import Glossaries
from crosshead.addons.serving.keys import Keys, Rates
from crosshead.addons.serving.requests import Settings, State
from crosshead.addons.serving.scheduler import Limits, Scheduler
from crosshead.addons.serving.server import bound_socket, make_server
from crosshead.addons.serving.service import Service
from crosshead.addons.serving.stores import Metrics, Suggestions


@dataclass(frozen=True)
class Answer:
    """An answer over HTTP."""

    status: int
    headers: Any
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Client:
    """A client of a server, with nothing but the standard library."""

    address: str
    state: State
    scheduler: Scheduler

    def get(self, path: str, headers: dict[str, str] | None = None) -> Answer:
        return self.ask(path, None, headers or {})

    def post(self, path: str, values: object, headers: dict[str, str] | None = None) -> Answer:
        kind = {"Content-Type": "application/json"}
        return self.ask(path, json.dumps(values).encode(), kind | (headers or {}))

    def ask(
        self, path: str, data: bytes | None, headers: dict[str, str], method: str | None = None
    ) -> Answer:
        request = urllib.request.Request(self.address + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return Answer(answer.status, answer.headers, answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, error.headers, error.read())

    def exchange(self, data: bytes) -> bytes:
        """What the server sends back to bytes on a connection, until it closes it."""
        host, port = self.address.removeprefix("http://").split(":")
        found = b""
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            connection.sendall(data)
            with suppress(ConnectionResetError):  # the server has not read everything
                while part := connection.recv(4096):
                    found += part
        return found


@contextmanager
def running(
    directory: Directory | None,
    settings: Settings | None = None,
    limits: Limits | None = None,
    keys: Keys | None = None,
    suggestions: Suggestions | None = None,
    per_minute: int = 0,
    glossaries: Glossaries | None = None,
) -> Iterator[Client]:
    """A server in a thread; without a directory it is still loading."""
    scheduler = Scheduler(1, limits)
    state = State(
        settings or Settings(), Metrics(scheduler), Rates(per_minute), keys, suggestions,
        glossaries=glossaries or Glossaries(),
    )  # fmt: skip
    if directory is not None:
        state.service = Service(scheduler, directory)
    server = make_server(state, scheduler, drain=10)
    with bound_socket("127.0.0.1", 0) as listening:
        thread = threading.Thread(target=lambda: asyncio.run(server.serve([listening])))
        thread.start()
        try:
            while not server.started:
                time.sleep(0.002)
            yield Client(f"http://127.0.0.1:{listening.getsockname()[1]}", state, scheduler)
        finally:
            server.should_exit = True
            thread.join()
            scheduler.stop(10)
