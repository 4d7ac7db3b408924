"""The attention of an image classifier over a picture: of each head, and by rollout."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from crosshead.addons.vision.data.images import ImageLike
from crosshead.addons.vision.image_classifier import ImageClassifier
from crosshead.errors import ConfigError
from crosshead.inspection.attention_weights import recorded_weights
from crosshead.inspection.drawing import check_picture, draw_attention_of, save
from crosshead.inspection.labels import labels_of
from crosshead.inspection.picture_maps import draw_maps
from crosshead.inspection.record import check_numbered, choose_kind
from crosshead.system.plotting import drawing


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
    weights = recorded_weights(classifier.model, classifier.attention_inputs(pixels), "encoder")
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


@drawing()
def draw_image_attention(
    found: ImageAttention,
    *,
    layer: int | None = None,
    head: int | None = None,
    rollout: bool = False,
    path: Path | str | None = None,
) -> Any:
    """Draw the attention of a classifier over a picture.

    Beside the picture stand maps with a row for each layer and a column for each head, or one map
    for each layer by rollout. Each map has its own scale: dark is 0, bright is its largest weight.

    Args:
        found: The result of `image_attention`.
        layer: The layer, counted from 1. By default all layers.
        head: The head, counted from 1. By default all heads. Rollout joins the heads.
        rollout: True for attention rollout up to each layer.
        path: The file of the figure, with the suffix .png, .pdf or .svg; None writes none.

    Returns:
        The figure, a `matplotlib.figure.Figure`.

    Raises:
        ConfigError: If there is no such layer or head, or the path has another suffix.
        UserError: If matplotlib is missing or fails, or the file cannot be written.
    """
    if path is not None:
        check_picture(Path(path))
    if rollout and head is not None:
        raise ConfigError("rollout joins all heads: leave the head out")
    maps = found.rollout.unsqueeze(1) if rollout else found.heads
    for noun, number, count in (("layer", layer, len(maps)), ("head", head, maps.shape[1])):
        if number is not None:
            check_numbered(noun, number, count, "encoder")
    layers = [layer] if layer else list(range(1, len(maps) + 1))
    heads = [head] if head else list(range(1, maps.shape[1] + 1))
    maps = maps[[each - 1 for each in layers]][:, [each - 1 for each in heads]]
    rows, columns = [f"layer {each}" for each in layers], [f"head {each}" for each in heads]
    if rollout:
        maps = maps.transpose(0, 1)
        rows, columns = ["all heads"], [f"up to layer {each}" for each in layers]
    kind = "Attention rollout" if rollout else "Attention of each head"
    best = ", ".join(f"{name} {share:.2f}" for name, share in found.best[:3])
    labels = labels_of([], [])._replace(queries=columns)
    figure = draw_maps(found.pixels, maps, rows, labels, f"{kind}: {best}")
    if path is not None:
        save(Path(path), figure)
    return figure


@draw_attention_of.register
def _(
    pipeline: ImageClassifier,
    text: str,
    path: Path,
    *,
    target: str | None,
    kind: str | None,
    layer: int | None,
    head: int | None,
) -> str:
    """Draw the attention over the picture in a file."""
    if target is not None:
        raise ConfigError("a classifier takes no target; leave out --target")
    if kind not in (None, "encoder", "rollout"):
        raise ConfigError(f"no attention of kind {kind!r} over an image: encoder or rollout")
    found = image_attention(pipeline, text)
    draw_image_attention(found, layer=layer, head=head, rollout=kind == "rollout", path=path)
    return f"{kind or 'encoder'} attention over {text}"
