"""Maps over a picture: scale, layout and limits."""

import numpy as np
import pytest
import torch

from crosshead.errors import DataError
from crosshead.inspection.labels import labels_of
from crosshead.inspection.picture_maps import PictureMaps, draw_maps, overlay
from crosshead.system.plotting import new_figure

PIXELS = np.full((8, 8, 3), 255, dtype=np.uint8)


def test_a_map_begins_at_zero_and_ends_at_its_largest_weight() -> None:
    axes = new_figure().subplots()
    overlay(axes, PIXELS, np.array([[0.2, 0.3]]))
    assert axes.images[1].get_clim() == (0, 0.3)
    overlay(axes, PIXELS, np.zeros((1, 2)))  # no division by zero
    maps = torch.tensor([[[[0.0121, 0.2]], [[0.0121, 0.0]]]])
    figure = draw_maps([PictureMaps(PIXELS, maps, [""], labels_of(["red", "blue"], []))], "Title")
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == ["", "red (0.20)", "blue (0.012)"]


@pytest.mark.parametrize("bright", [0, 255])
def test_the_picture_is_neither_dark_nor_bright_below_a_map(bright: int) -> None:
    axes = new_figure().subplots()
    overlay(axes, np.full_like(PIXELS, bright), np.ones((2, 2)))
    grey = axes.images[0]
    assert 0.25 < float(grey.norm(grey.get_array()).mean()) < 0.75


def test_many_words_of_one_head_fill_several_rows() -> None:
    words = [f"w{number}" for number in range(11)]
    maps = torch.rand(1, 11, 2, 2)
    figure = draw_maps(
        [PictureMaps(PIXELS, maps, ["layer 1, head 1"], labels_of(words, []))], "Title"
    )
    titles = [axes.get_title() for axes in figure.axes if len(axes.images) == 2]
    assert [title.split()[0] for title in titles] == words
    assert len(figure.axes) == 2 * 10  # nine maps in a row, beside the picture


def test_heads_are_rows_and_words_are_columns() -> None:
    maps = torch.rand(3, 10, 2, 2)
    figure = draw_maps(
        [PictureMaps(PIXELS, maps, ["a", "b", "c"], labels_of(["w"] * 10, []))], "Title"
    )
    assert len(figure.axes) == 3 * 11
    drawn = [axes.images[1].get_array() for axes in figure.axes if len(axes.images) == 2]
    assert np.array_equal(drawn[10], maps[1, 0].numpy())
    shown = [axes.texts[0].get_text() for axes in figure.axes if axes.texts]
    assert shown == ["a", "b", "c"] and not figure.axes[0].get_title()
    named = [place for place, axes in enumerate(figure.axes) if axes.texts]
    assert named == [1, 12, 23]  # the first map of each row


def test_too_many_maps_are_refused_with_advice() -> None:
    many = PictureMaps(PIXELS, torch.rand(1, 401, 1, 1), [""], labels_of(["w"] * 401, []))
    with pytest.raises(DataError, match=r"401 maps cannot be drawn .* give fewer images"):
        draw_maps([many], "Title")
    with pytest.raises(DataError, match="0 maps"):
        draw_maps([], "Title")
