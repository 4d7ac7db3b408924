"""The attention of an image classifier over a picture: of each head, and by rollout."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from crosshead.data.images import ImageLike
from crosshead.errors import ConfigError
from crosshead.inspection.attention_weights import recorded_weights
from crosshead.inspection.record import choose_kind
from crosshead.pipelines.image_classifier import ImageClassifier


@dataclass(frozen=True)
class ImageAttention:
    """The attention of an image classifier over the patches of a picture, "rows columns".

    A map holds the weights of the class token for the patches. Of a classifier without class token,
    it is the mean of the weights of all patches. The weight of the class token for itself is left
    out, so that a map may sum to less than 1.
    """

    pixels: np.ndarray
    """The picture as the model reads it, "H W C", `uint8`."""
    best: list[tuple[str, float]]
    """The most probable classes, with their probabilities."""
    heads: Float[Tensor, "L H R R"]
    """The map of each head."""
    rollout: Float[Tensor, "L R R"]
    """The map of all layers up to each layer, by rollout."""


def image_attention(classifier: ImageClassifier, image: ImageLike) -> ImageAttention:
    """Return the attention of a classifier over a picture.

    Args:
        classifier: The pipeline that `crosshead.load` returns, of a model with attention.
        image: The file of the picture, an image of Pillow, or pixels "H W C" or "H W".

    Raises:
        ConfigError: If the model has no attention, or is no classifier.
        DataError: If the picture cannot be read.
    """
    if not isinstance(classifier, ImageClassifier):
        raise ConfigError(
            "expected a classifier of images, which crosshead.load returns, found "
            f"{type(classifier).__name__}"
        )
    choose_kind(classifier.model, None)
    pixels = classifier.pixels(image)
    weights = recorded_weights(classifier.model, classifier.over_patches(pixels), "encoder")
    rows = classifier.rows
    return ImageAttention(
        pixels,
        classifier(pixels),
        _over_patches(weights, rows),
        _over_patches(attention_rollout(weights), rows),
    )


def attention_rollout(weights: Float[Tensor, "L H P P"]) -> Float[Tensor, "L P P"]:
    """Return how much of each input position reaches each position, up to each layer.

    The weights of a layer are the mean of its heads. The residual connection carries half of a
    position past the layer.

    Args:
        weights: The weights of all layers and heads, "L H P P".

    Returns:
        For each layer the product of its weights and all below, "L P P". Rows sum to 1.

    Reference:
        Abnar and Zuidema 2020, "Quantifying Attention Flow in Transformers", section 3.
    """
    found: list[Tensor] = []
    for each in 0.5 * weights.mean(dim=1) + 0.5 * torch.eye(weights.shape[-1]):
        found.append(each @ found[-1] if found else each)
    return torch.stack(found)


def _over_patches(weights: Float[Tensor, "*layers P P"], rows: int) -> Float[Tensor, "*layers R R"]:
    """Return the weights of the class token, or of the mean of all patches, as maps."""
    has_token = weights.shape[-1] > rows**2
    maps: Tensor = weights[..., 0, 1:] if has_token else weights.mean(dim=-2)
    return maps.reshape(*maps.shape[:-1], rows, rows)
