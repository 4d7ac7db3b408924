import math
from typing import Any

import pytest
from matplotlib.figure import Figure

from crosshead.addons.studies.charts import (
    Sheet,
    by_seed,
    draw,
    joined,
    number,
    single,
)


def drawn(sheet: Sheet) -> Any:
    figure = Figure()
    draw(figure, [sheet])
    figure.draw_without_rendering()
    [axes] = figure.axes
    return axes


def texts(axis: Any) -> list[str]:
    low, high = sorted(axis.get_view_interval())
    ticks = zip(axis.get_majorticklocs(), axis.get_majorticklabels(), strict=True)
    return [label.get_text() for place, label in ticks if low <= place <= high]


def test_powers_are_plain_numbers() -> None:
    axes = drawn(Sheet("times", single({"full": {1: 0.95, 2: 22}}), log="y"))
    assert texts(axes.yaxis) == ["1", "2", "5", "10", "20"]
    assert axes.yaxis.get_minorticklocs().size == 0
    assert (axes.get_xscale(), axes.get_yscale()) == ("linear", "log")


def test_only_the_measured_places_are_named() -> None:
    rows = single({"full": {64: 1, 256: 10, 1024: 1e5}, "window": {64: 3}})
    axes = drawn(Sheet("times", rows, "length", log="xy"))
    assert (axes.get_xlabel(), axes.get_title()) == ("length", "times")
    assert texts(axes.xaxis) == ["64", "256", "1024"]
    assert axes.xaxis.get_minorticklocs().size == 0


def test_a_line_is_medians_in_a_band_of_their_range() -> None:
    rows = {"full": {1: [2.0, 3.0, 7.0], 2: [5.0]}, "window": {1: [1.0]}, "gap": {1: []}}
    axes = drawn(Sheet("", rows, level=4))
    [band] = axes.collections
    assert {tuple(point) for point in band.get_paths()[0].vertices} == {(1, 2), (1, 7), (2, 5)}
    assert [list(line.get_ydata()) for line in axes.lines] == [[3, 5], [1], [], [4, 4]]
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert names == ["full", "window", "gap"]


def test_many_points_are_a_plain_line() -> None:
    rows = single({"few": dict.fromkeys(range(9), 1.0), "many": dict.fromkeys(range(99), 2.0)})
    assert [line.get_marker() for line in drawn(Sheet("", rows)).lines] == ["o", "None"]


def test_a_sheet_is_a_table_and_its_rows_may_have_gaps() -> None:
    rows = {"full": {1024: [2.0, 4.0], 2048: [8.0]}, "window": {1024: [1.0]}, "gap": {1024: []}}
    assert Sheet("times", rows, "positions", ".1f").table.rows == [
        ["positions", "1,024", "2,048"],
        ["full", "2.0, 4.0", "8.0"],
        ["window", "1.0", ""],
        ["gap", "", ""],
    ]


def test_a_sheet_of_one_column_is_points_and_one_of_rounds_shows_ranges() -> None:
    sheet = Sheet("right", by_seed({"LSTM": [0.25, 0.5], "none": [0.1]}), "model", ".1%")
    assert sheet.table.rows[:2] == [["model", "by seed"], ["LSTM", "25.0%, 50.0%"]]
    axes = drawn(sheet)
    assert texts(axes.yaxis) == ["LSTM", "none"] and axes.get_xlabel() == "by seed"
    assert [list(line.get_xdata()) for line in axes.lines] == [[0.25, 0.5], [0.1]]
    assert axes.get_legend() is None
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
