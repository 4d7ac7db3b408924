"""What all image classifiers share."""

import pytest
import torch

from crosshead.addons.vision.models.classifier import ClassifierConfig, build_classifier
from crosshead.addons.vision.models.image_convnet import ConvNetConfig
from crosshead.addons.vision.models.image_encoder import ImageShape
from crosshead.addons.vision.models.vision_transformer import VisionTransformerConfig

CONFIGS = (
    VisionTransformerConfig(d_model=16, d_ff=32, heads=2, layers=2),
    ConvNetConfig(d_model=32),
)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda each: each.architecture)
def test_all_classes_are_equally_probable_at_first(config: ClassifierConfig) -> None:
    fresh = build_classifier(config, ImageShape(8), 3)
    found = fresh(torch.randn(2, 3, 8, 8))
    assert found.shape == (2, 3) and (found == 0).all()
