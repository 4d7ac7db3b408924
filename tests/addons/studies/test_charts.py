import math
from typing import Any

import pytest
from matplotlib.figure import Figure

from crosshead.addons.studies.charts import (
    Line,
    Panel,
    Sheet,
    by_seed,
    draw,
    joined,
    number,
    points,
    single,
)


def drawn(panel: Panel) -> Any:
    figure = Figure()
    draw(figure, [panel])
    figure.draw_without_rendering()
    [axes] = figure.axes
    return axes


def texts(axis: Any) -> list[str]:
    low, high = sorted(axis.get_view_interval())
    ticks = zip(axis.get_majorticklocs(), axis.get_majorticklabels(), strict=True)
    return [label.get_text() for place, label in ticks if low <= place <= high]


def test_powers_are_plain_numbers() -> None:
    axes = drawn(Panel("times", [Line([1, 2], [0.95, 22])], log="y"))
    assert texts(axes.yaxis) == ["1", "2", "5", "10", "20"]
    assert axes.yaxis.get_minorticklocs().size == 0
    assert (axes.get_xscale(), axes.get_yscale()) == ("linear", "log")


def test_only_the_measured_places_are_named() -> None:
    line = Line([64, 256, 1024], [1, 10, 1e5])
    axes = drawn(Panel("times", [line, Line([64], [3])], "length", log="xy"))
    assert (axes.get_xlabel(), axes.get_title()) == ("length", "times")
    assert texts(axes.xaxis) == ["64", "256", "1024"]
    assert axes.xaxis.get_minorticklocs().size == 0
    assert axes.get_legend() is None


def test_a_band_reaches_from_the_least_to_the_greatest_value() -> None:
    axes = drawn(Panel("", [Line([1, 2], [3, 5], "median", spread=[(2, 7), (5, 5)])], level=4))
    [band] = axes.collections
    assert {tuple(point) for point in band.get_paths()[0].vertices} == {(1, 2), (1, 7), (2, 5)}
    assert [list(line.get_ydata()) for line in axes.lines] == [[3, 5], [4, 4]]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["median"]


def test_a_point_stands_beside_the_name_of_its_group() -> None:
    line = points({"one": [1.0, 2.0], "two": [3.0]})
    assert (line.x, line.y) == ([1.0, 2.0, 3.0], ["one", "one", "two"])
    assert texts(drawn(Panel("", [line])).yaxis) == ["one", "two"]


def test_a_sheet_is_a_table_and_a_line_for_each_row_in_its_range() -> None:
    rows = {"full": {1024: [2.0, 4.0], 2048: [8.0]}, "window": {1024: [1.0]}, "gap": {1024: []}}
    sheet = Sheet("times", rows, "positions", ".1f", level=3)
    assert sheet.table.rows == [
        ["positions", "1,024", "2,048"],
        ["full", "2.0, 4.0", "8.0"],
        ["window", "1.0", ""],
        ["gap", "", ""],
    ]
    full, window, gap = sheet.panel.lines
    assert (full.x, full.y, full.spread) == ([1024, 2048], [3.0, 8.0], [(2.0, 4.0), (8.0, 8.0)])
    assert (window.y, window.spread, gap.x) == ([1.0], (), [])
    assert (sheet.panel.x, sheet.panel.level) == ("positions", 3)


def test_a_sheet_of_one_column_is_points_and_one_of_rounds_shows_ranges() -> None:
    sheet = Sheet("right", by_seed({"LSTM": [0.25, 0.5]}), "model", ".1%")
    assert sheet.table.rows == [["model", "by seed"], ["LSTM", "25.0%, 50.0%"]]
    [line] = sheet.panel.lines
    assert (line.x, line.y, sheet.panel.x) == ([0.25, 0.5], ["LSTM", "LSTM"], "by seed")
    rounds = Sheet("times", {"LSTM": {"over": [1.5, 9.0, 2.0]}}, ranges=True)
    assert rounds.table.rows[1] == ["LSTM", "2 (1.5 to 9)"]
    assert single({"LSTM": {1: 0.5}}) == {"LSTM": {1: [0.5]}}


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"), (0.0, "0"), (64, "64"), (0.98765, "0.988"), (-0.4034, "-0.403"), (1.5, "1.5"),
        (123.4, "123"), (999.4, "999"), (999.7, "1,000"), (1000.4, "1,000"), (12345, "12,345"),
        (99_999.4, "99,999"),
        (100_000, "1.0e+05"), (0.001, "0.001"), (0.000999, "1.0e-03"), (3e-8, "3.0e-08"),
        (-2e7, "-2.0e+07"), (math.inf, "inf"),
    ],
)  # fmt: skip
def test_three_digits_are_shown_and_powers_only_of_very_large_and_small_numbers(
    value: float, shown: str
) -> None:
    assert number(value) == shown


def test_numbers_are_listed_in_one_form() -> None:
    assert joined([1, 2.25, 100], ".1f") == "1.0, 2.2, 100.0"
    assert joined([], ".1f") == ""
    assert joined([0.5, 12345]) == "0.5, 12,345"
