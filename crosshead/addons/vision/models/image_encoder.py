"""The encoder of images: patches as vectors, and a stack of layers over them."""

from itertools import pairwise
from typing import Literal, NamedTuple, Self

import torch
from jaxtyping import Float
from pydantic import Field, model_validator
from torch import Tensor, nn

from crosshead.attention.dropout import Dropout
from crosshead.attention.positions import sinusoidal
from crosshead.config import MOST_PATCH
from crosshead.layers.embeddings import LearnedPositions
from crosshead.models.stack import StackConfig, encoder_stack

Stem = Literal["patch", "convolution"]
"""The kinds of layers that turn pixels into patches."""

PatchPositions = Literal["learned", "sinusoidal", "none"]
"""The kinds of positions of patches; sinusoids are two-dimensional."""


class ImageShape(NamedTuple):
    """The sizes of the images that a model is built for."""

    size: int
    """Height and width in pixels."""
    channels: int = 3

    def patches(self, patch_size: int) -> int:
        """Return the number of patches of an image.

        Args:
            patch_size: Height and width of a patch, in pixels.

        Raises:
            ValueError: If the patches do not cover the image.
        """
        if self.size % patch_size:
            raise ValueError(
                f"images of {self.size} pixels are not divisible into patches of {patch_size}; "
                "choose another patch_size or image_size"
            )
        return (self.size // patch_size) ** 2


class ImageStackConfig(StackConfig):
    """The settings of models that read images as patches."""

    patch_size: int = Field(4, ge=1, le=MOST_PATCH)
    """Height and width of a patch, in pixels (Dosovitskiy et al. 2021, section 3.1)."""

    stem: Stem = "patch"
    """The layers that turn pixels into patches: one projection of each `patch` (Dosovitskiy et al.
    2021), or 3 x 3 convolutions, each with a pooling that halves the image (`convolution`; Hassani
    et al. 2021). Convolutions learn more from few images; their patch_size is a power of 2."""

    patch_positions: PatchPositions = "learned"
    """The positions that are added to patches: `learned` vectors, two-dimensional sinusoids, in
    which half of the numbers encode the row and half the column, or none."""

    @model_validator(mode="after")
    def _check_positions(self) -> Self:
        if self.patch_positions == "sinusoidal" and self.d_model % 4:
            raise ValueError(
                "sinusoidal patch_positions need a d_model that is divisible by 4, found "
                f"{self.d_model}"
            )
        return self

    @model_validator(mode="after")
    def _check_stem(self) -> Self:
        if self.stem == "convolution" and (self.patch_size < 2 or self.patch_size.bit_count() > 1):
            raise ValueError(
                "stem 'convolution' halves the image several times: it needs a patch_size that is "
                f"a power of 2, found {self.patch_size}"
            )
        return self


class PatchPositionTable(nn.Module):
    """Fixed two-dimensional sinusoids.

    The first half of a vector encodes the row of a patch, the second half its column.

    Reference:
        Vaswani et al. 2017, section 3.5; Dosovitskiy et al. 2021, section D.4.
    """

    def __init__(self, d_model: int, rows: int) -> None:
        super().__init__()
        with torch.device("cpu"):  # also in a model that is built without memory
            line = sinusoidal(rows, d_model // 2)
        row = line[:, None].expand(rows, rows, -1)
        table = torch.cat([row, row.transpose(0, 1)], dim=-1).flatten(0, 1)
        self.register_buffer("table", table, persistent=False)
        self.table: Tensor

    def forward(self, start: int, length: int) -> Float[Tensor, "P D"]:
        """Return the vectors of patches `start` to `start + length - 1`, "P D", row by row."""
        return self.table[start : start + length]


class ImageEncoder(nn.Module):
    """Patches, their positions and a stack of layers.

    Reference:
        Dosovitskiy et al. 2021, section 3.1, Eq. 1, Eq. 4.
    """

    def __init__(
        self, config: ImageStackConfig, shape: ImageShape, layers: int, *, class_token: bool
    ) -> None:
        super().__init__()
        self.config, self.shape, count = config, shape, shape.patches(config.patch_size)
        self.projection = patch_stem(config, shape.channels)
        self.class_token = nn.Parameter(torch.zeros(config.d_model)) if class_token else None
        self.positions: nn.Module | None = None
        if config.patch_positions == "learned":
            self.positions = LearnedPositions(config.d_model, count, std=0.02)
        elif config.patch_positions == "sinusoidal":
            self.positions = PatchPositionTable(config.d_model, shape.size // config.patch_size)
        self.dropout = Dropout(config.dropout)
        # Positions of text, which a decoder may have, do not act between patches.
        self.stack = encoder_stack(config.model_copy(update={"positions": "none"}), layers)

    def forward(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B P D"]:
        """Return the hidden state of each patch, row by row, after that of the class token."""
        x = self.projection(for_convolutions(images, next(self.parameters()).dtype))
        x = x.flatten(2).transpose(1, 2)
        if self.positions is not None:
            x = x + self.positions(0, x.shape[1])
        if self.class_token is not None:
            x = torch.cat([self.class_token.expand(len(x), 1, -1), x], dim=1)
        x = self.dropout(x)
        for layer in self.stack.layers:
            x = layer(x, None)
        return self.stack.norm(x)


def for_convolutions(images: Float[Tensor, "B C H W"], dtype: torch.dtype) -> Tensor:
    """Return images in the type of a model, with the colours of a pixel side by side in memory.

    In this order convolutions on CPUs take about half the time.
    """
    return images.to(dtype, memory_format=torch.channels_last)


def patch_stem(config: ImageStackConfig, channels: int) -> nn.Module:
    """Build the layers from pixels, "B C H W", to patches, "B D R R".

    The stem of convolutions has a 3 x 3 convolution, a norm, ReLU and a pooling for each halving of
    the image, and doubles the width each time. Its norms are group norms: batch norm would make an
    image depend on the other images of its part of a batch. The paper has no norm.

    Reference:
        Dosovitskiy et al. 2021, Eq. 1; Hassani et al. 2021, "Escaping the Big Data Paradigm with
        Compact Transformers", section 3.3.
    """
    if config.stem == "patch":
        size = config.patch_size
        return nn.Conv2d(channels, config.d_model, size, stride=size)
    steps = config.patch_size.bit_length() - 1
    widths = [channels, *(max(1, config.d_model >> steps - each) for each in range(1, steps + 1))]
    found: list[nn.Module] = []
    for before, width in pairwise(widths):
        found += [*convolution(before, width, 1), nn.MaxPool2d(3, stride=2, padding=1)]
    return nn.Sequential(*found, nn.Conv2d(config.d_model, config.d_model, 1))


def convolution(before: int, width: int, groups: int) -> list[nn.Module]:
    """Return a 3 x 3 convolution with a group norm and ReLU."""
    layer = nn.Conv2d(before, width, 3, padding=1, bias=False)
    return [layer, nn.GroupNorm(groups, width), nn.ReLU()]
