"""The encoder of images: patches as vectors, and a stack of layers over them."""

from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from crosshead.attention.dropout import Dropout
from crosshead.attention.positions import sinusoidal
from crosshead.config import MOST_PATCH
from crosshead.layers.embeddings import LearnedPositions
from crosshead.models.stack import StackConfig, encoder_stack

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

    patch_positions: PatchPositions = "learned"
    """The positions that are added to patches: `learned` vectors, two-dimensional sinusoids, in
    which half of the numbers know the row and half the column, or none."""


class PatchPositionTable(nn.Module):
    """Fixed two-dimensional sinusoids.

    The first half of a vector knows the row of a patch, the second half its column.

    Args:
        d_model: Width of the vectors; divisible by 4.
        rows: Number of rows of patches, and of columns.

    Raises:
        ValueError: If `d_model` is not divisible by 4.

    Reference:
        Vaswani et al. 2017, section 3.5; Dosovitskiy et al. 2021, section D.4.
    """

    def __init__(self, d_model: int, rows: int) -> None:
        super().__init__()
        if d_model % 4:
            raise ValueError(
                f"sinusoidal patch_positions need a d_model that is divisible by 4, found {d_model}"
            )
        with torch.device("cpu"):  # also in a model that is built without memory
            line = sinusoidal(rows, d_model // 2)
        row = line[:, None].expand(rows, rows, -1)
        table = torch.cat([row, row.transpose(0, 1)], dim=-1).flatten(0, 1)
        self.register_buffer("table", table, persistent=False)
        self.table: Tensor

    def forward(self, start: int, length: int) -> Float[Tensor, "P D"]:
        """Return the vectors of patches `start` to `start + length - 1`, "P D", row by row.

        Args:
            start: The first patch, counted from 0.
            length: Number of patches, P.
        """
        return self.table[start : start + length]


class ImageEncoder(nn.Module):
    """Patches, their positions and a stack of layers.

    Args:
        config: The shape of the layers and of the patches.
        shape: The sizes of the images.
        layers: Number of layers.
        class_token: Whether a learned vector stands before the patches.

    Raises:
        ValueError: If the patches do not cover the image, or sinusoids do not fit d_model.

    Reference:
        Dosovitskiy et al. 2021, section 3.1, Eq. 1, Eq. 4.
    """

    def __init__(
        self, config: ImageStackConfig, shape: ImageShape, layers: int, *, class_token: bool
    ) -> None:
        super().__init__()
        self.config, self.shape, count = config, shape, shape.patches(config.patch_size)
        self.projection = nn.Conv2d(
            shape.channels, config.d_model, config.patch_size, stride=config.patch_size
        )
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
        """Return the hidden state of each patch, row by row, after that of the class token.

        Args:
            images: The images, "B C H W".

        Returns:
            Hidden states, "B P D".
        """
        x = self.projection(images.to(self.projection.weight.dtype)).flatten(2).transpose(1, 2)
        if self.positions is not None:
            x = x + self.positions(0, x.shape[1])
        if self.class_token is not None:
            x = torch.cat([self.class_token.expand(len(x), 1, -1), x], dim=1)
        x = self.dropout(x)
        for layer in self.stack.layers:
            x = layer(x, None)
        return self.stack.norm(x)
