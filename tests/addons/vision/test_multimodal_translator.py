"""Translation of sentences beside images: files and arrays, batches, long lines, attention."""

from pathlib import Path

import numpy as np
import pytest
import torch

from crosshead.addons.vision.data.images import encode_png
from crosshead.decoding.settings import DecodeConfig
from crosshead.errors import ConfigError, DataError
from crosshead.inspection import attention_weights, record_attention
from tests.addons.vision.small_captioners import pixels
from tests.addons.vision.small_multimodal import ROWS, SOURCES, translator


@pytest.mark.slow
def test_a_file_is_its_pixels_and_a_list_is_each_of_its_pairs(tmp_path: Path) -> None:
    translate, images = translator(), [pixels(number) for number in range(4)]
    files = [tmp_path / f"{number}.png" for number in range(4)]
    for path, image in zip(files, images, strict=True):
        path.write_bytes(encode_png(image))
    texts = [SOURCES[number % 3] for number in range(4)]
    pairs = list(zip(images, texts, strict=True))
    found = translate(pairs)
    assert found == translate(list(zip(files, texts, strict=True)))
    assert found == [translate(pair) for pair in pairs]
    assert translate([]) == [] and translate((images[0], " ")) == ""


def test_translations_come_best_first_with_their_scores() -> None:
    translate = translator()
    decode = DecodeConfig(beam=4, max_extra=3)
    [found] = translate.translate([(pixels(), SOURCES[0])], decode=decode, n_best=3)
    assert len(found) == 3
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
    best = found[0]
    given = translate.given(pixels(), SOURCES[0], best.text)
    with torch.inference_mode():
        log_probs = translate.model(*given.inputs).log_softmax(-1)[0]
    ids = [*translate.bundle.target_tokenizer.encode(best.text), 2][: len(best.pieces)]
    total = sum(float(log_probs[place, token]) for place, token in enumerate(ids))
    assert total == pytest.approx(best.log_prob, abs=1e-4)


def test_the_image_belongs_to_its_sentence() -> None:
    """In a batch of several lengths every sentence is read beside its own image."""
    translate = translator()
    images = np.stack([pixels(0), pixels(1)])
    lines = [SOURCES[0], SOURCES[1], SOURCES[0], SOURCES[1]]
    greedy = DecodeConfig(beam=1, max_extra=6)
    found = translate.search(images, [0, 1, 1, 0], lines, greedy)
    for row, (image, line) in enumerate(zip([0, 1, 1, 0], lines, strict=True)):
        [[alone]] = translate.search(images[[image]], [0], [line], greedy)
        assert alone.log_prob == pytest.approx(found[row][0].log_prob, rel=1e-4)
    one, other = found[0][0].log_prob, found[2][0].log_prob
    assert one != pytest.approx(other, rel=1e-3)


def test_a_long_sentence_is_translated_in_parts_beside_one_image() -> None:
    translate = translator()
    line = " ".join(["one more word."] * 6)
    decode = DecodeConfig(beam=1, max_extra=2)
    [[found]] = translate.translate([(pixels(), line)], decode=decode)
    assert found.was_split
    [[other]] = translate.translate([(pixels(1), line)], decode=decode)
    assert other.was_split and other.log_prob != found.log_prob  # the parts see the image
    with pytest.raises(DataError, match="reads at most 10 at once"):
        translate.given(pixels(), line)


@pytest.mark.parametrize("pair", ["a sentence", ("a.png",), (pixels(), 3), 7])
def test_what_is_no_pair_is_refused(pair: object) -> None:
    with pytest.raises(DataError, match="pair 1: expected an image and a sentence") as caught:
        translator().translate([pair])  # type: ignore[list-item]
    assert "\n" not in str(caught.value)


def test_an_image_that_is_not_there_is_refused() -> None:
    with pytest.raises(DataError, match=r"no\.png"):
        translator()(("no.png", SOURCES[0]))


def test_attention_of_every_kind_is_read(tmp_path: Path) -> None:
    path = tmp_path / "image.png"
    path.write_bytes(encode_png(pixels()))
    translate, text = translator(), f"{path}\t{SOURCES[1]}"
    cross = attention_weights(translate, text, target="ein grünes Quadrat")
    assert cross.queries == ["ein", "grünes", "Quadrat", "</s>"]
    assert cross.keys == ["a", "green", "square", "</s>"] and cross.kind == "cross"
    assert cross.weights.shape == (2, 4, 4, 4)
    image = attention_weights(translate, text, kind="image")
    assert image.queries == cross.keys and image.keys[:4] == ["1,1", "1,2", "1,3", "2,1"]
    assert image.weights.shape == (1, 4, 4, ROWS**2)
    torch.testing.assert_close(image.weights.sum(-1), torch.ones(1, 4, 4))
    assert attention_weights(translate, text, kind="encoder").weights.shape == (1, 4, 4, 4)
    own = attention_weights(translate, text, kind="decoder")
    assert own.queries == own.keys and own.queries[0] == "<s>"
    with pytest.raises(ConfigError, match="the encoder does not see the target"):
        attention_weights(translate, text, target="ein", kind="image")
    with pytest.raises(DataError, match="the file of an image, a tab and a sentence"):
        attention_weights(translate, SOURCES[1])


def test_recording_changes_nothing() -> None:
    translate = translator()
    before = translate((pixels(), SOURCES[0]))
    with record_attention(translate) as recorded:
        assert translate((pixels(), SOURCES[0])) == before
    assert recorded["fusion.attention"][0].shape == (1, 4, 9, ROWS**2)


def test_gates_are_named_by_the_pieces() -> None:
    found = translator().gates(pixels(), SOURCES[1])
    assert [piece for piece, _ in found] == ["a", "green", "square", "</s>"]
    assert all(0 < gate < 1 for _, gate in found)


def test_it_describes_itself() -> None:
    facts = dict(translator().facts())
    assert "3 x 3 patches" in facts["images"] and ";" in facts["tokenizer"]
    assert facts["longest line"].startswith("9 tokens")
