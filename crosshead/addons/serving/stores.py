"""Data that the server keeps of requests: suggestions, translated files for an hour, and counts."""

import asyncio
import json
import os
import secrets
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import prometheus_client as prometheus
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from crosshead.addons.serving.scheduler import Scheduler
from crosshead.errors import UserError

_MOST_BYTES = 50 * 2**20
"""The largest size of a file of suggestions, and of all translated files, in bytes."""
_MOST_EACH = _MOST_BYTES // 10
"""The bytes of suggestions that the server takes from a client between two starts."""

_LEAST_SIZE = 512 * 2**10
"""The bytes for which a smaller translated file counts, so that there are 100 files at most."""

_SECONDS = 3600.0


class Suggestions:
    """Suggested translations, appended to a file of JSON Lines.

    A line that was cut off, by a full disk or a crash, is ended before another one follows.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._turn = asyncio.Lock()
        self._written: Counter[str] = Counter()  # bytes by client
        try:
            path.open("ab").close()
        except OSError as error:
            raise UserError(
                f"{path}: cannot be written: {error.strerror}; name another file of suggestions"
            ) from None

    async def add(self, client: str, source: str, target: str, text: str, suggestion: str) -> bool:
        """Write a suggestion; return False if the file is full, or the client's part of it."""
        values = {"source": source, "target": target, "q": text, "s": suggestion}
        line = (json.dumps(values, ensure_ascii=False) + "\n").encode("utf-8", "replace")
        async with self._turn:
            if self._written[client] + len(line) > _MOST_EACH:
                return False
            added = await asyncio.to_thread(self._append, line)
            self._written[client] += len(line) * added
        return added

    def _append(self, line: bytes) -> bool:
        with self._path.open("ab+") as lines:
            size = lines.seek(0, os.SEEK_END)
            lines.seek(max(0, size - 1))
            if lines.read() not in (b"", b"\n"):
                line = b"\n" + line
            if size + len(line) > _MOST_BYTES:
                return False
            lines.write(line)
        return True


class StoredFile(NamedTuple):
    """A translated file.

    Attributes:
        name: The name for the user's disk.
        data: Its content.
        client: The client that it is for.
        end: When it is forgotten, by `time.monotonic`.
    """

    name: str
    data: bytes
    client: str
    end: float


class Files:
    """Translated files in memory, by names that nobody can guess.

    If there are too many, the client whose files take the most memory loses its oldest one.
    """

    def __init__(self) -> None:
        self._files: dict[str, StoredFile] = {}

    def add(self, client: str, name: str, data: bytes) -> str:
        """Keep a file, and return its name in the address."""
        token = f"{secrets.token_hex(16)}.{name}"
        now = time.monotonic()
        added = StoredFile(name, data, client, now + _SECONDS)
        self._files = {key: each for key, each in self._files.items() if each.end > now}
        while self._files and _size(added) + sum(map(_size, self._files.values())) > _MOST_BYTES:
            sizes = Counter({client: _size(added)})
            for each in self._files.values():
                sizes[each.client] += _size(each)
            del self._files[max(self._files, key=lambda key: sizes[self._files[key].client])]
        self._files[token] = added
        return token

    def get(self, token: str) -> StoredFile | None:
        """Return a file, or None if it is not there any more."""
        found = self._files.get(token)
        return None if found is None or found.end <= time.monotonic() else found


def _size(file: StoredFile) -> int:
    return max(_LEAST_SIZE, len(file.data))


class Metrics:
    """The counters of one server."""

    def __init__(self, scheduler: Scheduler) -> None:
        kept = self._registry = prometheus.CollectorRegistry()
        self.requests = prometheus.Counter(
            "crosshead_requests", "Answered requests.", ["path", "status"], registry=kept
        )
        self.seconds = prometheus.Histogram(
            "crosshead_request_seconds", "Time to answer a request.", ["path"], registry=kept
        )
        self.characters = prometheus.Counter(
            "crosshead_characters", "Translated characters.", registry=kept
        )
        self.sentences = prometheus.Counter(
            "crosshead_sentences", "Translated sentences.", registry=kept
        )
        kept.register(_OfScheduler(scheduler))

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return prometheus.generate_latest(self._registry)


class _OfScheduler(Collector):
    """The scheduler's own counts."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("crosshead_waiting", "Sentences that wait.", self.scheduler.waiting)
        yield GaugeMetricFamily(
            "crosshead_running", "Sentences in the running batches.", self.scheduler.running
        )
        yield CounterMetricFamily(
            "crosshead_decoding_steps", "Decoding steps of all batches.", self.scheduler.steps
        )
