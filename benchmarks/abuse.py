"""A server with bad clients beside a good one: the good one's times, and the server's memory.

    python benchmarks/abuse.py BUNDLE FILE [OPTION...] > abuse.md

FILE has sentences of the source language. Options that are not of this program go to
`crosshead serve`. The good client sends one sentence after the other, from random addresses. The
bad clients run in another process. Server and clients share the machine.
"""

import argparse
import contextlib
import gzip
import itertools
import json
import multiprocessing
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from harness import machine, mebibytes, progress, table
from load import Load, Request, Server, loaded, percentile, sentences_of, statuses

Place = tuple[str, int]
"""The host and the port of the server."""

_GONE = 20
"""The number of clients that leave together."""


class Phase(NamedTuple):
    """The good client's measurements in one phase."""

    seconds: list[float]
    statuses: str
    growth: int
    """The largest growth of the server's resident memory, in bytes."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], allow_abbrev=False
    )  # fmt: skip
    parser.add_argument("bundle", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("--pair", default="en-de")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each phase (default: 30)")
    parser.add_argument(
        "--pause", type=float, default=1.0, help="seconds between two attacks (default: 1)"
    )
    given, options = parser.parse_known_args()
    random.seed(1)
    source, target = given.pair.split("-")
    pair = {"source": source, "target": target}
    lines = sentences_of(given.file)
    requests = requests_of(lines, pair)
    kinds: dict[str, Callable[[Place], None] | None] = {"warm-up": None, "quiet": None}
    kinds |= {name: partial(send, data) for name, data in bodies().items()}
    kinds |= {
        "1 GB in chunks of 64 KiB": partial(stream, b"10000\r\n" + b"a" * 2**16 + b"\r\n", 2**14),
        "3 MiB in chunks of one byte": partial(stream, b"1\r\na\r\n" * 1024, 3 * 2**10),
        f"{_GONE} clients at a time that leave during their requests of 100 sentences": partial(
            leave, body_of(random.sample(lines, 100), pair)
        ),
        "quiet again": None,
    }
    phases: dict[str, Phase] = {}
    with Server(given.bundle, *options) as server:
        for name, kind in kinds.items():
            phases[name] = measured(server, requests, kind, given.seconds, given.pause)
            shown = f"p99 {1000 * percentile(phases[name].seconds, 0.99):.1f} ms"
            progress(f"{name}: {shown}, {phases[name].statuses}")
    del phases["warm-up"]
    print(machine())
    print(report(phases))


def requests_of(lines: list[str], pair: Mapping[str, str]) -> Iterator[Request]:
    """Requests of one sentence each, which are all different."""
    for number in itertools.count():
        line = f"{number} {random.choice(lines)}"
        yield Request("/translate", {**pair, "q": line}, None, 1, len(line))


def body_of(lines: list[str], pair: Mapping[str, str]) -> bytes:
    """A whole request for the translation of lines."""
    return posted(json.dumps({**pair, "q": "\n".join(lines)}).encode())


def posted(body: bytes, kind: str = "application/json", more: str = "") -> bytes:
    """The bytes of a request."""
    head = f"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\n{more}"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def bodies() -> dict[str, bytes]:
    """Requests that are refused, by what is wrong with them."""
    part = b'--x\r\nContent-Disposition: form-data; name="f%d"\r\n\r\n1\r\n'
    fields = b"".join(part % number for number in range(10_000)) + b"--x--\r\n"
    bomb = gzip.compress(b'{"q": "' + b"a" * 2**24 + b'"}')
    head = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n"
    return {
        "forms of 10,000 fields": posted(fields, "multipart/form-data; boundary=x"),
        "gzip bombs of 16 MiB": posted(bomb, more="Content-Encoding: gzip\r\n"),
        "JSON 1,000,000 deep": posted(b'{"q":' * 1_000_000),
        "1 GB announced": head,
    }


def send(data: bytes, place: Place) -> None:
    """Send bytes, and read the answer."""
    with socket.create_connection(place) as connection:
        connection.sendall(data)
        connection.recv(4096)


def stream(part: bytes, count: int, place: Place) -> None:
    """Send a body in parts until the server refuses it."""
    head = b"POST /translate HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    with socket.create_connection(place) as connection:
        connection.sendall(head)
        for _ in range(count):
            connection.sendall(part)
        connection.sendall(b"0\r\n\r\n")
        connection.recv(4096)


def leave(data: bytes, place: Place) -> None:
    """Send requests, and leave before they are answered."""
    with contextlib.ExitStack() as closing:
        for _ in range(_GONE):
            closing.enter_context(socket.create_connection(place)).sendall(data)


def repeat(kind: Callable[[Place], None], place: Place, pause: float) -> None:
    """Repeat an attack until the process is killed."""
    while True:
        with contextlib.suppress(ConnectionError):  # refused, and closed
            kind(place)
        time.sleep(pause)


def measured(
    server: Server,
    requests: Iterator[Request],
    kind: Callable[[Place], None] | None,
    seconds: float,
    pause: float,
) -> Phase:
    """Measure the good client during an attack, or without one."""
    before = server.resident
    largest, enough = [before], threading.Event()

    def watch() -> None:
        while not enough.wait(0.02):
            largest[0] = max(largest[0], server.resident)

    async def work(load: Load) -> None:
        await load.closed_loop(requests, 1, seconds)

    bad = None
    if kind is not None:
        host, port = server.address.removeprefix("http://").split(":")
        bad = multiprocessing.Process(target=repeat, args=(kind, (host, int(port)), pause))
        bad.start()
    watcher = threading.Thread(target=watch)
    watcher.start()
    answers = loaded(server.address, work).answers
    enough.set()
    watcher.join()
    if bad is not None:
        if not bad.is_alive():
            raise SystemExit("the bad clients have ended by themselves")
        bad.kill()
        bad.join()
    times = [each.seconds for each in answers if each.status == 200]
    return Phase(times, statuses(answers), largest[0] - before)


def report(phases: Mapping[str, Phase]) -> str:
    """The results as a Markdown table."""
    usual = percentile(phases["quiet"].seconds, 0.99)
    rows = []
    for name, each in phases.items():
        median, p99 = percentile(each.seconds, 0.5), percentile(each.seconds, 0.99)
        times = f"{1000 * median:.1f}, {1000 * p99:.1f}" if each.seconds else "no answer"
        ratio = f"{p99 / usual:.2f}" if usual and each.seconds else ""
        rows.append([name, each.statuses, times, ratio, mebibytes(each.growth)])
    header = ["bad clients", "answers", "median, p99 ms", "p99 over quiet", "growth, MiB"]
    return table(header, rows)


if __name__ == "__main__":
    main()
