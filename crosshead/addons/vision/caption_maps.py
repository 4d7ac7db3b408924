"""Cross-attention of captions as maps over images: data, measures of it, and pictures."""

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
from crosshead.errors import ConfigError, DataError
from crosshead.inspection.attention_weights import recorded_weights
from crosshead.inspection.drawing import check_picture, save
from crosshead.inspection.labels import labels_of
from crosshead.inspection.picture_maps import (
    PICTURE_SIZE,
    SCALE,
    check_maps,
    overlay,
    with_largest,
)
from crosshead.inspection.record import check_numbered
from crosshead.system.plotting import drawing, new_figure
from crosshead.text.tokenizers import Tokenizer, token_ids

_ACROSS = 10
"""The largest number of pictures in a row."""


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
        layers, heads = self.weights.shape[:2]
        found = self.weights
        if layer is not None:
            check_numbered("layer", layer, layers, "cross")
            found = found[layer - 1 : layer]
        if head is not None:
            check_numbered("head", head, heads, "cross")
            found = found[:, head - 1 : head]
        return found.mean(dim=(0, 1))


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
        ConfigError: If `captioner` is no captioner.
        DataError: If the image cannot be read, or the caption has no words.
    """
    if not isinstance(captioner, ImageCaptioner):
        raise ConfigError(
            "expected what crosshead.load returns for a captioner, found "
            f"{type(captioner).__name__}"
        )
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
        regions: The regions of the nouns of each caption, in pixels of the image.

    Returns:
        The measures of all layers and heads.

    Raises:
        DataError: If there is no noun, or the lists differ in length.
    """
    if not len(images) == len(captions) == len(regions) or not any(regions):
        raise DataError(
            f"expected a caption and regions for each image, and a noun; found {len(images)} "
            f"images, {len(captions)} captions and {len(regions)} lists of regions"
        )
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
    if path is not None:
        check_picture(Path(path))
    total = sum(1 + len(each.words) for each in found)
    check_maps(total, "give fewer images")
    across = min(_ACROSS, max(1 + len(each.words) for each in found))
    rows = [-(-len(each.words) // (across - 1)) for each in found]
    figure = new_figure(figsize=(across * PICTURE_SIZE, sum(rows) * (PICTURE_SIZE + 0.22) + 0.5))
    cells = figure.subplots(sum(rows), across, squeeze=False)
    for axes in cells.flat:
        axes.set_axis_off()
    labels = labels_of([word for each in found for word in each.words], [])
    words = iter(labels.queries)
    first = 0
    for each, height in zip(found, rows, strict=True):
        cells[first, 0].imshow(each.pixels)
        for number, weights in enumerate(each.of(layer, head)):
            row, column = divmod(number, across - 1)
            axes = cells[first + row, 1 + column]
            overlay(axes, each.pixels, weights.numpy())
            title = with_largest(next(words), weights.numpy())
            axes.set_title(title, fontsize=9, pad=2, **labels.options)
        first += height
    which = [
        f"{noun} {number}" if number else f"mean over {noun}s"
        for noun, number in (("layer", layer), ("head", head))
    ]
    title = f"Cross-attention of each word to the patches: {', '.join(which)}"
    figure.suptitle(f"{title}\n{SCALE}", fontsize=9)
    if path is not None:
        save(Path(path), figure)
    return figure
