"""Axes and marks that the pictures of several studies share."""

from collections.abc import Iterable, Sequence
from typing import Any

from crosshead.addons.studies.turns import Ratio

COLORS = ("tab:blue", "tab:orange", "tab:green")


def name_powers(*axes: Any) -> None:
    """Label logarithmic axes by plain numbers: 1, 2, 5, 10 and so on."""
    from matplotlib.ticker import LogLocator, NullLocator

    for axis in axes:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_locator(NullLocator())


def logarithmic(axes: Any, places: Iterable[int], **labels: str) -> None:
    """Make both axes logarithmic, name only these places on the horizontal one, and draw a grid."""
    named = list(places)
    axes.set(xscale="log", yscale="log", **labels)
    axes.set_xticks(named, map(str, named))
    axes.set_xticks([], minor=True)
    axes.grid(alpha=0.3)


def error_bars(axes: Any, places: Sequence[float], ratios: Sequence[Ratio], **style: Any) -> None:
    """Draw medians of ratios with their ranges over rounds."""
    ranges = [[r.median - r.low for r in ratios], [r.high - r.median for r in ratios]]
    axes.errorbar(places, [r.median for r in ratios], ranges, ms=4, **style)
