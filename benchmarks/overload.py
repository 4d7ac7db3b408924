"""A server with ten times the requests that it can answer: refusals, latency, goodput, memory.

    python benchmarks/overload.py BUNDLE FILE [OPTION...] > overload.md

FILE has sentences of the source language. Options that are not of this program go to
`crosshead serve`. A real server process and this client share the machine.
First clients that wait for their answers measure the peak. Then requests come at random times, ten
times as many a second as the peak, whether or not earlier ones are answered.
"""

import argparse
import itertools
import random
import statistics
from collections.abc import Iterator
from pathlib import Path

from harness import machine, progress, table
from load import Answer, Load, Request, Server, loaded, percentile, sentences_of, statuses


def requests_of(lines: list[str], source: str, target: str, count: int) -> Iterator[Request]:
    """Requests of some lines each, in random order; a number makes the texts distinct."""
    for number in itertools.count():
        text = "\n".join([str(number), *random.sample(lines, count)])
        values = {"q": text, "source": source, "target": target}
        yield Request("/translate", values, None, count + 1, len(text))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("--pair", default="en-de")
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="of the open loop (default: 60)"
    )
    parser.add_argument("--lines", type=int, default=20, help="of each request (default: 20)")
    parser.add_argument("--times", type=float, default=10.0, help="of the peak (default: 10)")
    parser.add_argument("--deadline", type=float, default=10.0, help="the server's --timeout")
    given, options = parser.parse_known_args()
    random.seed(1)
    source, target = given.pair.split("-")
    requests = requests_of(sentences_of(given.file), source, target, given.lines)
    options.append(f"--timeout={given.deadline}")
    peaks: list[float] = []
    resident: list[int] = []

    async def work(load: Load) -> None:
        clients = max(2, 128 // (given.lines + 1))  # enough to fill a batch of 32 sentences
        await load.closed_loop(requests, clients, min(5.0, given.seconds))
        peaks.append(await load.closed_loop(requests, clients, given.seconds / 2))
        progress(f"peak: {peaks[0]:.2f} answers a second")
        resident.append(server.resident)
        load.answers.clear()
        await load.open_loop(requests, given.times * peaks[0], given.seconds)
        resident.append(server.resident)

    with Server(given.bundle, *options) as server:
        load = loaded(server.address, work, 4 * given.deadline)
        alive = server.process.poll() is None
        code = server.stop()
    print(machine())
    print(report(load.answers, peaks[0], resident, given.seconds, given.deadline))
    print(f"The server was alive at the end: {alive}; exit code after SIGTERM: {code}.")


def report(
    answers: list[Answer], peak: float, resident: list[int], seconds: float, deadline: float
) -> str:
    """The results as a Markdown table."""
    good = [each for each in answers if each.status == 200]
    late = [each for each in answers if "took longer than" in each.error]
    refused = [each for each in answers if each.status in (429, 503) and each not in late]
    other = len(answers) - len(good) - len(late) - len(refused)
    ends = [each.begin + each.lag + each.seconds for each in answers]
    goodput = len(good) / (max(ends) - min(each.begin for each in answers))
    before, after = resident
    rows = [
        ["requests, and requests a second", f"{len(answers):,}, {len(answers) / seconds:.0f}"],
        ["peak, answers a second", f"{peak:.2f}"],
        ["answers by status", statuses(answers)],
        ["neither 200 nor a 429 or 503", f"{other}"],
        ["429 and 503 without Retry-After", f"{sum(not each.retry for each in refused + late)}"],
        ["refused at once: median, p99, largest ms", milliseconds(refused)],
        ["answered with 200: median, p99, largest ms", milliseconds(good)],
        ["deadline, ms", f"{1000 * deadline:.0f}"],
        ["missed the deadline after waiting", f"{len(late)}"],
        ["goodput until the last answer, answers a second and part of the peak",
         f"{goodput:.2f}, {goodput / peak:.0%}"],
        ["resident memory before and after, MiB, growth",
         f"{before / 2**20:.0f}, {after / 2**20:.0f}, {after / before - 1:.1%}"],
        ["client: p99 of the lag of a request, ms",
         f"{1000 * percentile([each.lag for each in answers], 0.99):.0f}"],
    ]  # fmt: skip
    return table(["what", "result"], rows)


def milliseconds(answers: list[Answer]) -> str:
    """The median, the 99th percentile and the largest time."""
    times = [1000 * each.seconds for each in answers] or [0.0]
    return f"{statistics.median(times):.0f}, {percentile(times, 0.99):.0f}, {max(times):.0f}"


if __name__ == "__main__":
    main()
