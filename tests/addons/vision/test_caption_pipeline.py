"""Captions of images: files and arrays, batches, searches, attention."""

from pathlib import Path

import numpy as np
import pytest
import torch

from crosshead.addons.vision.data.images import encode_png
from crosshead.decoding.settings import DecodeConfig
from crosshead.errors import ConfigError, DataError, UserError
from crosshead.inspection import attention_weights
from tests.addons.vision.small_captioners import ROWS, SIZE, captioner, pixels


def test_a_file_is_its_pixels_and_a_list_is_each_of_its_images(tmp_path: Path) -> None:
    describe, images = captioner(), [pixels(number) for number in range(5)]
    files = [tmp_path / f"{number}.png" for number in range(5)]
    for path, image in zip(files, images, strict=True):
        path.write_bytes(encode_png(image))
    texts = describe(files)
    assert texts == describe(images) == [describe(image) for image in images]
    assert describe(str(files[0])) == texts[0] and describe([]) == []
    wide = describe.pixels(np.full((20, 40, 3), 7, np.uint8))
    assert wide.shape == (SIZE, SIZE, 3) and (wide == 7).all()


def test_captions_come_best_first_with_their_scores() -> None:
    describe = captioner()
    [found] = describe.caption([pixels()], decode=DecodeConfig(beam=4), n_best=3)
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
    best = found[0]
    ids = describe.bundle.target_tokenizer.encode(best.text)
    given = describe.attention_inputs(pixels(), best.text)
    with torch.inference_mode():
        log_probs = describe.model(*given.inputs).log_softmax(-1)[0]
    expected = [*ids, 2][: len(best.pieces)]
    total = sum(float(log_probs[place, token]) for place, token in enumerate(expected))
    assert total == pytest.approx(best.log_prob, abs=1e-4)
    with pytest.raises(ConfigError, match="a beam of 1 is too small"):
        describe.caption([pixels()], decode=DecodeConfig(beam=1), n_best=2)


@pytest.mark.parametrize(
    "image",
    [np.zeros(4, np.uint8), np.zeros((4, 4, 3)), np.zeros((4, 4, 5), np.uint8), 3, "no.png"],
)
def test_what_is_no_image_is_refused(image: object) -> None:
    with pytest.raises(UserError, match=r"expected (a file|pixels)|no\.png") as caught:
        captioner().pixels(image)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_attention_is_read_by_the_function_for_text(tmp_path: Path) -> None:
    path = tmp_path / "image.png"
    path.write_bytes(encode_png(pixels()))
    describe = captioner()
    found = attention_weights(describe, str(path), target="a red circle")
    assert found.weights.shape == (2, 4, 4, ROWS**2) and found.queries[:3] == ["a", "red", "circle"]
    assert found.keys[:4] == ["1,1", "1,2", "1,3", "2,1"]
    assert attention_weights(describe, str(path), kind="encoder").weights.shape == (1, 4, 9, 9)
    own = attention_weights(describe, str(path), kind="decoder")
    assert own.queries == own.keys and own.queries[0] == "<s>"
    for kind in ("cross", "decoder"):
        with pytest.raises(DataError, match="the caption has no words"):
            describe.attention_inputs(pixels(), " ", kind)
    with pytest.raises(ConfigError, match="the encoder does not see the target"):
        describe.attention_inputs(pixels(), "a red circle", "encoder")


def test_it_describes_itself() -> None:
    facts = dict(captioner().facts())
    assert "3 x 3 patches" in facts["images"] and facts["captions"] == "at most 13 tokens"
    assert facts["tokenizer"].startswith("words, ")
