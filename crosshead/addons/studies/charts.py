"""Pictures of studies as data: panels of lines, and the one function that draws them."""

from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import Any, NamedTuple

NAMED = 8
"""The number of measured sizes up to which a logarithmic axis names each of them."""


class Line(NamedTuple):
    """Points by x and y, in a format of matplotlib; numbers, or words that become places.

    `spread` holds the range of each point, which is drawn as a band.
    """

    x: Sequence[Any]
    y: Sequence[Any]
    label: str = ""
    style: str = "o-"
    spread: Sequence[tuple[float, float]] = ()


class Panel(NamedTuple):
    """One of the pictures side by side.

    `log` names the logarithmic axes: "x", "y" or "xy". Dotted lines stand at the height `level` and
    at the place `at`.
    """

    title: str
    lines: Sequence[Line]
    x: str = ""
    y: str = ""
    log: str = ""
    level: float | None = None
    at: float | None = None


def points(groups: Mapping[str, Sequence[float]], label: str = "") -> Line:
    """Return a point for each value, with the names of the groups one above another."""
    pairs = [(value, fill(name, 24)) for name, values in groups.items() for value in values]
    return Line([value for value, _ in pairs], [name for _, name in pairs], label, "o")


def draw(figure: Any, panels: Sequence[Panel]) -> None:
    """Draw panels side by side into a figure of matplotlib."""
    for place, panel in enumerate(panels, 1):
        axes = figure.add_subplot(1, len(panels), place)
        for line in panel.lines:
            _draw_line(axes, line)
        for value, mark in ((panel.level, axes.axhline), (panel.at, axes.axvline)):
            if value is not None:
                mark(value, color="gray", ls=":")
        axes.set_title(panel.title, fontsize=9)
        axes.set(xlabel=panel.x, ylabel=panel.y)
        _scale(axes, panel)
        axes.grid(alpha=0.3)
        if any(line.label for line in panel.lines):
            axes.legend(fontsize=7)


def _draw_line(axes: Any, line: Line) -> None:
    [drawn] = axes.plot(line.x, line.y, line.style, ms=4, alpha=0.8, label=line.label or None)
    if line.spread:
        lows, highs = zip(*line.spread, strict=True)
        axes.fill_between(line.x, lows, highs, alpha=0.2, lw=0, color=drawn.get_color())


def _scale(axes: Any, panel: Panel) -> None:
    """Make axes logarithmic, and label them by plain numbers: measured places, or 1, 2, 5, 10."""
    from matplotlib.ticker import LogLocator, NullLocator

    if "x" in panel.log:
        axes.set_xscale("log")
        places = sorted({x for line in panel.lines for x in line.x})
        if len(places) <= NAMED and all(isinstance(place, int) for place in places):
            axes.set_xticks(places, [f"{place:g}" for place in places])
            axes.set_xticks([], minor=True)
    if "y" in panel.log:
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        if high < 1000 * low:
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_major_formatter("{x:g}")
            axes.yaxis.set_minor_locator(NullLocator())
