"""Latency of small requests beside a large one: quiet, then while another client sends it.

    python benchmarks/large_requests.py runs/dates [--seconds 20] [--engine crosshead]

Each kind of large request (10 MiB) is sent again as soon as it is answered, for the given seconds.
Meanwhile one client asks `/livez`, and another has single sentences translated, each with a new
connection. The ratio compares with the seconds before, without a large request.
"""

import argparse
import json
import statistics
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable

SIZE = 10 * 2**20


def post(address: str, body: bytes, kind: str = "application/json", client: int = 1) -> int:
    """Ask for a translation as a client with an address of its own; return the status."""
    headers = {"Content-Type": kind, "X-Forwarded-For": f"192.0.2.{client}"}
    request = urllib.request.Request(f"{address}/translate", body, headers)
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            answer.read()
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def text(q: str, **values: str) -> bytes:
    return json.dumps({"q": q, "source": "en", "target": "de"} | values).encode()


def subtitles() -> str:
    cue = "{0}\n0:00:01,0 --> 0:00:02,0\nMay 5\n\n"
    return "".join(map(cue.format, range(1, 200_001)))


def large() -> dict[str, Callable[[str], int]]:
    nested = b",".join([b"[" * 900 + b"]" * 900] * (SIZE // 1810))
    words = text("word " * 2_090_000)
    bodies = {
        "subtitles, 200,000 cues": text(subtitles(), format="srt"),
        "one line of 2.1 million words": words,
        "lines of one letter": text("a\n" * (SIZE // 4)),
        "nested JSON": b'{"q": [' + nested + b"]}",
    }
    found = {name: lambda address, body=body: post(address, body) for name, body in bodies.items()}
    form = b"source=en&target=de&q=" + b"%41" * (SIZE // 3 - 100)
    kind = "application/x-www-form-urlencoded"
    found["form of escapes"] = lambda address: post(address, form, kind)
    return found


def ask(seconds: float, once: Callable[[], None]) -> list[float]:
    """Call a function again and again, and return how long each call took in milliseconds."""
    took, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        begin = time.perf_counter()
        once()
        took.append(1000 * (time.perf_counter() - begin))
        time.sleep(0.01)
    return took


def measured(address: str, seconds: float) -> dict[str, list[float]]:
    """Return the milliseconds of the small requests of both clients."""

    def livez() -> None:
        urllib.request.urlopen(f"{address}/livez", timeout=120).read()

    def sentence() -> None:
        post(address, text("Friday, March 5, 2021"), client=2)

    found: dict[str, list[float]] = {}
    clients = [
        threading.Thread(
            target=lambda name=name, once=once: found.update({name: ask(seconds, once)})
        )
        for name, once in (("/livez", livez), ("sentence", sentence))
    ]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    return found


def shown(took: list[float]) -> str:
    return f"p50 {statistics.median(took):7.1f}  p99 {percentile(took):7.1f}  max {max(took):7.1f}"


def percentile(took: list[float]) -> float:
    return sorted(took)[int(0.99 * (len(took) - 1))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bundle")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--engine", default="crosshead")
    values = parser.parse_args()
    command = [sys.executable, "-m", "crosshead", "serve", f"en-de={values.bundle}"]
    server = subprocess.Popen(
        [*command, "--port", "5097", "--engine", values.engine], stderr=subprocess.PIPE, text=True
    )
    assert server.stderr is not None
    for line in server.stderr:
        if "ready on" in line:
            break
    threading.Thread(target=server.stderr.read, daemon=True).start()
    address = "http://127.0.0.1:5097"
    try:
        measured(address, 2.0)
        quiet = measured(address, values.seconds)
        for name, took in quiet.items():
            print(f"{'quiet':32}{name:10}{shown(took)}")
        for kind, send in large().items():
            ended = threading.Event()
            statuses: list[int] = []

            def hog(send: Callable[[str], int] = send, ended: threading.Event = ended) -> None:
                while not ended.is_set():
                    statuses.append(send(address))  # noqa: B023

            thread = threading.Thread(target=hog)
            thread.start()
            for name, took in measured(address, values.seconds).items():
                ratio = percentile(took) / percentile(quiet[name])
                print(f"{kind:32}{name:10}{shown(took)}  ratio of p99 {ratio:.2f}", flush=True)
            ended.set()
            thread.join()
            print(f"{'':32}answers {sorted(set(statuses))}, {len(statuses)} requests")
            time.sleep(2)
    finally:
        server.terminate()
        begin = time.monotonic()
        print(f"exit code {server.wait()}, {time.monotonic() - begin:.1f} s after SIGTERM")


if __name__ == "__main__":
    main()
