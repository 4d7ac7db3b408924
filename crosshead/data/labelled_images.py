"""Images and their classes: the section `[data]`, splits, augmentation, and the rows of an epoch.

The class of an image is the folder that directly holds it. Folders `train`, `valid` (or `val`) and
`test` above the classes are splits.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor

from crosshead.config import MOST, MOST_PATCH, nearest
from crosshead.data.batching import Plan
from crosshead.data.images import (
    CHANNELS,
    ImageFolder,
    as_floats,
    decode_images,
    image_extent,
)
from crosshead.data.section import DataSection, Names
from crosshead.errors import DataError

SPLITS = {"train": "train", "valid": "valid", "val": "valid", "test": "test"}
"""The splits by the names of their folders."""

LARGEST_SIZE, USUAL_SIZE = 96, 64
"""The largest common size of images that is kept, and the size of images without one."""

MOST_MEMORY = 4 << 30
"""The largest memory of the decoded images of a run in bytes: 1.4 million images of 32 pixels."""

_LOOKED_AT = 100
"""The number of images, spread over the set, whose sizes are compared."""

_ORDER_SEED = 1
"""The seed of the order of images in which some are held out. It is the same in all runs, so that
runs of different seeds are validated on the same images."""

_GREY = 128
"""The value of pixels outside of an image; it becomes 0 in the inputs of a model."""


class ImageData(DataSection):
    """Images with classes: the section `[data]` of a recipe for classification."""

    file_keys: ClassVar[tuple[str, ...]] = ("images", "valid_images")

    images: Names = Field(default_factory=list)
    """Folders, or zip archives of folders, with a folder of images for each class. Folders `train`,
    `valid` and `test` above the classes are splits. Images of `test` are scored once, at the
    end."""

    valid_images: Names = Field(default_factory=list)
    """Validation images, as for `images`; every image counts. Unset: the folder `valid` of
    `images`, or images held out of training."""

    valid_share: float = Field(0.1, gt=0, lt=1)
    """The share of the training images that is held out for validation, of each class, if there are
    no validation images. They are the same for every seed."""

    train_images: int | None = Field(None, ge=1, le=MOST)
    """The number of training images, of each class in proportion, to measure how much data matter.
    Unset: all images that are not held out."""

    image_size: int | None = Field(None, ge=1, le=MOST_PATCH)
    """Height and width in pixels. The shorter side of an image is scaled to it, and the middle is
    cut out. Unset: the size of the images if all are squares of one size, up to 96, or else 64."""

    crop: int = Field(0, ge=0, le=MOST_PATCH)
    """Augmentation: in training, move each image by up to this many pixels in both directions; grey
    fills the rest. This is a random crop of the padded image. 0 turns it off."""

    flip: bool = False
    """Augmentation: in training, mirror half of the images, left to right. Leave it off where left
    and right matter, as in text."""

    mixup: float = Field(0.0, ge=0, le=100)
    """Augmentation: in training, blend each image and its class with another one (Zhang et al.
    2018). The share of one of them is drawn from Beta(mixup, mixup). 0 turns it off."""

    cutmix: float = Field(0.0, ge=0, le=100)
    """Augmentation: in training, replace a box in each image by the box of another image, and the
    same share of its class (Yun et al. 2019). The share is drawn from Beta(cutmix, cutmix). With
    `mixup`, each image gets one of both. 0 turns it off."""


@dataclass(frozen=True)
class LabelledImages:
    """Decoded images with their classes."""

    pixels: np.ndarray
    """The pixels, `uint8`, "N H W C"."""
    labels: np.ndarray
    """The number of the class of each image."""
    names: list[str]
    """The file of each image, below its folder or archive."""

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self.labels)


class ImageSets(NamedTuple):
    """The images of a run."""

    train: LabelledImages
    valid: LabelledImages
    test: LabelledImages
    """The images of the split `test`; they may be none."""
    classes: list[str]
    size: int
    """Height and width of all images."""
    held_out: bool
    """True if the validation images were held out of training."""
    broken: list[str]
    """A message for each image that could not be decoded."""
    counts: dict[str, int]
    """The number of images in each folder or archive, by its name in the recipe."""


@dataclass(frozen=True)
class ImageBatch:
    """Images with their classes; a mixed image has two."""

    images: Float[Tensor, "B C H W"]
    """The images, from -1 to 1."""
    labels: Int[Tensor, " B"]
    """The class of each image, or the class with the larger share."""
    others: Int[Tensor, " B"]
    """The class that was mixed in."""
    shares: Float[Tensor, " B"]
    """The share of `labels`, from 0.5 to 1."""

    @property
    def count(self) -> int:
        """The number of images."""
        return len(self.labels)

    def to(self, device: torch.device) -> "ImageBatch":
        """Return the batch on a device."""
        parts = (self.images, self.labels, self.others, self.shares)
        return ImageBatch(*(each.to(device) for each in parts))


@dataclass(frozen=True)
class ImageRows:
    """The images of an epoch.

    With `augment`, an image is a function of `drawn` and the row alone, so that a resumed run draws
    the same images.
    """

    images: LabelledImages
    tokens: int
    """The number of patches of an image, which `train.batch_tokens` counts."""
    augment: ImageData | None = None
    drawn: tuple[int, ...] = ()
    row, bound = "image", "data.image_size"

    @property
    def lengths(self) -> np.ndarray:
        """The number of patches of each image, "N 1"."""
        return np.full((len(self.images), 1), self.tokens)

    def plan(self, max_tokens: int, seed: int, epoch: int) -> Plan:
        """Return the images of each batch, in an order drawn from (seed, epoch).

        Args:
            max_tokens: The largest number of patches of a batch.
            seed: The random seed of the run.
            epoch: The number of the epoch.
        """
        order = np.random.default_rng([seed, epoch]).permutation(len(self.images))
        return self._cut(order, max_tokens)

    def in_order(self, max_tokens: int) -> Plan:
        """Return all images in order, in batches of at most `max_tokens` patches."""
        return self._cut(np.arange(len(self.images)), max_tokens)

    def collate(self, rows: Sequence[int]) -> ImageBatch:
        """Return the given images as a batch, augmented if the epoch is."""
        if self.augment is None:
            pixels, labels = self.images.pixels[list(rows)], self.images.labels[list(rows)]
            others, shares = labels, np.ones(len(labels), np.float32)
        else:
            drawn = [self._augmented(row, self.augment) for row in rows]
            pixels = np.stack([each[0] for each in drawn])
            labels, others = (np.array([each[at] for each in drawn]) for at in (1, 2))
            shares = np.array([each[3] for each in drawn], np.float32)
        parts = (torch.from_numpy(each) for each in (labels, others, shares))
        return ImageBatch(as_floats(pixels), *parts)

    def extent(self, row: int) -> str:
        """Return the size of an image, for messages."""
        size = self.images.pixels.shape[1]
        return f"{size} x {size} pixels"

    def _augmented(self, row: int, data: ImageData) -> tuple[np.ndarray, int, int, float]:
        """Return the pixels of a row, its two classes, and the share of the first."""
        rng = np.random.default_rng([*self.drawn, row])
        image, label = self._view(row, data, rng), int(self.images.labels[row])
        kinds = [
            (mix, alpha) for mix, alpha in ((mixup, data.mixup), (cutmix, data.cutmix)) if alpha
        ]
        if not kinds:
            return image, label, label, 1.0
        mix, alpha = kinds[rng.integers(len(kinds))]
        partner = int(rng.integers(len(self.images)))
        other, beside = int(self.images.labels[partner]), self._view(partner, data, rng)
        image, share = mix(image, beside, float(rng.beta(alpha, alpha)), rng)
        return (image, label, other, share) if share >= 0.5 else (image, other, label, 1 - share)

    def _view(self, row: int, data: ImageData, rng: np.random.Generator) -> np.ndarray:
        """Return an image, moved and mirrored at random."""
        image = self.images.pixels[row]
        if data.flip and rng.random() < 0.5:
            image = image[:, ::-1]
        if not data.crop:
            return np.asarray(image)
        down, right = (int(each) for each in rng.integers(-data.crop, data.crop + 1, 2))
        return moved(image, down, right)

    def _cut(self, order: np.ndarray, max_tokens: int) -> Plan:
        size = max_tokens // self.tokens
        if size < 1:
            raise DataError(
                f"an image has {self.tokens:,} patches, more than the {max_tokens:,} of "
                "train.batch_tokens; raise it, or lower data.image_size"
            )
        return np.split(order, range(size, len(order), size))


def moved(image: np.ndarray, down: int, right: int) -> np.ndarray:
    """Return an image moved by some pixels, with grey where it has left.

    Args:
        image: The pixels, "H W C".
        down: Pixels down, or up if negative.
        right: Pixels to the right, or to the left if negative.
    """
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

    Args:
        image: The pixels, "H W C".
        other: The pixels of the other image.
        share: The share of the first image.
        rng: Not used: a blend has no place.

    Reference:
        Zhang et al. 2018, "mixup: Beyond Empirical Risk Minimization", Eq. 1.
    """
    blend = share * image.astype(np.float32) + (1 - share) * other
    return np.asarray(blend + 0.5, np.uint8), share


def cutmix(
    image: np.ndarray, other: np.ndarray, share: float, rng: np.random.Generator
) -> tuple[np.ndarray, float]:
    """Return an image with a box of another one, and the share of the pixels that are left.

    Args:
        image: The pixels, "H W C".
        other: The pixels of the other image.
        share: The intended share. A box at the border is cut, so that more may be left.
        rng: The generator that draws the middle of the box.

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


class Listed(NamedTuple):
    """An image that was found: its folder, its name, its split (or "") and its class."""

    folder: ImageFolder
    name: str
    split: str
    label: str


def read_image_sets(
    data: ImageData,
    classes: Sequence[str] = (),
    workers: int = 1,
    say: Callable[[str], None] = lambda line: None,
    check: Callable[[], None] = lambda: None,
) -> ImageSets:
    """Find, split and decode the images of a run.

    Args:
        data: The section `[data]`.
        classes: The classes of a bundle that training starts from; by default those of the images.
        workers: The number of processes that decode large sets.
        say: A callback that gets messages about the progress.
        check: A callback that is called several times a second. An exception from it ends the call.

    Raises:
        DataError: If there are no images or only one class, an image is in no class, a split has a
            class that the training images do not have, or all images of a split are broken.
    """
    of_files = {path: listed(Path(path)) for path in data.files()}
    train, valid, test, held_out = _split(data, of_files)
    names = list(classes) or sorted({each.label for each in [*train, *valid * held_out]})
    if len(names) < 2:
        raise DataError(
            f"{data.images[0]}: all images to train on are of the class {names[0]!r}; a classifier "
            "needs two classes or more, each in a folder of its own"
        )
    size = data.image_size or common_size(train)
    need = (len(train) + len(valid) + len(test)) * size * size * CHANNELS
    if need > MOST_MEMORY:
        raise DataError(
            f"{data.images[0]}: the images take {need / 2**30:.1f} GiB, more than "
            f"{MOST_MEMORY >> 30} GiB; lower data.image_size or data.train_images"
        )
    broken: list[str] = []

    def read(group: Sequence[Listed]) -> LabelledImages:
        images, unread = read_labelled(group, names, size, workers, say, check)
        broken.extend(unread)
        return images

    parts = (read(train), read(valid), read(test))
    counts = {path: len(each) for path, each in of_files.items()}
    return ImageSets(*parts, names, size, held_out, broken, counts)


def _split(
    data: ImageData, of_files: Mapping[str, list[Listed]]
) -> tuple[list[Listed], list[Listed], list[Listed], bool]:
    """Return the training, validation and test images, and whether validation is held out."""
    found = [each for path in data.images for each in of_files[path]]
    train = [each for each in found if each.split in ("", "train")]
    test = [each for each in found if each.split == "test"]
    valid = [each for path in data.valid_images for each in of_files[path]]
    valid = valid or [each for each in found if each.split == "valid"]
    ordered = [train[row] for row in _spread_by_class([each.label for each in train])]
    held_out = not valid
    if held_out:
        count = max(1, round(data.valid_share * len(ordered)))
        valid, ordered = ordered[:count], ordered[count:]
    if not ordered:
        raise DataError(
            f"{data.images[0]}: {len(train):,} images to train on are too few to hold some of them "
            "out; give more images"
        )
    return ordered[: data.train_images], valid, test, held_out


def listed(path: Path) -> list[Listed]:
    """Return the images of a folder or archive with their splits and classes.

    Folders that hold everything else are left out of the names, as the one of a zip of a folder.

    Args:
        path: The folder or the archive.

    Raises:
        DataError: If there are no images, or an image lies in no folder.
    """
    folder = ImageFolder(path)
    if not folder.names:
        raise DataError(f"{path}: there are no images in it; give a folder of folders of images")
    parts = [PurePosixPath(name).parts for name in folder.names]
    while min(map(len, parts)) > 2 and len({each[0] for each in parts} | set(SPLITS)) == 5:
        parts = [each[1:] for each in parts]
    has_splits = all(len(each) > 2 and each[0] in SPLITS for each in parts)
    found = []
    for name, each in zip(folder.names, parts, strict=True):
        if len(each) < 2:
            raise DataError(
                f"{path}: {name} lies in no folder of a class; put the images of each class into a "
                "folder with its name"
            )
        found.append(Listed(folder, name, SPLITS[each[0]] if has_splits else "", each[-2]))
    return found


def scored_images(path: Path) -> tuple[list[Listed], str]:
    """Return the images of a folder or archive to score, and the name of their split.

    They are the images of `test` if it has splits, or else all images.

    Args:
        path: The folder or the archive.

    Raises:
        DataError: If there are no images, or there are splits but no `test`.
    """
    found = listed(path)
    if not any(each.split for each in found):
        return found, "all"
    test = [each for each in found if each.split == "test"]
    if not test:
        splits = ", ".join(sorted({each.split for each in found}))
        raise DataError(
            f"{path}: it has the splits {splits}, but no test images; give the folder of one split"
        )
    return test, "test"


def common_size(found: Sequence[Listed]) -> int:
    """Return the size of images that are squares of one size, up to `LARGEST_SIZE`, or 64.

    Up to a hundred images are looked at, spread over the set.

    Args:
        found: The images.
    """
    places = np.linspace(0, len(found) - 1, min(_LOOKED_AT, len(found))).round().astype(int)
    extents = {image_extent(found[at].folder.read(found[at].name)) for at in places} - {None}
    if len(extents) == 1:
        [(height, width)] = (each for each in extents if each)
        if height == width <= LARGEST_SIZE:
            return height
    return USUAL_SIZE


def read_labelled(
    found: Sequence[Listed],
    classes: Sequence[str],
    size: int,
    workers: int = 1,
    say: Callable[[str], None] = lambda line: None,
    check: Callable[[], None] = lambda: None,
) -> tuple[LabelledImages, list[str]]:
    """Decode images, and number their classes.

    Args:
        found: The images.
        classes: The names of all classes.
        size: Height and width.
        workers: The number of processes that decode large sets.
        say: A callback that gets messages about the progress.
        check: A callback that is called several times a second.

    Returns:
        The images that are whole, and a message for each broken one.

    Raises:
        DataError: If a class is not in `classes`, or no image is whole.
    """
    numbers = {name: number for number, name in enumerate(classes)}
    for each in found:
        if each.label not in numbers:
            raise DataError(
                f"{each.folder.path}: {each.name} is of the class {each.label!r}, which the "
                f"training images do not have: {nearest(each.label, list(classes))}"
            )
    pixels, kept, broken = [], [], []
    for path in dict.fromkeys(each.folder.path for each in found):
        group = [each for each in found if each.folder.path == path]
        names = [each.name for each in group]
        made = decode_images(group[0].folder, names, size, workers, say, check)
        pixels.append(made.pixels)
        kept += [group[place] for place in made.places]
        broken += [f"{path}: {each}" for each in made.broken]
    if found and not kept:
        raise DataError(f"none of {len(found):,} images is whole; the first: {broken[0]}")
    labels = np.array([numbers[each.label] for each in kept], np.int64)
    stacked = np.concatenate(pixels) if pixels else np.empty((0, size, size, CHANNELS), np.uint8)
    return LabelledImages(
        stacked, labels, [str(each.folder.path / each.name) for each in kept]
    ), broken


def _spread_by_class(labels: Sequence[str]) -> list[int]:
    """Return rows in an order whose every beginning has all classes in proportion.

    Within a class the order is random, but always the same.
    """
    rng, found = np.random.default_rng(_ORDER_SEED), np.array(labels)
    ranks = np.empty(len(found))
    for label in sorted(set(labels)):
        rows = np.flatnonzero(found == label)
        ranks[rows] = (rng.permutation(len(rows)) + 0.5) / len(rows)
    return [int(row) for row in np.argsort(ranks, kind="stable")]
