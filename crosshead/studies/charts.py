"""Axes and marks that the pictures of several studies share."""

from collections.abc import Iterable, Sequence
from typing import Any

from crosshead.studies.turns import Ratio


def name_powers(axis: Any) -> None:
    """Label an axis of a logarithmic picture by plain numbers: 1, 2, 5, 10 and so on."""
    from matplotlib.ticker import LogLocator, NullLocator

    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_locator(NullLocator())


def logarithmic(axes: Any, places: Iterable[int], **labels: str) -> None:
    """Make both axes logarithmic, name only these places on the horizontal one, and draw a grid."""
    axes.set(xscale="log", yscale="log", **labels)
    named = list(places)
    axes.set_xticks(named, map(str, named))
    axes.set_xticks([], minor=True)
    axes.grid(alpha=0.3)


def error_bars(axes: Any, places: Sequence[float], ratios: Sequence[Ratio], **style: Any) -> None:
    """Draw medians of ratios with their ranges over rounds."""
    middle = [each.median for each in ratios]
    below = [each.median - each.low for each in ratios]
    above = [each.high - each.median for each in ratios]
    axes.errorbar(places, middle, [below, above], ms=4, **style)
