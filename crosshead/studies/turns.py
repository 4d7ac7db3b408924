"""Times of several computations in turns: round after round, so that all see the same machine."""

import statistics
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import torch

from crosshead.studies.study import number

K = TypeVar("K", bound=Hashable)


class Ratio(NamedTuple):
    """A ratio of times over several rounds."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{number(self.median)} ({number(self.low)} to {number(self.high)})"


def in_turns(
    calls: Mapping[K, Callable[[], object]], rounds: int, seconds: float
) -> dict[K, list[float]]:
    """Measure the seconds of one call of each computation, in every round.

    Each is called once before, so that kernels are chosen and memory is taken. In every second
    round the order is turned around.

    Args:
        calls: The computations by name.
        rounds: The number of rounds.
        seconds: In a round each computation is repeated for so long at least.

    Returns:
        By name, the mean seconds of a call in each round.
    """
    found: dict[K, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for each in range(rounds):
        for name in list(calls)[:: -1 if each % 2 else 1]:
            found[name].append(_mean_seconds(calls[name], seconds))
    return found


def _mean_seconds(call: Callable[[], object], least: float) -> float:
    _wait()
    began, count = time.perf_counter(), 0
    while not count or time.perf_counter() - began < least:
        call()
        count += 1
        _wait()
    return (time.perf_counter() - began) / count


def _wait() -> None:
    """Let a GPU finish: it computes while the program goes on."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def ratio(over: Sequence[float], under: Sequence[float]) -> Ratio:
    """Return the ratio of two times, round by round: its median, smallest and largest."""
    found = [a / b for a, b in zip(over, under, strict=True)]
    return Ratio(statistics.median(found), min(found), max(found))


def name_powers(axis: Any) -> None:
    """Label an axis of a logarithmic picture by plain numbers: 1, 2, 5, 10 and so on."""
    from matplotlib.ticker import LogLocator, NullLocator

    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_locator(NullLocator())
