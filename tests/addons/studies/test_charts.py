from typing import Any

import pytest
from matplotlib.figure import Figure

from crosshead.addons.studies.charts import COLORS, error_bars, logarithmic, name_powers
from crosshead.addons.studies.turns import Ratio


@pytest.fixture
def axes() -> Any:
    figure = Figure()
    return figure.add_subplot()


def texts(axis: Any) -> list[str]:
    axis.axes.figure.draw_without_rendering()
    low, high = sorted(axis.get_view_interval())
    ticks = zip(axis.get_majorticklocs(), axis.get_majorticklabels(), strict=True)
    return [label.get_text() for place, label in ticks if low <= place <= high]


def test_powers_are_plain_numbers(axes: Any) -> None:
    axes.set(xscale="log", xlim=(0.9, 25))
    name_powers(axes.xaxis)
    assert texts(axes.xaxis) == ["1", "2", "5", "10", "20"]
    assert axes.xaxis.get_minorticklocs().size == 0


def test_only_the_measured_places_are_named(axes: Any) -> None:
    logarithmic(axes, (length for length in (64, 256, 1024)), xlabel="length", ylabel="ms")
    axes.plot([64, 1024], [1, 100])
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("length", "ms")
    assert texts(axes.xaxis) == ["64", "256", "1024"]
    assert axes.xaxis.get_minorticklocs().size == 0


def test_a_bar_reaches_from_the_least_to_the_greatest_ratio(axes: Any) -> None:
    error_bars(axes, [1, 2], [Ratio(3.0, 2.0, 7.0), Ratio(5.0, 5.0, 5.0)], color=COLORS[0])
    [container] = axes.containers
    line, _, (bars,) = container.lines
    assert list(line.get_ydata()) == [3.0, 5.0]
    assert [segment[:, 1].tolist() for segment in bars.get_segments()] == [[2.0, 7.0], [5.0, 5.0]]
    assert len(set(COLORS)) == len(COLORS)
