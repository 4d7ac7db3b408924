"""Images and their classes: the section `[data]`, splits, and decoding.

The class of an image is the folder that directly holds it. Folders `train`, `valid` (or `val`) and
`test` above the classes are splits.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import ClassVar, NamedTuple

import numpy as np
from pydantic import Field

from crosshead.addons.vision.data.image_decoding import (
    ORDER_SEED,
    ImagePlace,
    check_memory,
    common_size,
    decode_images,
    shared_images,
)
from crosshead.addons.vision.data.images import ImageFolder
from crosshead.config import MOST, MOST_PATCH, nearest
from crosshead.data import DataSection, Names
from crosshead.errors import DataError
from crosshead.system.lines import file_sha256
from crosshead.system.progress import counted

SPLITS = {
    "train": "train", "valid": "valid", "val": "valid", "validation": "valid", "test": "test",
}  # fmt: skip
"""The splits by the names of their folders."""


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


class Listed(NamedTuple):
    """An image that was found: its place, its split (or "") and its class."""

    place: ImagePlace
    split: str
    label: str


def read_image_sets(
    data: ImageData,
    classes: Sequence[str] = (),
    say: Callable[[str], None] = lambda line: None,
    check: Callable[[], None] = lambda: None,
) -> ImageSets:
    """Find, split and decode the images of a run."""
    of_files = {path: listed(Path(path)) for path in data.files()}
    train, valid, test, held_out = _split(data, of_files)
    names = list(classes) or sorted({each.label for each in [*train, *(valid if held_out else [])]})
    if len(names) < 2:
        raise DataError(
            f"{data.images[0]}: all images to train on are of the class {names[0]!r}; a classifier "
            "needs two classes or more, each in a folder of its own"
        )
    shared = {each.place.path for each in train} & {each.place.path for each in valid}
    if shared:
        say(shared_images(len(shared), len(valid)))
    size = data.image_size or common_size([each.place for each in train])
    check_memory(len(train) + len(valid) + len(test), size)
    broken: list[str] = []

    def read(group: Sequence[Listed]) -> LabelledImages:
        images, unread = read_labelled(group, names, size, say, check)
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
        valid, ordered = _first_of(ordered, count)
    if not valid or not ordered:
        raise DataError(
            f"{data.images[0]}: {counted(len(train), 'image')} to train on are too few to hold "
            "some of them out; give more images, or validation images"
        )
    return ordered[: data.train_images], valid, test, held_out


def _first_of(images: Sequence[Listed], count: int) -> tuple[list[Listed], list[Listed]]:
    """Return the first images and the others, which keep at least one image of each class."""
    last = {each.label: row for row, each in enumerate(images)}
    first = [row for row, each in enumerate(images) if row < last[each.label]][:count]
    others = sorted(set(range(len(images))) - set(first))
    return [images[row] for row in first], [images[row] for row in others]


def listed(path: Path) -> list[Listed]:
    """Return the images of a folder or archive with their splits and classes.

    Folders above those of the splits, such as a zip often has, are ignored.
    """
    folder = ImageFolder(path)
    if not folder.names:
        raise DataError(f"{path}: there are no images in it; give a folder of folders of images")
    found = []
    for name in folder.names:
        *above, label, _ = ("", *PurePosixPath(name).parts)
        split = next((SPLITS[each] for each in above if each in SPLITS), "")
        found.append(Listed(ImagePlace(folder, name), split, label))
    splits = {each.split for each in found} - {""}
    for each in found:
        if not each.label or (splits and not each.split):
            where = f"no split ({', '.join(sorted(splits))} are there)" if splits else "no class"
            raise DataError(
                f"{path}: {each.place.name} lies in {where}; move it into the folder of its class, "
                "or remove it"
            )
    return found


def scored_images(path: Path) -> tuple[list[Listed], str]:
    """Return the images of a folder or archive to score, and the name of their split.

    They are the images of `test` if it has splits, or else all images.
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


def read_labelled(
    found: Sequence[Listed],
    classes: Sequence[str],
    size: int,
    say: Callable[[str], None] = lambda line: None,
    check: Callable[[], None] = lambda: None,
) -> tuple[LabelledImages, list[str]]:
    """Decode images, and number their classes."""
    numbers = {name: number for number, name in enumerate(classes)}
    for each in found:
        if each.label not in numbers:
            raise DataError(
                f"{each.place.folder.path}: {each.place.name} is of the class {each.label!r}, "
                f"which the model does not know; {nearest(each.label, list(classes))}"
            )
    made = decode_images([each.place for each in found], size, say, check)
    if found and not len(made.places):
        raise DataError(f"none of {len(found):,} images is whole; the first: {made.broken[0]}")
    kept = [found[number] for number in made.places]
    labels = np.array([numbers[each.label] for each in kept], np.int64)
    names = [each.place.path for each in kept]
    return LabelledImages(made.pixels, labels, names), made.broken


def images_sha256(path: Path, groups: Sequence[LabelledImages]) -> str:
    """Return the SHA-256 of an archive, or of the names and pixels of a folder's images."""
    if path.is_file():
        return file_sha256(path)
    inside = {
        str(Path(name).relative_to(path)): pixels
        for group in groups
        for name, pixels in zip(group.names, group.pixels, strict=True)
        if path in Path(name).parents
    }
    found = hashlib.sha256()
    for name in sorted(inside):
        found.update(name.encode("utf-8", "surrogateescape") + inside[name].tobytes())
    return found.hexdigest()


def _spread_by_class(labels: Sequence[str]) -> list[int]:
    """Return rows in an order whose every beginning has all classes in proportion.

    Within a class the order is random, but always the same.
    """
    rng, found = np.random.default_rng(ORDER_SEED), np.array(labels)
    ranks = np.empty(len(found))
    for label in sorted(set(labels)):
        rows = np.flatnonzero(found == label)
        ranks[rows] = (rng.permutation(len(rows)) + 0.5) / len(rows)
    return [int(row) for row in np.argsort(ranks, kind="stable")]
