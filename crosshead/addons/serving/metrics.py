"""Counters of the server in Prometheus' format: no texts, keys or addresses."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from crosshead.addons.serving.scheduler import Scheduler


class Metrics:
    """The counters of one server."""

    def __init__(self, scheduler: Scheduler) -> None:
        kept = self._registry = CollectorRegistry()
        self.requests = Counter(
            "crosshead_requests", "Answered requests.", ["path", "status"], registry=kept
        )
        self.seconds = Histogram(
            "crosshead_request_seconds", "Time to answer a request.", ["path"], registry=kept
        )
        self.characters = Counter("crosshead_characters", "Translated characters.", registry=kept)
        self.sentences = Counter("crosshead_sentences", "Translated sentences.", registry=kept)
        for name, words, read in (
            ("waiting", "Sentences that wait.", lambda: scheduler.waiting),
            ("running", "Sentences in the running batches.", lambda: scheduler.running),
        ):
            Gauge(f"crosshead_{name}", words, registry=kept).set_function(read)
        kept.register(_Steps(scheduler))

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self._registry)


class _Steps(Collector):
    """The scheduler's own count of its steps, as a counter."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler

    def collect(self) -> Iterator[CounterMetricFamily]:
        yield CounterMetricFamily(
            "crosshead_decoding_steps", "Decoding steps of all batches.", self.scheduler.steps
        )
