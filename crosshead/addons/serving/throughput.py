"""The throughput of a scheduler: its work a second while sentences wait."""

import math
import time

_MEMORY = 10.0
"""The seconds after which a measurement counts for a third (1/e)."""

_LEAST_SECONDS, _FEWEST = 1.0, 64
"""Seconds and sentences from which on the throughput is known. Before, a batch that fills up looks
slow: its sentences end late and together."""

_OLD_SECONDS = 600.0
"""The seconds without a measurement after which the throughput is unknown again. What else the
machine did then says nothing about now, and a text that is refused as too long is tried again."""


class Throughput:
    """A moving average of the work a second.

    The unit of work is that of `Sentence.cost`: (source tokens + 1) x beam. Only what is done while
    sentences wait counts, because a batch that is not full does less.
    """

    def __init__(self) -> None:
        self._work = self._seconds = 0.0
        self._finished = 0
        self._last = time.monotonic()

    def add(self, work: float, finished: int, seconds: float) -> None:
        """Count work."""
        if self._old:
            self._work, self._seconds, self._finished = 0.0, 0.0, 0
        kept = math.exp(-seconds / _MEMORY)
        self._work = kept * self._work + work
        self._seconds = kept * self._seconds + seconds
        self._finished += finished
        self._last = time.monotonic()

    @property
    def rate(self) -> float | None:
        """The work a second, or None if too little was done lately."""
        if self._seconds < _LEAST_SECONDS or self._finished < _FEWEST or self._old:
            return None
        return self._work / self._seconds

    @property
    def _old(self) -> bool:
        return time.monotonic() - self._last > _OLD_SECONDS
