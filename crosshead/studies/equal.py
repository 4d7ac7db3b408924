"""Models of different architectures with as many weights, to compare."""

from bisect import bisect_left
from collections.abc import Callable

from crosshead.bundle import build_without_memory
from crosshead.models.registry import AnyConfig
from crosshead.studies.fitting import size

WITHIN = 0.02
"""By what share of its size a model may differ from another that counts as equally large."""

WIDTHS = range(16, 1025, 2)
"""Even ones: half of a bidirectional layer reads backwards."""


def weights(config: AnyConfig, vocabulary: int) -> int:
    """The number of weights of such a model, counted without making any."""
    return size(build_without_memory(config, vocabulary, vocabulary))


def as_large(shape: Callable[[int], AnyConfig], vocabulary: int, wanted: int) -> AnyConfig:
    """The shape of that width, of `WIDTHS`, whose number of weights is nearest to the one wanted.

    The number has to grow with the width. Raises `ValueError` where none is as near as `WITHIN`.
    """

    def count(width: int) -> int:
        return weights(shape(width), vocabulary)

    above = bisect_left(WIDTHS, wanted, key=count)
    near = WIDTHS[max(0, above - 1) : above + 1]
    best = min(near, key=lambda width: abs(count(width) - wanted))
    if abs(count(best) / wanted - 1) > WITHIN:
        raise ValueError(
            f"no width gives {wanted:,} weights within {WITHIN:.0%}: {best} gives {count(best):,}"
        )
    return shape(best)
