"""What all image classifiers share, and the convolutional network."""

from typing import Any

import pytest
import torch

from crosshead.addons.vision.models.classifier import (
    Classifier,
    ClassifierConfig,
    ConvNetConfig,
    build_classifier,
)
from crosshead.addons.vision.models.image_encoder import ImageShape
from crosshead.addons.vision.models.vision_transformer import VisionTransformerConfig
from crosshead.config import validate
from crosshead.errors import ConfigError

CONFIGS = (
    VisionTransformerConfig(d_model=16, d_ff=32, heads=2, layers=2),
    ConvNetConfig(d_model=32),
)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda each: each.architecture)
def test_all_classes_are_equally_probable_at_first(config: ClassifierConfig) -> None:
    fresh = build_classifier(config, ImageShape(8), 3)
    found = fresh(torch.randn(2, 3, 8, 8))
    assert found.shape == (2, 3) and (found == 0).all()


def model(size: int = 8, **settings: Any) -> Classifier:
    torch.manual_seed(1)
    values = {"d_model": 16, "blocks": 2, "dropout": 0.0, **settings}
    found = build_classifier(ConvNetConfig(**values), ImageShape(size), 3).eval()
    torch.nn.init.normal_(found.head.weight)
    return found


def test_a_batch_is_its_images_in_training_too() -> None:
    """Group norm, other than batch norm, looks at one image at a time."""
    images = torch.randn(3, 3, 8, 8)
    net = model().train()
    torch.testing.assert_close(net(images), torch.cat([net(each[None]) for each in images]))
    assert not list(net.buffers())


def test_every_block_doubles_the_width_and_halves_the_image() -> None:
    net, x = model(), torch.randn(2, 3, 8, 8)
    for block, shape in zip(net.blocks, [(2, 8, 4, 4), (2, 16, 2, 2)], strict=True):
        x = block(x)
        assert x.shape == shape
    assert net(torch.randn(2, 3, 8, 8)).shape == (2, 3)
    assert list(net.layers()) == list(net.blocks)


def test_a_picture_that_moves_by_a_whole_field_keeps_its_class() -> None:
    net, images = model(size=32), torch.zeros(1, 3, 32, 32)
    moved = images.clone()
    patch = torch.randn(3, 4, 4)
    images[..., 12:16, 12:16], moved[..., 16:20, 12:16] = patch, patch
    torch.testing.assert_close(net(images), net(moved), atol=1e-4, rtol=1e-3)


def test_impossible_sizes_are_refused() -> None:
    with pytest.raises(ConfigError, match="d_model 24 is not divisible by 32"):
        validate(ConvNetConfig, {"d_model": 24})
    with pytest.raises(ConfigError, match="heads: convnet has no attention"):
        validate(ConvNetConfig, {"heads": 4})
    with pytest.raises(ValueError, match="3 blocks halve images of 4 pixels to nothing"):
        ConvNetConfig().tokens(ImageShape(4))
    assert ConvNetConfig().tokens(ImageShape(32)) == 64
