import dataclasses
import re
import sys
from html import unescape
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib import rc_context

from crosshead.errors import ConfigError, DataError, UserError
from crosshead.inspection import (
    AttentionWeights,
    ImageAttention,
    draw_attention,
    draw_image_attention,
)
from crosshead.inspection.drawing import Scale
from crosshead.inspection.record import Supervised
from crosshead.models.base import AttentionKind
from tests.parameters import mostly_slow


def weights(
    layers: int,
    heads: int,
    queries: list[str],
    keys: list[str] | None = None,
    kind: AttentionKind = "cross",
) -> AttentionWeights:
    keys = queries if keys is None else keys
    scores = torch.randn(layers, heads, len(queries), len(keys))
    if kind == "decoder":
        future = torch.ones(len(queries), len(keys)).triu(1).bool()
        scores = scores.masked_fill(future, -torch.inf)
    return AttentionWeights(kind, queries, keys, scores.softmax(-1))


PICTURE = weights(2, 3, ["▁x", "</s>"], ["▁$a$", "漢", "😀", "\n", "_^\\", "</s>"])


def texts(tmp_path: Path, found: AttentionWeights, **chosen: int) -> list[str]:
    """All that is written in a picture."""
    with rc_context({"svg.fonttype": "none"}):  # text stays text
        draw_attention(found, path=tmp_path / "a.svg", **chosen)
    picture = (tmp_path / "a.svg").read_text(encoding="utf-8")
    return [unescape(text) for text in re.findall(r"<text [^>]*>(.*?)</text>", picture)]


@pytest.mark.parametrize(
    ("name", "magic"),
    mostly_slow(
        [("a.png", b"\x89PNG"), ("a.SVG", b"<?xml"), ("a.pdf", b"%PDF")], [("a.png", b"\x89PNG")]
    ),
)
def test_a_picture_of_any_pieces_is_drawn(tmp_path: Path, name: str, magic: bytes) -> None:
    draw_attention(PICTURE, path=str(tmp_path / name))
    assert (tmp_path / name).read_bytes().startswith(magic)


def test_the_figure_is_returned_and_can_be_saved_by_itself(tmp_path: Path) -> None:
    figure = draw_attention(PICTURE, layer=2, head=1)
    assert not list(tmp_path.iterdir())
    figure.savefig(tmp_path / "mine.png")  # no glyph is missing: that would be a warning
    assert (tmp_path / "mine.png").exists()


def test_a_grid_has_a_map_of_every_head_and_the_pieces_at_its_edges(tmp_path: Path) -> None:
    said = texts(tmp_path, PICTURE)
    titles = [text for text in said if text.startswith("layer")]
    assert titles == [f"layer {layer}, head {head}" for layer in (1, 2) for head in (1, 2, 3)]
    assert said.count("␣x") == 2 and said.count("␣$a$") == 3
    assert said.count("\\n") == 3 and said.count("</s>") == 2 + 3
    assert "Cross-attention" in said
    assert any("target" in text for text in said) and any("source" in text for text in said)


def test_one_layer_is_a_grid_of_its_heads_and_one_head_a_grid_of_its_layers(
    tmp_path: Path,
) -> None:
    titles = [text for text in texts(tmp_path, PICTURE, layer=2) if text.startswith("layer")]
    assert titles == [f"layer 2, head {head}" for head in (1, 2, 3)]
    titles = [text for text in texts(tmp_path, PICTURE, head=3) if text.startswith("layer")]
    assert titles == [f"layer {layer}, head 3" for layer in (1, 2)]


def test_one_head_is_drawn_with_its_values(tmp_path: Path) -> None:
    found = AttentionWeights(
        "decoder", ["a", "b"], ["a", "b"], torch.tensor([[[[1.0, 0.0], [0.004, 0.996]]]])
    )
    said = texts(tmp_path, found, layer=1, head=1)
    assert "Decoder self-attention, layer 1 of 1" in said
    values = [text for text in said if re.fullmatch(r"\d\.\d\d", text)]
    assert values == ["1.00", "1.00"]  # what rounds to zero is left out
    said = texts(tmp_path, PICTURE, layer=1, head=2)
    assert "Cross-attention, layer 1 of 2, head 2 of 3" in said


def test_values_are_written_only_where_they_fit(tmp_path: Path) -> None:
    pieces = [f"p{number}" for number in range(60)]
    said = texts(tmp_path, weights(1, 1, pieces))
    assert not [text for text in said if re.fullmatch(r"\d\.\d\d", text)]
    assert set(pieces) < set(said)


@pytest.mark.slow
def test_a_grid_too_large_to_name_its_pieces_counts_them_and_says_so(tmp_path: Path) -> None:
    pieces = [f"p{number}" for number in range(150)]
    said = texts(tmp_path, weights(2, 2, pieces, kind="decoder"))
    assert not set(pieces) & set(said)
    assert {"1", "31", "121"} < set(said)
    assert any("Too many pieces to name" in text for text in said)


def test_the_note_below_a_narrow_grid_is_whole() -> None:
    figure = draw_attention(weights(16, 2, ["p"] * 80, ["k"]))
    figure.draw_without_rendering()
    [note] = [text for text in figure.texts if "source piece" in text.get_text()]
    assert "Too many pieces" in note.get_text()
    place = note.get_window_extent()
    assert 0 <= place.x0 < place.x1 <= figure.bbox.width


def test_layers_with_one_head_are_named_without_it(tmp_path: Path) -> None:
    said = texts(tmp_path, weights(5, 1, ["a", "b"]))
    assert [text for text in said if text.startswith("layer")] == [
        f"layer {layer}" for layer in range(1, 6)
    ]


def test_a_picture_that_cannot_be_drawn_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.png"
    with pytest.raises(ConfigError, match=r"no layer 3 in the cross-attention: .* layers 1 to 2"):
        draw_attention(PICTURE, layer=3, path=path)
    with pytest.raises(ConfigError, match=r"no head 0 in the cross-attention: .* heads 1 to 3"):
        draw_attention(PICTURE, layer=2, head=0, path=path)
    with pytest.raises(DataError, match="501 keys are too many to draw"):
        draw_attention(weights(1, 1, ["b"], ["a"] * 501), path=path)
    with pytest.raises(ConfigError, match=r"a\.jpeg: expected .* \.png, \.svg or \.pdf"):
        draw_attention(PICTURE, path=tmp_path / "a.jpeg")
    with pytest.raises(UserError, match=r"missing/a\.png: cannot be written"):
        draw_attention(PICTURE, path=tmp_path / "missing" / "a.png", layer=1, head=1)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(UserError, match=r"pip install 'crosshead\[plot\]'"):
        draw_attention(PICTURE, path=path)
    assert not list(tmp_path.iterdir())


def test_an_earlier_picture_stays_where_a_new_one_fails(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    draw_attention(PICTURE, layer=1, head=1, path=path)
    before = path.read_bytes()
    with pytest.raises(ConfigError, match="no layer 9"):
        draw_attention(PICTURE, layer=9, path=path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_maps_are_drawn_over_a_picture(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(1)
    pixels = np.arange(8 * 8 * 3, dtype=np.uint8).reshape(8, 8, 3)
    heads = torch.rand(2, 3, 4, 4, generator=generator)
    found = ImageAttention(pixels, [("cat", 0.75), ("dog", 0.25)], heads, heads.mean(dim=1))
    path = tmp_path / "maps.png"
    figure = draw_image_attention(found, path=path)
    assert path.read_bytes().startswith(b"\x89PNG")
    titles = [axes.get_title() for axes in figure.axes]
    assert titles[0] == "" and titles.count("") == 2  # beside the picture a row for each layer
    assert titles[1] == f"head 1 ({heads[0, 0].max():.2f})"
    drawn = figure.axes[7].images
    assert np.array_equal(drawn[1].get_array(), heads[1, 2].numpy())
    assert drawn[0].get_extent() == drawn[1].get_extent()
    assert "cat 0.75, dog 0.25" in figure.get_suptitle()
    assert "largest weight" in figure.get_suptitle()
    rolled = draw_image_attention(found, rollout=True, layer=2)
    assert [axes.get_title() for axes in rolled.axes] == [
        "",
        f"up to layer 2 ({heads[1].mean(dim=0).max():.2f})",
    ]
    with pytest.raises(ConfigError, match="no head 4"):
        draw_image_attention(found, head=4)
    with pytest.raises(ConfigError, match="rollout joins all heads"):
        draw_image_attention(found, head=1, rollout=True)


def test_weights_of_patches_are_drawn_over_the_image(tmp_path: Path) -> None:
    pixels = np.arange(8 * 8 * 3, dtype=np.uint8).reshape(8, 8, 3)
    patches = [f"{row},{column}" for row in range(1, 5) for column in range(1, 5)]
    weights = torch.rand(2, 3, 2, 16).softmax(dim=-1)
    found = AttentionWeights("image", ["red", "</s>"], patches, weights, pixels)
    figure = draw_attention(found, layer=2, path=tmp_path / "maps.png")
    assert (tmp_path / "maps.png").read_bytes().startswith(b"\x89PNG")
    drawn = [axes.images[1].get_array() for axes in figure.axes if len(axes.images) == 2]
    assert len(drawn) == 3 * 2  # heads, words
    assert np.array_equal(drawn[3], weights[1, 1, 1].view(4, 4).numpy())
    assert "Attention to the image" in figure.get_suptitle()


def test_patches_that_attend_to_patches_are_drawn_by_their_mean() -> None:
    pixels = np.zeros((8, 8, 3), dtype=np.uint8)
    patches = [f"{row},{column}" for row in (1, 2) for column in (1, 2)]
    weights = torch.rand(1, 2, 4, 4).softmax(dim=-1)
    figure = draw_attention(AttentionWeights("encoder", patches, patches, weights, pixels), head=2)
    [drawn] = [axes.images[1].get_array() for axes in figure.axes if len(axes.images) == 2]
    np.testing.assert_allclose(drawn, weights[0, 1].mean(dim=0).view(2, 2))


@pytest.mark.parametrize("scale", ["one", "max", "row"])
def test_the_scale_gives_the_darkest_colour(scale: Scale) -> None:
    found = weights(1, 2, ["a", "b", "c"], kind="decoder")
    figure = draw_attention(found, scale=scale)
    maps = [image for axes in figure.axes for image in axes.images]
    for image, shown in zip(maps, found.weights[0].numpy(), strict=True):
        drawn, largest = image.get_array(), {"one": 1, "max": shown.max()}.get(scale)
        divisor = shown.max(1, keepdims=True) if largest is None else largest
        np.testing.assert_allclose(drawn.filled(0), shown / divisor, rtol=1e-6)
        assert image.get_clim() == (0, 1) and (drawn.mask == (shown == 0)).all()


def test_the_head_that_an_aligner_has_taught_is_marked(tmp_path: Path) -> None:
    found = dataclasses.replace(PICTURE, supervised=Supervised("cross", 2, 1))
    titles = [text for text in texts(tmp_path, found) if "aligner" in text]
    assert titles == ["(taught by a word aligner)"]
    assert not any("aligner" in text for text in texts(tmp_path, found, layer=1, head=1))
    assert any("aligner" in text for text in texts(tmp_path, found, layer=2, head=1))
