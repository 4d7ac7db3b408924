"""Maps of words over images: weights, words of several pieces, regions, pictures."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from crosshead.addons.vision.attention_maps import (
    Grounding,
    WordMaps,
    draw_word_maps,
    grounding,
    pieces_of_words,
    word_maps,
)
from crosshead.addons.vision.data.images import encode_png
from crosshead.addons.vision.data.scenes import Region
from crosshead.errors import ConfigError, DataError
from crosshead.inspection import attention_rollout, attention_weights, image_attention
from tests.addons.vision.drawn_images import SIZE as CLASSIFIED_SIZE
from tests.addons.vision.drawn_images import picture
from tests.addons.vision.small_captioners import ROWS, SIZE, captioner, pixels
from tests.addons.vision.test_image_classifier import classifier

CAPTION = "a small blue square"


def test_maps_are_the_weights_of_each_word(tmp_path: Path) -> None:
    describe = captioner()
    found = word_maps(describe, pixels(), CAPTION)
    assert found.words == CAPTION.split() and found.weights.shape == (2, 4, 4, ROWS, ROWS)
    torch.testing.assert_close(found.weights.sum((-1, -2)), torch.ones(2, 4, 4))
    with torch.inference_mode():
        given = describe.attention_inputs(pixels(), CAPTION)
    path = tmp_path / "image.png"
    path.write_bytes(encode_png(pixels()))
    expected = attention_weights(describe, str(path), target=CAPTION).weights
    torch.testing.assert_close(found.weights.flatten(-2), expected[:, :, :4])
    assert given.queries[-1] == "</s>"
    assert word_maps(describe, pixels()).words == describe(pixels()).split()


def test_words_of_several_pieces_have_their_mean() -> None:
    describe = captioner("characters")
    tokenizer = describe.bundle.target_tokenizer
    assert pieces_of_words(tokenizer, tokenizer.encode("a red")) == [[0, 1], [2, 3, 4]]
    found = word_maps(describe, pixels(), "a red")
    [ids] = [describe.attention_inputs(pixels(), "a red").queries[:5]]
    assert found.words == ["a", "red"] and len(ids) == 5
    torch.testing.assert_close(found.weights.sum((-1, -2)), torch.ones(2, 4, 2))


def test_one_head_or_the_mean() -> None:
    weights = torch.rand(2, 3, 1, 2, 2)
    found = WordMaps(pixels(), ["a"], weights)
    assert torch.equal(found.of(2, 3), weights[1, 2])
    torch.testing.assert_close(found.of(), weights.mean((0, 1)))
    torch.testing.assert_close(found.of(layer=1), weights[0].mean(0))
    with pytest.raises(ConfigError, match="no head 4"):
        found.of(head=4)


def test_weight_inside_a_region_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = torch.zeros(1, 2, 2, ROWS, ROWS)
    weights[0, 0, 1, 0, 0], weights[0, 0, 1, 2, 2] = 0.25, 0.75
    weights[0, 1, 1, 0, :2] = 0.5
    maps = WordMaps(pixels(), ["red", "circle"], weights)
    monkeypatch.setattr("crosshead.addons.vision.attention_maps.word_maps", lambda *arguments: maps)
    found = grounding(captioner(), [pixels()], ["red circle"], [[Region(1, (1, 2, 8, 4))]])
    assert found.inside.tolist() == [[0.25, 1.0]] and found.peaks.tolist() == [[0.0, 1.0]]
    assert found.chance == pytest.approx(2 / 9) and found.nouns == 1
    assert found.best() == (1, 2)
    assert Grounding(torch.tensor([[0.1, 0.2], [0.9, 0.3]]), found.peaks, 0.1, 1).best() == (2, 1)


def test_a_caption_without_words_is_refused() -> None:
    with pytest.raises(DataError, match="no words"):
        word_maps(captioner(), pixels(), "  ")


@pytest.mark.parametrize(("patches", "words"), [(9, 4), (14, 12)])
def test_captions_of_several_images_are_drawn_on_one_sheet(
    patches: int, words: int, tmp_path: Path
) -> None:
    size = 4 * patches
    maps = [
        WordMaps(pixels(number, size), ["word"] * count, torch.rand(1, 2, count, patches, patches))
        for number, count in enumerate((words, 2))
    ]
    figure = draw_word_maps(maps, layer=1, head=2, path=tmp_path / "sheet.png")
    drawn = [axes for axes in figure.axes if axes.images]
    assert len(drawn) == words + 2 + 2  # a map for each word, and each image once
    grey, heat = drawn[1].images
    assert heat.get_array().shape == (patches, patches) and grey.get_array().shape == (size, size)
    np.testing.assert_allclose(heat.get_array(), maps[0].weights[0, 1, 0])
    assert heat.get_extent() == [-0.5, size - 0.5, size - 0.5, -0.5]
    assert "layer 1, head 2" in figure.get_suptitle()
    assert (tmp_path / "sheet.png").read_bytes().startswith(b"\x89PNG")


def test_too_many_maps_and_other_suffixes_are_refused() -> None:
    maps = WordMaps(pixels(), ["a"] * 300, torch.rand(1, 1, 300, ROWS, ROWS))
    with pytest.raises(DataError, match="600 maps cannot be drawn in one picture"):
        draw_word_maps([maps, maps])
    few = WordMaps(pixels(), ["a"], torch.rand(1, 1, 1, ROWS, ROWS))
    with pytest.raises(ConfigError, match="to end in"):
        draw_word_maps([few], path="sheet.gif")
    assert SIZE == 4 * ROWS


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "a.png"
    Image.fromarray(picture("low", 1)).save(path)
    return path


def test_the_map_of_the_class_token_has_its_weights_in_the_places_of_the_patches(
    image: Path,
) -> None:
    classify = classifier()
    weights = attention_weights(classify, str(image)).weights
    found = image_attention(classify, image)
    assert found.heads.shape == (2, 2, 4, 4) and found.rollout.shape == (2, 4, 4)
    assert found.heads[1, 0, 2, 3] == weights[1, 0, 0, 1 + 4 * 2 + 3]
    assert found.pixels.shape == (CLASSIFIED_SIZE, CLASSIFIED_SIZE, 3) and found.best == classify(
        image
    )
    assert (image_attention(classify, found.pixels).heads == found.heads).all()


def test_the_map_without_class_token_is_the_mean_over_patches(image: Path) -> None:
    classify = classifier(pool="mean")
    weights = attention_weights(classify, str(image)).weights
    found = image_attention(classify, image)
    torch.testing.assert_close(found.heads[0, 1].flatten(), weights[0, 1].mean(dim=0))
    assert found.heads.sum(dim=(2, 3)).numpy() == pytest.approx(1)


def test_rollout_multiplies_layers_with_half_of_the_residual_connection() -> None:
    weights = torch.rand(3, 2, 5, 5).softmax(dim=-1)
    first, second, _ = (0.5 * each.mean(dim=0) + 0.5 * torch.eye(5) for each in weights)
    found = attention_rollout(weights)
    torch.testing.assert_close(found[0], first)
    torch.testing.assert_close(found[1], second @ first)
    torch.testing.assert_close(found.sum(dim=-1), torch.ones(3, 5))
    still = attention_rollout(torch.eye(4).expand(3, 2, 4, 4))
    torch.testing.assert_close(still, torch.eye(4).expand(3, 4, 4))


def test_models_without_attention_over_images_are_refused(image: Path) -> None:
    with pytest.raises(ConfigError, match="this model has no attention"):
        image_attention(classifier("convnet"), image)
    with pytest.raises(ConfigError, match="takes no target"):
        attention_weights(classifier(), str(image), target="a")
