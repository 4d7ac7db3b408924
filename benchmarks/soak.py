"""A server under a steady load of every kind of request: memory, descriptors, errors and counts.

    python benchmarks/soak.py BUNDLE FILE [OPTION...] > soak.md

FILE has sentences of the source language. Options that are not of this program go to
`crosshead serve`. A real server process and this client share the machine.
First clients that wait for their answers measure the peak. Then requests come at random times, at
a part of the peak. In the end the server's metrics are compared with the client's own counts.
"""

import argparse
import asyncio
import itertools
import random
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from harness import machine, progress, table
from load import (
    Answer,
    Load,
    Request,
    Server,
    counts_of,
    loaded,
    percentile,
    sentences_of,
    statuses,
)

_EVERY = 5.0
"""The seconds between two samples of the memory."""


def requests_of(lines: list[str], source: str, target: str) -> Iterator[Request]:
    """Requests of every kind, in random order, with texts that are all different."""
    pair = {"source": source, "target": target}
    for number in itertools.count():
        one, two = (f"{number} {line}" for line in random.sample(lines, 2))
        page = f"<p>{one}</p>\n<p>{two}</p>"
        size = len(one) + len(two)
        yield random.choices(
            [
                Request("/translate", pair | {"q": one}, None, 1, len(one)),
                Request("/translate", pair | {"q": [one, two]}, None, 2, size),
                Request("/translate", pair | {"q": page, "format": "html"}, None, 2, len(page)),
                Request("/translate", pair | {"q": one, "alternatives": 2}, None, 1, len(one)),
                Request("/v1/translate", pair | {"text": f"{one}\n{two}"}, None, 2, size + 1),
                Request("/v2/translate", {"text": [one], "target_lang": target.upper(),
                                          "source_lang": source.upper()}, None, 1, len(one)),
                Request("/translate_file", pair, page.encode(), 2, len(page)),
                Request("/detect", {"q": one}),
                Request("/languages"),
                Request("/docs"),
                Request("/translate", {"q": one}),  # 400: there are no languages
                Request("/v1/translate", {"text": 1}),  # 422
                Request("/made/up"),  # 404
            ],
            [40, 5, 5, 5, 10, 10, 2, 8, 4, 1, 4, 3, 3],
        )[0]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("--pair", default="en-de")
    parser.add_argument("--seconds", type=float, default=3600.0, help="of the load (default: 3600)")
    parser.add_argument("--share", type=float, default=0.7, help="of the peak (default: 0.7)")
    given, options = parser.parse_known_args()
    random.seed(1)
    source, target = given.pair.split("-")
    requests = requests_of(sentences_of(given.file), source, target)
    warm = min(30.0, given.seconds / 4)
    peaks: list[float] = []
    samples: list[tuple[int, int, int]] = []  # answers so far, memory, descriptors

    async def measure_peak(load: Load) -> None:
        await load.closed_loop(requests, 4, warm / 3)
        before, begin = len(load.answers), load.elapsed
        await load.closed_loop(requests, 16, warm)
        peaks.append((len(load.answers) - before) / (load.elapsed - begin))
        progress(f"peak: {peaks[0]:.1f} answers a second")

    async def soak(load: Load) -> None:
        sampling = asyncio.create_task(sample(load))
        await load.open_loop(requests, given.share * peaks[0], given.seconds)
        sampling.cancel()

    async def sample(load: Load) -> None:
        while True:
            samples.append((len(load.answers), server.resident, server.descriptors))
            await asyncio.sleep(min(_EVERY, given.seconds / 20))

    with Server(given.bundle, *options) as server:
        first = loaded(server.address, measure_peak)
        before = settled(server)
        second = loaded(server.address, soak)
        after = settled(server)
        counts = counts_of(server.address)
    answers = [*first.answers, *second.answers]
    differences = compared(counts, answers)
    print(machine())
    print(report(second.answers, peaks[0], given.seconds, samples, (before, after)))
    print(f"Counts of the metrics that differ from the client's: {len(differences)} of "
          f"{len(expected_counts(answers))}.")  # fmt: skip
    for line in differences:
        print(f"- {line}")


def settled(server: Server) -> int:
    """The descriptors once no connection has closed for two seconds."""
    found, since = server.descriptors, time.monotonic()
    while time.monotonic() < since + 2:
        time.sleep(0.1)
        if server.descriptors != found:
            found, since = server.descriptors, time.monotonic()
    return found


def expected_counts(answers: list[Answer]) -> dict[str, float]:
    """The metrics as the client's own counts."""
    known = ("/made/up", "other")
    asked = Counter((each.request.path.replace(*known), each.status) for each in answers)
    counts = {
        f'crosshead_requests_total{{path="{path}",status="{status}"}}': float(count)
        for (path, status), count in asked.items()
    }
    paths = Counter(each.request.path.replace(*known) for each in answers)
    counts |= {
        f'crosshead_request_seconds_count{{path="{path}"}}': float(count)
        for path, count in paths.items()
    }
    good = [each.request for each in answers if each.status == 200]
    counts["crosshead_sentences_total"] = float(sum(each.sentences for each in good))
    counts["crosshead_characters_total"] = float(sum(each.characters for each in good))
    return counts | {"crosshead_waiting": 0.0, "crosshead_running": 0.0}


def compared(counts: dict[str, float], answers: list[Answer]) -> list[str]:
    """The metrics that are not the client's counts, in either direction."""
    expected = expected_counts(answers)
    names = {name for name in counts if re.match("crosshead_request(s_total|_seconds_count)", name)}
    return [
        f"`{name}`: {counts.get(name)}, and the client counted {expected.get(name)}"
        for name in sorted(names | expected.keys())
        if counts.get(name) != expected.get(name)
    ]


def report(
    answers: list[Answer],
    peak: float,
    seconds: float,
    samples: list[tuple[int, int, int]],
    descriptors: tuple[int, int],
) -> str:
    """The results as a Markdown table."""
    times = [1000 * each.seconds for each in answers]
    asked, memory, _ = (np.array(column, float) for column in zip(*samples, strict=True))
    half = len(asked) // 2
    whole, later = (
        np.polyfit(asked[start:], memory[start:], 1)[0] * 10_000 / 2**20 for start in (0, half)
    )
    rows = [
        ["requests, and requests a second", f"{len(answers):,}, {len(answers) / seconds:.1f}"],
        ["peak, answers a second of this mixture", f"{peak:.1f}"],
        ["answers by status", statuses(answers)],
        ["answers of 500 and more, or none", f"{sum(not 0 < a.status < 500 for a in answers)}"],
        ["median, p99, largest ms", f"{percentile(times, 0.5):.0f}, {percentile(times, 0.99):.0f}, "
         f"{max(times):.0f}"],
        ["resident memory, first and last MiB",
         f"{memory[0] / 2**20:.1f}, {memory[-1] / 2**20:.1f}"],
        ["slope of the memory, MiB in 10,000 requests: all, second half",
         f"{whole:.2f}, {later:.2f}"],
        ["open descriptors without clients, before and after",
         f"{descriptors[0]}, {descriptors[1]}"],
    ]  # fmt: skip
    return table(["what", "result"], rows)


if __name__ == "__main__":
    main()
