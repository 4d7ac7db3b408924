"""The images of an epoch: their order, their batches, and augmentation."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from crosshead.addons.vision.data.images import as_floats
from crosshead.addons.vision.data.labelled_images import ImageData, LabelledImages
from crosshead.text.batching import EqualRows

_GREY = 128
"""The value of pixels outside of an image; it becomes 0 in the inputs of a model."""

_UNCHANGED = ImageData.model_validate({})
"""The settings without augmentation."""


@dataclass(frozen=True)
class ImageBatch:
    """Images with their classes; a mixed image has two."""

    images: Float[Tensor, "B C H W"]
    """The images, from -1 to 1."""
    targets: Float[Tensor, "B K"]
    """The share of each class in each image."""

    @property
    def count(self) -> int:
        """The number of images."""
        return len(self.targets)

    def to(self, device: torch.device) -> "ImageBatch":
        """Return the batch on a device."""
        return ImageBatch(self.images.to(device), self.targets.to(device))


@dataclass(frozen=True)
class ImageRows(EqualRows):
    """The images of an epoch.

    With `augment`, an image is a function of `drawn` and the row alone, so that a resumed run draws
    the same images.
    """

    images: LabelledImages
    tokens: int
    """The number of patches of an image, which `train.batch_tokens` counts."""
    classes: int
    augment: ImageData = _UNCHANGED
    drawn: tuple[int, ...] = ()
    row, bound, units = "image", "data.image_size", "patches"

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self.images)

    @property
    def length(self) -> int:
        """The number of patches of an image."""
        return self.tokens

    def collate(self, rows: Sequence[int]) -> ImageBatch:
        """Return the given images as a batch, augmented if the epoch is."""
        pixels, targets = zip(*map(self._augmented, rows), strict=True)
        return ImageBatch(as_floats(np.stack(pixels)), torch.from_numpy(np.stack(targets)))

    def extent(self, row: int) -> str:
        """Return the size of an image, for messages."""
        size = self.images.pixels.shape[1]
        return f"{size} x {size} pixels"

    def _augmented(self, row: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the pixels of a row and the shares of the classes, "K"."""
        data, rng = self.augment, np.random.default_rng([*self.drawn, row])
        image, target = self._view(row, rng), np.zeros(self.classes, np.float32)
        share = 1.0
        kinds = [
            (mix, alpha) for mix, alpha in ((mixup, data.mixup), (cutmix, data.cutmix)) if alpha
        ]
        if kinds:
            mix, alpha = kinds[rng.integers(len(kinds))]
            partner = int(rng.integers(len(self.images)))
            other = self._view(partner, rng)
            image, share = mix(image, other, float(rng.beta(alpha, alpha)), rng)
            target[self.images.labels[partner]] = 1 - share
        target[self.images.labels[row]] += share
        return image, target

    def _view(self, row: int, rng: np.random.Generator) -> np.ndarray:
        """Return an image, moved and mirrored at random."""
        data, image = self.augment, self.images.pixels[row]
        if data.flip and rng.random() < 0.5:
            image = image[:, ::-1]
        if not data.crop:
            return np.asarray(image)
        down, right = (int(each) for each in rng.integers(-data.crop, data.crop + 1, 2))
        return moved(image, down, right)


def moved(image: np.ndarray, down: int, right: int) -> np.ndarray:
    """Return an image moved by some pixels, with grey where it has left."""
    found = np.full(image.shape, _GREY, np.uint8)
    (to_rows, from_rows), (to_columns, from_columns) = (
        (slice(max(0, by), size + min(0, by)), slice(max(0, -by), size - max(0, by)))
        for by, size in ((down, image.shape[0]), (right, image.shape[1]))
    )
    found[to_rows, to_columns] = image[from_rows, from_columns]
    return found


def mixup(
    image: np.ndarray, other: np.ndarray, share: float, rng: np.random.Generator
) -> tuple[np.ndarray, float]:
    """Return the blend of two images, and the share of the first.

    Reference:
        Zhang et al. 2018, "mixup: Beyond Empirical Risk Minimization", Eq. 1.
    """
    blend = share * image.astype(np.float32) + (1 - share) * other
    return np.asarray(blend + 0.5, np.uint8), share


def cutmix(
    image: np.ndarray, other: np.ndarray, share: float, rng: np.random.Generator
) -> tuple[np.ndarray, float]:
    """Return an image with a box of another one, and the share of the pixels that are left.

    Reference:
        Yun et al. 2019, "CutMix", Eq. 1 and 2.
    """
    sides = np.array(image.shape[:2])
    half = sides * (1 - share) ** 0.5 / 2
    middle = rng.random(2) * sides
    (top, left), (bottom, right) = (
        np.clip(np.round(middle + sign * half), 0, sides).astype(int) for sign in (-1, 1)
    )
    found = image.copy()
    found[top:bottom, left:right] = other[top:bottom, left:right]
    return found, 1 - float((bottom - top) * (right - left) / sides.prod())
