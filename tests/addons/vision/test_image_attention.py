from pathlib import Path

import pytest
import torch
from PIL import Image

from crosshead.errors import ConfigError
from crosshead.inspection import attention_rollout, attention_weights, image_attention
from tests.addons.vision.drawn_images import SIZE, picture
from tests.addons.vision.test_image_classifier import classifier
from tests.inspection.pipelines import pipeline_of


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
    assert found.pixels.shape == (SIZE, SIZE, 3) and found.best == classify(image)
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
    with pytest.raises(ConfigError, match="expected a classifier of images"):
        image_attention(pipeline_of("language"), image)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="takes no target"):
        attention_weights(classifier(), str(image), target="a")
