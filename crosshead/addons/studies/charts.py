"""Tables and pictures of studies as data, and the one function that draws pictures."""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from textwrap import fill
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")

NAMED = 8
"""The number of measured sizes up to which a logarithmic axis names each of them."""


def number(value: float) -> str:
    """Format a number with three significant digits, as tables and verdicts show it."""
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        whole = abs(value) >= 100 or value == int(value)
        return f"{value:,.0f}" if whole else f"{value:.3g}"
    return f"{value:.1e}"


def joined(values: Iterable[float], form: str = "") -> str:
    """Format numbers by the same format specification, with commas between them."""
    return ", ".join(format(value, form) if form else number(value) for value in values)


class Ratio(NamedTuple):
    """The median of several numbers, and their range."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{number(self.median)} ({number(self.low)} to {number(self.high)})"


def spread(values: Sequence[float]) -> Ratio:
    """Return the median and the range of numbers."""
    return Ratio(statistics.median(values), min(values), max(values))


class Table(NamedTuple):
    """A table: the first row holds the heads, and the first column words."""

    title: str
    rows: Sequence[Sequence[str]]


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
    log: str = ""
    level: float | None = None
    at: float | None = None


class Sheet(NamedTuple):
    """Numbers by row and column, several in a cell: by seed, or by round. `x` names the columns.

    It is shown as a table, and drawn as a line for each row: medians in a band of their range. The
    values of a single column are drawn as points, with the names of the rows one above another.
    """

    title: str
    rows: Mapping[str, Mapping[Any, Sequence[float]]]
    x: str = ""
    form: str = ""
    log: str = ""
    level: float | None = None
    at: float | None = None
    ranges: bool = False
    """True if a cell shows the median and the range of its values, which are otherwise listed."""
    drawn: bool = True
    """False for a table without a picture."""

    @property
    def columns(self) -> list[Any]:
        """The heads of the columns: those of all rows, which may have gaps."""
        return list(dict.fromkeys(column for row in self.rows.values() for column in row))

    @property
    def table(self) -> Table:
        """The numbers as a table."""
        heads = [f"{each:,}" if isinstance(each, int) else str(each) for each in self.columns]
        shown = [
            [name, *(self._shown(row.get(column, ())) for column in self.columns)]
            for name, row in self.rows.items()
        ]
        return Table(self.title, [[self.x, *heads], *shown])

    def _shown(self, values: Sequence[float]) -> str:
        return str(spread(values)) if self.ranges and values else joined(values, self.form)

    @property
    def panel(self) -> Panel:
        """The numbers as a picture."""
        [x, *others] = self.columns
        if others:
            x, lines = self.x, [_line(name, row) for name, row in self.rows.items()]
        else:
            lines = [points({name: row[x] for name, row in self.rows.items()})]
        return Panel(self.title, lines, x, self.log, self.level, self.at)


def by_seed(groups: Mapping[Any, Sequence[float]]) -> dict[str, dict[str, Sequence[float]]]:
    """Return the rows of a sheet with a single column: a value for each seed."""
    return {str(name): {"by seed": values} for name, values in groups.items()}


def single(rows: Mapping[str, Mapping[Any, float]]) -> dict[str, dict[Any, list[float]]]:
    """Return the rows of a sheet with one value in each cell."""
    return {name: {x: [value] for x, value in row.items()} for name, row in rows.items()}


def cells(
    found: Mapping[tuple[Any, Any], T], values: Callable[[T], Sequence[float]]
) -> dict[str, dict[Any, Sequence[float]]]:
    """Return the rows of a sheet from results by row and column."""
    rows: dict[str, dict[Any, Sequence[float]]] = {}
    for (name, x), each in found.items():
        rows.setdefault(str(name), {})[x] = values(each)
    return rows


def _line(name: str, row: Mapping[Any, Sequence[float]]) -> Line:
    found = {x: spread(values) for x, values in row.items() if values}
    several = any(len(values) > 1 for values in row.values())
    ranges = [(each.low, each.high) for each in found.values()] if several else ()
    return Line([*found], [each.median for each in found.values()], name, spread=ranges)


def points(groups: Mapping[str, Sequence[float]]) -> Line:
    """Return a point for each value, with the names of the groups one above another."""
    pairs = [(value, fill(name, 24)) for name, values in groups.items() for value in values]
    return Line([value for value, _ in pairs], [name for _, name in pairs], style="o")


def draw(figure: Any, panels: Sequence[Panel]) -> None:
    """Draw panels side by side into a figure of matplotlib."""
    for place, panel in enumerate(panels, 1):
        axes = figure.add_subplot(1, len(panels), place)
        for line in panel.lines:
            _draw_line(axes, line)
        for value, mark in ((panel.level, axes.axhline), (panel.at, axes.axvline)):
            if value is not None:
                mark(value, color="gray", ls=":")
        axes.set_title(fill(panel.title, 100 // len(panels)), fontsize=9)
        axes.set_xlabel(panel.x)
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
