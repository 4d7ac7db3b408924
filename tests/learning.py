"""Training in tests: it goes on until something is learned, however the processor rounds."""

from collections.abc import Callable

import pytest

SEEDS = [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 7))]
"""The seeds that something has to be learned from: one by default, six with the slow tests."""


def learns(
    update: Callable[[int], float],
    learned: Callable[[], bool],
    most: int,
    every: int = 20,
    below: float = 0.1,
) -> bool:
    """Train until something is learned.

    Processors round differently, and a training that is a little ahead on one of them is behind on
    another. A test therefore states not how many updates are enough but how many are far too many:
    at least three times as many as the slowest of several seeds has needed.

    Args:
        update: Makes the update of a number, from 1 on, and returns its loss.
        learned: Whether the goal is reached; asked where the loss is small.
        most: Updates after which training has failed.
        every: Updates from one look at the loss to the next.
        below: The loss above which the goal is not looked at.

    Returns:
        Whether the goal was reached.
    """
    for number in range(1, most + 1):
        loss = update(number)
        if number % every == 0 and loss < below and learned():
            return True
    return False
