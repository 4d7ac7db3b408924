from typing import Any

from matplotlib.figure import Figure

from crosshead.addons.studies.charts import Line, Panel, draw, points


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
    axes = drawn(Panel("times", [line, Line([64], [3])], "length", "ms", log="xy"))
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_title()) == ("length", "ms", "times")
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
    line = points({"one": [1.0, 2.0], "two": [3.0]}, "seeds")
    assert (line.x, line.y, line.label) == ([1.0, 2.0, 3.0], ["one", "one", "two"], "seeds")
    assert texts(drawn(Panel("", [line])).yaxis) == ["one", "two"]
