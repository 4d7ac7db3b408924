"""Decoding of many images into one array, by processes if there are many."""

import os
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from crosshead.addons.vision.data.images import CHANNELS, ImageFolder, decode_image, image_extent
from crosshead.errors import DataError
from crosshead.system.progress import counted
from crosshead.system.workers import in_processes

LARGEST_SIZE, USUAL_SIZE = 96, 64
"""The largest common size of images that is kept, and the size of images without one."""

MOST_MEMORY = 8 << 30
"""The largest memory of decoded images in bytes: 2.8 million images of 32 pixels."""

ORDER_SEED = 1
"""The seed of the order of images in which some are held out. It is the same in all runs, so that
runs of different seeds are validated on the same images."""

LEAST_FOR_PROCESSES = 4000
"""The smallest number of images that is decoded in worker processes. Fewer are decoded sooner than
processes start."""

_LOOKED_AT = 100
"""The number of images, spread over the set, whose sizes are compared."""

_CHUNK = 256
"""The number of images that a process decodes at a time."""

_FEW = 8
"""The number of images that are decoded between two checks without processes."""

_DIED = (
    "a process that decodes images died, perhaps because memory ran out; lower data.image_size, or "
    "give fewer images"
)

_PAUSE = 5.0
"""Seconds between messages about the progress."""


class ImagePlace(NamedTuple):
    """An image that was found: its folder or archive, and its name there."""

    folder: ImageFolder
    name: str

    @property
    def path(self) -> str:
        """The file of the image; in an archive, its name below the archive."""
        return str(self.folder.path / self.name)

    @property
    def file(self) -> str:
        """The path of the image without links: the same for two names of one file."""
        return os.path.realpath(self.path)


def shared_images(shared: int, count: int) -> str:
    """Return a warning about validation images that are training images too."""
    return (
        f"warning: {shared:,} of {counted(count, 'validation image')} are training images too, so "
        "the validation scores are too good; give other images"
    )


class Decoded(NamedTuple):
    """Some images of a folder, decoded."""

    pixels: np.ndarray
    """The pixels, `uint8`, "N H W C"."""
    places: np.ndarray
    """The number of each image among those given; broken images are left out."""
    broken: list[str]
    """A message for each broken image."""


def decode_images(
    images: Sequence[ImagePlace],
    size: int,
    workers: int = 1,
    say: Callable[[str], None] = lambda line: None,
    check: Callable[[], None] = lambda: None,
) -> Decoded:
    """Decode many images; processes share the work from `LEAST_FOR_PROCESSES` images on."""
    check_memory(len(images), size)
    pixels = np.empty((len(images), size, size, CHANNELS), np.uint8)
    places: list[int] = []
    broken: list[str] = []
    shown, done = time.monotonic(), 0
    alone = workers == 1 or len(images) < LEAST_FOR_PROCESSES
    chunk = _FEW if alone else _CHUNK
    jobs = [(images[first : first + chunk], size) for first in range(0, len(images), chunk)]
    for part in (
        map(_decode_chunk, jobs)
        if alone
        else in_processes(_decode_chunk, jobs, workers, check, _DIED)
    ):
        check()
        pixels[len(places) : len(places) + len(part.pixels)] = part.pixels
        places += (done + part.places).tolist()
        broken += part.broken
        done = min(len(images), done + chunk)
        if time.monotonic() - shown > _PAUSE:
            say(f"decoded {done:,} of {len(images):,} images")
            shown = time.monotonic()
    return Decoded(pixels[: len(places)], np.array(places, np.int64), broken)


def check_memory(count: int, size: int) -> None:
    """Raise an error if decoded images would take more than `MOST_MEMORY`."""
    need = count * size * size * CHANNELS
    if need > MOST_MEMORY:
        raise DataError(
            f"{count:,} images of {size} x {size} pixels take {need / 2**30:.1f} GiB, more than "
            f"{MOST_MEMORY >> 30} GiB; lower data.image_size, or give fewer images"
        )


def common_size(images: Sequence[ImagePlace]) -> int:
    """Return the size of images that are squares of one size, up to `LARGEST_SIZE`, or 64.

    Up to a hundred images are looked at, spread over the set.
    """
    places = np.linspace(0, len(images) - 1, min(_LOOKED_AT, len(images))).round().astype(int)
    extents = {_extent(images[at]) for at in places} - {None}
    if len(extents) == 1:
        [(height, width)] = (each for each in extents if each)
        if height == width <= LARGEST_SIZE:
            return height
    return USUAL_SIZE


def _extent(image: ImagePlace) -> tuple[int, int] | None:
    """Return the height and width of an image, or None if it is broken."""
    try:
        return image_extent(image.folder.read(image.name))
    except DataError:
        return None


def kept_size(stated: int | None, size: int) -> int:
    """Return the size of images of a bundle, which training that starts from it keeps."""
    if stated not in (None, size):
        raise DataError(
            f"data.image_size is {stated}, and the bundle has {size}; fine-tuning keeps it: leave "
            "it out"
        )
    return size


def _decode_chunk(job: tuple[Sequence[ImagePlace], int]) -> Decoded:
    """Decode some images, one after the other."""
    images, size = job
    found, broken = {}, []
    for number, each in enumerate(images):
        try:
            found[number] = decode_image(each.folder.read(each.name), size, each.path)
        except DataError as error:
            broken.append(str(error))
    pixels = np.stack(list(found.values())) if found else np.empty((0, size, size, 3), np.uint8)
    return Decoded(pixels, np.array(list(found), np.int64), broken)
