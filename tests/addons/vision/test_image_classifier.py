from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from crosshead.addons.vision.bundles import ImageBundle, ImageBundleConfig
from crosshead.addons.vision.image_classifier import ImageClassifier
from crosshead.addons.vision.models.classifier import build_classifier
from crosshead.addons.vision.models.image_encoder import ImageShape
from crosshead.config import validate
from crosshead.errors import ConfigError, DataError
from crosshead.models.registry import CONFIGS
from tests.addons.vision.drawn_images import SIZE, picture
from tests.addons.vision.small_classifiers import SIZES


def classifier(architecture: str = "vit", **settings: Any) -> ImageClassifier:
    """An untrained classifier of three classes whose head is not zero."""
    torch.manual_seed(0)
    values = {"architecture": architecture, **SIZES[architecture], **settings}
    config = ImageBundleConfig(
        task="classification",
        model=CONFIGS[architecture].model_validate(values),
        classes=["high", "left", "low"],
        image_size=SIZE,
    )
    model = build_classifier(config.model, ImageShape(SIZE), 3).eval()
    torch.nn.init.normal_(model.head.weight)
    return ImageClassifier(ImageBundle(config, model))


def test_a_file_a_picture_and_its_pixels_have_the_same_classes(tmp_path: Path) -> None:
    pixels, path = picture("low", 1), tmp_path / "a.png"
    image = Image.fromarray(pixels)
    image.save(path)
    classify = classifier()
    expected = classify(pixels)
    assert classify(path) == classify(str(path)) == classify(image) == expected
    assert [share for _, share in expected] == sorted((s for _, s in expected), reverse=True)
    assert sum(share for _, share in expected) == pytest.approx(1)
    assert classify(pixels, top=1) == expected[:1]


@pytest.mark.parametrize("architecture", SIZES)
def test_a_list_is_its_images(architecture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crosshead.addons.vision.image_classifier.BATCH", 2)
    classify = classifier(architecture)
    images = [picture("low", number) for number in range(5)]
    for found, image in zip(classify(images), images, strict=True):
        for (name, share), (wanted, alone) in zip(found, classify(image), strict=True):
            assert name == wanted and share == pytest.approx(alone, abs=1e-5)
    assert classify([]) == []


def test_an_image_of_another_size_or_mode_is_fitted() -> None:
    large = np.repeat(np.repeat(picture("low", 1), 4, axis=0), 8, axis=1)
    assert classifier().pixels(large).shape == (SIZE, SIZE, 3)
    grey = classifier().pixels(large[..., 0])
    assert grey.shape == (SIZE, SIZE, 3) and (grey[..., 0] == grey[..., 2]).all()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (np.zeros((8, 8, 3)), "found float64 of shape"),
        (np.zeros(8, np.uint8), "found uint8 of shape"),
        (7, "expected a file, an image or an array, found 7"),
        ("no.png", "no.png: no such file"),
    ],
)
def test_what_is_no_image_is_refused(given: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        classifier()(given)
    with pytest.raises(ConfigError, match="top: expected 1 or more"):
        classifier()(picture("low", 1), top=0)


def test_the_bundle_of_another_shape_is_refused() -> None:
    config = classifier().bundle.config.model_dump()
    with pytest.raises(ConfigError, match="expected different names"):
        validate(ImageBundleConfig, {**config, "classes": ["a", "a"]})
    with pytest.raises(ConfigError, match="not divisible into patches of 2"):
        validate(ImageBundleConfig, {**config, "image_size": 7})
    assert classifier().bundle.longest_input == 16
