"""What the benchmarks of the server share: a server process, and requests at random times."""

import asyncio
import contextlib
import os
import random
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

CLIENTS = 50
"""The number of client addresses, which a proxy on this machine would name."""

_MOST_LINES = 100


class Server:
    """`crosshead serve` as a process, on a free port of 127.0.0.1.

    Ends with the `with` block, by SIGTERM.
    """

    def __init__(self, bundle: Path, *options: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "crosshead", "serve", str(bundle), "--port", "0", *options],
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        self._ready = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._ready.wait()
        found = [line.split("ready on ")[1].split()[0] for line in self.lines if "ready on" in line]
        if not found:
            raise SystemExit("".join(self.lines))
        self.address = found[0]

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines = [*self.lines[-_MOST_LINES:], line]
            if "ready on" in line:
                self._ready.set()
        self._ready.set()

    @property
    def resident(self) -> int:
        """The resident memory in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) * 1024

    @property
    def descriptors(self) -> int:
        """The number of open file descriptors."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def stop(self) -> int:
        """End the server, and return its exit code."""
        self.process.terminate()
        code = self.process.wait()
        self._reader.join()
        return code


@dataclass(frozen=True)
class Request:
    """A request of the load.

    Attributes:
        path: The path, as the metrics name it.
        values: The JSON object of a POST request; None is a GET request.
        file: A document to upload beside the values.
        sentences: The sentences that the server translates for it, if it answers with 200.
        characters: The characters that it counts.
    """

    path: str
    values: dict[str, Any] | None = None
    file: bytes | None = None
    sentences: int = 0
    characters: int = 0


@dataclass(frozen=True)
class Answer:
    """The answer to a request, as the client saw it.

    Attributes:
        request: The request.
        status: The HTTP status; 0 if there was no answer.
        begin: When the request was to be sent, in seconds since the load began.
        lag: The seconds by which it was sent later.
        seconds: The seconds from sending to the whole answer.
        retry: True if the answer has Retry-After.
        error: The text of an error.
    """

    request: Request
    status: int
    begin: float
    lag: float
    seconds: float
    retry: bool = False
    error: str = ""


@dataclass
class Load:
    """Clients that send requests, each with connections of its own, and note the answers."""

    clients: Sequence[httpx2.AsyncClient]
    answers: list[Answer] = field(default_factory=list)
    began: float = field(default_factory=time.perf_counter)

    @property
    def elapsed(self) -> float:
        """The seconds since the load began."""
        return time.perf_counter() - self.began

    async def send(self, request: Request, begin: float) -> Answer:
        """Send a request of a random client, and note its answer."""
        number = random.randrange(len(self.clients))
        headers, client = {"X-Forwarded-For": f"192.0.2.{number}"}, self.clients[number]
        sent = self.elapsed
        if request.values is None:
            work = client.get(request.path, headers=headers)
        elif request.file is not None:
            upload = {"file": ("page.html", request.file)}
            work = client.post(request.path, data=request.values, files=upload, headers=headers)
        else:
            work = client.post(request.path, json=request.values, headers=headers)
        try:
            found = await work
        except httpx2.HTTPError as error:
            status, retry, text = 0, False, type(error).__name__
        else:
            status, retry = found.status_code, "Retry-After" in found.headers
            text = "" if status == 200 else found.text
        ended = self.elapsed
        answer = Answer(request, status, begin, sent - begin, ended - sent, retry, text)
        self.answers.append(answer)
        return answer

    async def open_loop(self, requests: Iterator[Request], rate: float, seconds: float) -> None:
        """Send requests at random times, whether or not earlier ones are answered.

        Args:
            requests: The requests.
            rate: The mean number of requests a second; the gaps are exponential.
            seconds: How long. All answers are awaited.
        """
        begin = self.elapsed
        due = begin
        async with asyncio.TaskGroup() as sending:
            while True:
                due += random.expovariate(rate)
                if due > begin + seconds:
                    return
                await asyncio.sleep(max(0.0, due - self.elapsed))
                sending.create_task(self.send(next(requests), due))

    async def closed_loop(self, requests: Iterator[Request], clients: int, seconds: float) -> float:
        """Let clients send one request after the other; return the answers a second with 200."""
        begin = time.perf_counter()
        done = 0

        async def work() -> None:
            nonlocal done
            while time.perf_counter() < begin + seconds:
                answer = await self.send(next(requests), self.elapsed)
                done += answer.status == 200

        async with asyncio.TaskGroup() as sending:
            for _ in range(clients):
                sending.create_task(work())
        return done / (time.perf_counter() - begin)


def sentences_of(file: Path) -> list[str]:
    """The lines of a file that are surely one sentence, without the mark at their end."""
    lines = [line.strip().rstrip(".!?") for line in file.read_text("utf-8").splitlines()]
    return [line for line in lines if line and not re.search(r"[.!?…:<>&]", line)]


def loaded(address: str, work: Callable[[Load], Any], timeout: float = 120.0) -> Load:
    """Run work with a client, close its connections, and return the client with its answers."""

    async def run() -> Load:
        async with contextlib.AsyncExitStack() as closing:
            limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
            clients = [
                await closing.enter_async_context(
                    httpx2.AsyncClient(
                        base_url=address, limits=limits, timeout=timeout, verify=False
                    )
                )
                for _ in range(CLIENTS)
            ]
            load = Load(clients)
            await work(load)
            return load

    return asyncio.run(run())


def counts_of(address: str) -> dict[str, float]:
    """The metrics of a server."""
    text = httpx2.get(f"{address}/metrics", timeout=30).text
    found = re.findall(r"^(crosshead_\w+(?:\{[^}]*\})?) (\S+)$", text, re.MULTILINE)
    return {name: float(value) for name, value in found}


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which a share of the values lies; 0 without values."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(share * len(ranked)))] if ranked else 0.0


def statuses(answers: Sequence[Answer]) -> str:
    """Count the answers by status."""
    found = sorted(Counter(each.status for each in answers).items())
    return ", ".join(f"{status or 'no answer'}: {count:,}" for status, count in found)
