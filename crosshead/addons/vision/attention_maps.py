"""Attention over pictures: of a classifier, and of the words of a caption."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from crosshead.addons.vision.caption_pipeline import ImageCaptioner
from crosshead.addons.vision.data.images import ImageLike
from crosshead.addons.vision.data.scenes import Region, patches_of
from crosshead.addons.vision.image_classifier import ImageClassifier
from crosshead.errors import ConfigError
from crosshead.inspection.drawing import Scale, draw_attention_of, save
from crosshead.inspection.labels import labels_of
from crosshead.inspection.picture_maps import PictureMaps, draw_maps
from crosshead.inspection.record import choose_kind, numbered, recorded_weights
from crosshead.system.plotting import drawing
from crosshead.text.tokenizers import Tokenizer, token_ids


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
        ConfigError: If the model has no attention.
        DataError: If the picture cannot be read.
    """
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
    if rollout and head is not None:
        raise ConfigError("rollout joins all heads: leave the head out")
    maps = found.rollout.unsqueeze(1) if rollout else found.heads
    layers = numbered("layer", layer, len(maps), "encoder")
    heads = numbered("head", head, maps.shape[1], "encoder")
    maps = maps[[each - 1 for each in layers]][:, [each - 1 for each in heads]]
    rows, columns = [f"layer {each}" for each in layers], [f"head {each}" for each in heads]
    if rollout:
        maps = maps.transpose(0, 1)
        rows, columns = ["all heads"], [f"up to layer {each}" for each in layers]
    kind = "Attention rollout" if rollout else "Attention of each head"
    best = ", ".join(f"{name} {share:.2f}" for name, share in found.best[:3])
    titles = labels_of([], [])._replace(queries=columns)
    pictures = [PictureMaps(found.pixels, maps, rows, titles)]
    return save(path, draw_maps(pictures, f"{kind}: {best}"))


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
    scale: Scale = "max",
) -> str:
    """Draw the attention over the picture in a file; maps over an image have one scale."""
    if target is not None:
        raise ConfigError("a classifier takes no target; leave out --target")
    if kind not in (None, "encoder", "rollout"):
        raise ConfigError(f"no attention of kind {kind!r} over an image: encoder or rollout")
    found = image_attention(pipeline, text)
    draw_image_attention(found, layer=layer, head=head, rollout=kind == "rollout", path=path)
    return f"{kind or 'encoder'} attention over {text}"


@dataclass(frozen=True)
class WordMaps:
    """The cross-attention of the words of a caption to the patches of an image.

    `weights[layer - 1, head - 1, w, r, c]` is the weight of the patch in row `r` and column `c`
    when the model predicts word `w`. A word of several pieces has the mean of their weights. The
    weights of a word sum to 1.
    """

    pixels: np.ndarray
    """The image in the model's size, "H W C", `uint8`."""
    words: list[str]
    weights: Float[Tensor, "L H W R C"]

    def of(self, layer: int | None = None, head: int | None = None) -> Float[Tensor, "W R C"]:
        """Return the weights "W R C" of one head, or the mean over layers and heads."""
        layers = numbered("layer", layer, len(self.weights), "cross")
        heads = numbered("head", head, self.weights.shape[1], "cross")
        return torch.stack(
            [self.weights[one - 1, other - 1] for one in layers for other in heads]
        ).mean(dim=0)


def word_maps(captioner: ImageCaptioner, image: ImageLike, caption: str | None = None) -> WordMaps:
    """Return the cross-attention of each word of a caption to the patches of an image.

    The model reads the whole caption at once, as in training. The row of a word belongs to the
    position that predicts it.

    Args:
        captioner: The pipeline that `crosshead.load` returns for a captioner.
        image: The file of an image, or its pixels "H W C".
        caption: The caption, by default the model's own.

    Returns:
        The maps of all layers and heads, on the CPU in float32.

    Raises:
        DataError: If the image cannot be read, or the caption has no words.
    """
    pixels = captioner.pixels(image)
    if caption is None:
        caption = captioner.search(pixels[None])[0][0].text
    weights = recorded_weights(
        captioner.model, captioner.attention_inputs(pixels, caption), "cross"
    )
    weights = weights.unflatten(-1, (captioner.rows, captioner.rows))
    tokenizer = captioner.bundle.target_tokenizer
    [ids] = token_ids(tokenizer, [caption])
    words = pieces_of_words(tokenizer, ids)
    texts = [tokenizer.decode([ids[piece] for piece in pieces]).strip() for pieces in words]
    maps = [weights[:, :, pieces].mean(dim=2) for pieces in words]
    return WordMaps(pixels, texts, torch.stack(maps, dim=2))


def pieces_of_words(tokenizer: Tokenizer, ids: Sequence[int]) -> list[list[int]]:
    """Return the places of the pieces of each word; white space separates words."""
    found: list[list[int]] = []
    for place in range(len(ids)):
        count = len(tokenizer.decode(ids[: place + 1]).split())
        if count > len(found):
            found.append([])
        if found:
            found[-1].append(place)
    return found


class Grounding(NamedTuple):
    """The cross-attention of nouns inside the regions of their objects, by layer and head.

    Reference:
        Liu et al. 2017, "Attention Correctness in Neural Image Captioning", section 3 (the weight
        inside the region).
    """

    inside: Float[Tensor, "L H"]
    """The mean share of a noun's weight inside the region of its object."""
    peaks: Float[Tensor, "L H"]
    """The share of nouns whose largest weight is inside the region of their object."""
    chance: float
    """The mean share of the patches that a region covers: the weight of uniform attention."""
    nouns: int
    """The number of nouns."""

    def best(self) -> tuple[int, int]:
        """Return the layer and the head with the most weight inside, counted from 1."""
        place = int(self.inside.argmax())
        layer, head = divmod(place, self.inside.shape[1])
        return layer + 1, head + 1


def grounding(
    captioner: ImageCaptioner,
    images: Sequence[ImageLike],
    captions: Sequence[str],
    regions: Sequence[Sequence[Region]],
) -> Grounding:
    """Measure the cross-attention of nouns inside the regions of their objects.

    The model reads each given caption. Choose a layer and a head on one set and report the measures
    of the same head on another set. The best of many heads on the same set would be too good.

    Args:
        captioner: The captioner.
        images: The images, in the model's size.
        captions: A caption of each image.
        regions: The regions of the nouns of each caption, in pixels of the image; at least one.

    Returns:
        The measures of all layers and heads.

    Raises:
        ValueError: If the lists differ in length.
    """
    inside, peaks, chances = [], [], []
    size = captioner.bundle.config.image_size
    for image, caption, places in zip(images, captions, regions, strict=True):
        maps = word_maps(captioner, image, caption).weights.flatten(-2)
        for region in places:
            mask = torch.from_numpy(patches_of(region, size, size // captioner.rows)).flatten()
            weights = maps[:, :, region.word]
            inside.append(weights[..., mask].sum(dim=-1))
            peaks.append(mask[weights.argmax(dim=-1)].float())
            chances.append(float(mask.float().mean()))
    chance = math.fsum(chances) / len(chances)
    return Grounding(
        torch.stack(inside).mean(dim=0), torch.stack(peaks).mean(dim=0), chance, len(chances)
    )


@drawing()
def draw_word_maps(
    found: Sequence[WordMaps],
    *,
    layer: int | None = None,
    head: int | None = None,
    path: Path | str | None = None,
) -> Any:
    """Draw images with one heat map per word; every caption begins a new row.

    Every map has its own scale: dark is 0, bright is its largest weight, which stands behind the
    word.

    Args:
        found: The results of `word_maps`.
        layer: The layer, counted from 1; None for the mean over all layers.
        head: The head, counted from 1; None for the mean over all heads.
        path: The file of the picture, with the suffix .png, .pdf or .svg; None writes none.

    Returns:
        The figure, a `matplotlib.figure.Figure`.

    Raises:
        ConfigError: If there is no such layer or head, or the path has another suffix.
        DataError: If there is nothing to draw, or there are more than `MOST_MAPS` maps.
        UserError: If matplotlib is missing or fails, or the file cannot be written.
    """
    pictures = [
        PictureMaps(each.pixels, each.of(layer, head)[None], [""], labels_of(each.words, []))
        for each in found
    ]
    which = [
        f"{noun} {number}" if number else f"mean over {noun}s"
        for noun, number in (("layer", layer), ("head", head))
    ]
    title = f"Cross-attention of each word to the patches: {', '.join(which)}"
    return save(path, draw_maps(pictures, title))
