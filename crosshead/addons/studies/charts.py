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


def spread(values: Sequence[float]) -> str:
    """Format the median of several numbers, and their range."""
    median, low, high = statistics.median(values), min(values), max(values)
    return f"{number(median)} ({number(low)} to {number(high)})"


class Table(NamedTuple):
    """A table: the first row holds the heads, and the first column words."""

    title: str
    rows: Sequence[Sequence[str]]


class Sheet(NamedTuple):
    """Numbers by row and column, several in a cell: by seed, or by round. `x` names the columns.

    It is shown as a table, and drawn as a line for each row: medians in a band of their range. The
    values of a single column are drawn as points, with the names of the rows one above another.
    `log` names the logarithmic axes: "x", "y" or "xy". Dotted lines stand at the height `level` and
    at the place `at`.
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
    listed: bool = True
    """False for a picture without a table."""

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
        return spread(values) if self.ranges and values else joined(values, self.form)


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


def draw(figure: Any, sheets: Sequence[Sheet]) -> None:
    """Draw sheets side by side into a figure of matplotlib."""
    for place, sheet in enumerate(sheets, 1):
        axes = figure.add_subplot(1, len(sheets), place)
        [column, *others] = sheet.columns
        if others:
            for name, row in sheet.rows.items():
                _draw_row(axes, name, row)
            axes.legend(fontsize=7)
        else:
            for name, row in sheet.rows.items():
                names = [fill(name, 48 // len(sheets))] * len(row[column])
                axes.plot(row[column], names, "o", color="C0", ms=4, alpha=0.8)
            axes.margins(y=0.6 / len(sheet.rows))  # the first name stays below the title
        for value, mark in ((sheet.level, axes.axhline), (sheet.at, axes.axvline)):
            if value is not None:
                mark(value, color="gray", ls=":")
        # Names of rows leave less width.
        width = (100 if others else 60) // len(sheets)
        axes.set_title(fill(sheet.title, width), fontsize=9)
        axes.set_xlabel(sheet.x if others else column)
        _scale(axes, sheet)
        axes.grid(alpha=0.3)


def _draw_row(axes: Any, name: str, row: Mapping[Any, Sequence[float]]) -> None:
    found = {x: values for x, values in row.items() if values}
    medians, style = [*map(statistics.median, found.values())], "o-" if len(found) < 50 else "-"
    [line] = axes.plot([*found], medians, style, ms=4, alpha=0.8, label=name)
    if any(len(values) > 1 for values in found.values()):
        lows, highs = ([*map(end, found.values())] for end in (min, max))
        axes.fill_between([*found], lows, highs, alpha=0.2, lw=0, color=line.get_color())


def _scale(axes: Any, sheet: Sheet) -> None:
    """Make axes logarithmic, and label them by plain numbers: measured places, or 1, 2, 5, 10."""
    from matplotlib.ticker import LogLocator, NullLocator

    if "x" in sheet.log:
        axes.set_xscale("log")
        places = sheet.columns
        if len(places) <= NAMED and all(isinstance(place, int) for place in places):
            axes.set_xticks(places, [f"{place:g}" for place in places])
            axes.set_xticks([], minor=True)
    if "y" in sheet.log:
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        if high < 1000 * low:
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_major_formatter("{x:g}")
            axes.yaxis.set_minor_locator(NullLocator())
