"""The pace of a scheduler: its work a second while sentences wait."""

import math

_MEMORY = 10.0
"""The seconds after which a measurement counts for a third (1/e)."""

_LEAST_SECONDS, _FEWEST = 1.0, 64
"""Seconds and sentences from which on the pace is known. Before, a batch that fills up looks slow:
its sentences end late and together."""


class Pace:
    """A moving average of the work a second.

    Only what is done while sentences wait counts, because a batch that is not full does less.
    """

    def __init__(self) -> None:
        self._work = self._seconds = 0.0
        self._finished = 0

    def add(self, work: float, finished: int, seconds: float) -> None:
        """Count work.

        Args:
            work: The work of the sentences that were finished.
            finished: The number of these sentences.
            seconds: The time that it took.
        """
        kept = math.exp(-seconds / _MEMORY)
        self._work = kept * self._work + work
        self._seconds = kept * self._seconds + seconds
        self._finished += finished

    @property
    def rate(self) -> float | None:
        """The work a second, or None if too little was done."""
        if self._seconds < _LEAST_SECONDS or self._finished < _FEWEST:
            return None
        return self._work / self._seconds
