"""Bundles of models that read images, and the size in which pipelines read images."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from crosshead.addons.vision.bundles import ImagePipeline, ImageTextBundle
from crosshead.addons.vision.caption_pipeline import ImageCaptioner
from crosshead.addons.vision.data.images import encode_png
from crosshead.addons.vision.image_classifier import ImageClassifier
from crosshead.addons.vision.multimodal_translator import MultimodalTranslator
from crosshead.bundle.io import save_bundle
from crosshead.config import validate
from crosshead.errors import ConfigError, DataError
from crosshead.tasks.registry import load_bundle
from crosshead.vocabulary import BOS, EOS, PAD, UNK
from tests.addons.vision.small_captioners import captioner


def test_a_bundle_that_is_saved_is_loaded_again(tmp_path: Path) -> None:
    before = captioner().bundle
    save_bundle(tmp_path, before, "a card")
    after = load_bundle(tmp_path)
    assert isinstance(after, ImageTextBundle) and after.config == before.config
    for name, weight in before.model.state_dict().items():
        assert torch.equal(weight, after.model.state_dict()[name])
    assert after.source_tokenizer is after.target_tokenizer


def test_a_caption_begins_and_ends_and_has_a_longest_length() -> None:
    bundle = captioner().bundle
    assert (bundle.specials.start, bundle.specials.eos) == (BOS, EOS)
    assert set(bundle.specials.forbidden) >= {PAD, BOS, UNK}
    assert bundle.config.most_tokens == 13  # one and a half times 8, and the end
    learned = captioner(positions="learned", max_length=9).bundle
    assert learned.config.most_tokens == 9


def test_bundles_for_images_of_other_sizes_are_not_averaged() -> None:
    one, other = captioner().bundle, captioner(size=16).bundle
    assert one.why_not_averaged(captioner().bundle) == ""
    assert "differ in image_size" in one.why_not_averaged(other)
    assert "tokenizer" in one.why_not_averaged(captioner("characters").bundle)


@pytest.mark.parametrize("change", [{"image_size": 0}, {"longest_target": 0}])
def test_impossible_sizes_are_refused(change: dict[str, int]) -> None:
    config = captioner().bundle.config
    with pytest.raises(ConfigError):
        validate(type(config), {**config.model_dump(), **change})


@pytest.mark.parametrize("kind", [ImageClassifier, ImageCaptioner, MultimodalTranslator])
def test_images_get_the_size_of_the_bundle(kind: type[ImagePipeline], tmp_path: Path) -> None:
    config = SimpleNamespace(image_size=8)
    pipeline = kind(SimpleNamespace(config=config, target_tokenizer=None))
    grey = np.full((16, 24, 3), 77, np.uint8)
    file = tmp_path / "grey.png"
    file.write_bytes(encode_png(grey))
    for image in (grey, str(file)):
        found = pipeline.pixels(image)
        assert found.shape == (8, 8, 3) and found.dtype == np.uint8 and (found == 77).all()
    file.write_bytes(file.read_bytes()[:60])
    with pytest.raises(DataError, match=r"grey\.png: not a whole image"):
        pipeline.pixels(str(file))
