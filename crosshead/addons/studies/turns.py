"""Times of several computations in turns: round after round, so that all see the same machine."""

import statistics
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from crosshead.addons.studies.formats import number

K = TypeVar("K", bound=Hashable)

FORWARD, TRAINING = "forwards", "forwards and backwards"


class Ratio(NamedTuple):
    """A ratio of times over several rounds."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{number(self.median)} ({number(self.low)} to {number(self.high)})"


class Timed(NamedTuple):
    """The least time of a computation over the rounds, and its ratio to the baseline's time."""

    seconds: float
    ratio: Ratio

    @property
    def shown(self) -> str:
        """The least time as a table shows it."""
        return f"{number(1000 * self.seconds)} ms"


def timed(
    calls: Mapping[K, Callable[[], object]], baseline: Callable[[K], K], rounds: int, seconds: float
) -> dict[K, Timed]:
    """Measure computations in turns; `baseline` names the one that each is compared with."""
    found = in_turns(calls, rounds, seconds)
    return {n: Timed(min(times), ratio(times, found[baseline(n)])) for n, times in found.items()}


def in_turns(
    calls: Mapping[K, Callable[[], object]], rounds: int, seconds: float
) -> dict[K, list[float]]:
    """Measure the mean seconds of a call of each computation, in every round.

    Each is called once before, so that kernels are chosen and memory is taken. Every second round
    goes through the computations in reverse order.
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
    """Wait for a GPU, which computes asynchronously."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def ratio(over: Sequence[float], under: Sequence[float]) -> Ratio:
    """Return the ratio of two times, round by round: its median, smallest and largest."""
    found = [a / b for a, b in zip(over, under, strict=True)]
    return Ratio(statistics.median(found), min(found), max(found))


def compute(model: nn.Module, output: Callable[[], Tensor], direction: str) -> None:
    """Compute an output of a model, and all gradients of its sum if the direction says so."""
    if direction == FORWARD:
        with torch.no_grad():
            output()
        return
    model.zero_grad()
    output().sum().backward()


def of_layer(layer: nn.Module, x: Tensor, direction: str) -> Callable[[], None]:
    """Return the computation of a layer on `x`, whose gradient is computed as well."""
    # A new leaf each time: gradients of the input do not add up from call to call.
    return partial(compute, layer, lambda: layer(x.detach().requires_grad_()), direction)
