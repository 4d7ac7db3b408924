"""Decoding of many images into one array, by several threads."""

import contextlib
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from crosshead.addons.vision.data.images import CHANNELS, ImageFolder, decode_image, image_extent
from crosshead.errors import DataError
from crosshead.system.processor import available_cores
from crosshead.system.progress import counted

LARGEST_SIZE, USUAL_SIZE = 96, 64
"""The largest common size of images that is kept, and the size of images without one."""

MOST_MEMORY = 8 << 30
"""The largest memory of decoded images in bytes: 2.8 million images of 32 pixels."""

ORDER_SEED = 1
"""The seed of the order of images in which some are held out. It is the same in all runs, so that
runs of different seeds are validated on the same images."""

_LOOKED_AT = 100
"""The number of images, spread over the set, whose sizes are compared."""

_AT_ONCE = 64
"""The number of images that the threads decode between two checks: about a quarter of a second of
large photographs."""

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

    def decoded(self, size: int) -> np.ndarray:
        """Return the pixels of the image, "H W C"."""
        return decode_image(self.folder.read(self.name), size, self.path)


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
    say: Callable[[str], None] = lambda line: None,
    check: Callable[[], None] = lambda: None,
) -> Decoded:
    """Decode many images in several threads: Pillow lets others run while it decodes."""
    check_memory(len(images), size)
    pixels = np.empty((len(images), size, size, CHANNELS), np.uint8)
    places: list[int] = []
    broken: list[str] = []
    shown = time.monotonic()

    def decoded(image: ImagePlace) -> np.ndarray | str:
        try:
            return image.decoded(size)
        except DataError as error:
            return str(error)

    with ThreadPoolExecutor(available_cores()) as pool:
        for first in range(0, len(images), _AT_ONCE):
            check()
            if time.monotonic() - shown > _PAUSE:
                say(f"decoded {first:,} of {len(images):,} images")
                shown = time.monotonic()
            for place, found in enumerate(
                pool.map(decoded, images[first : first + _AT_ONCE]), first
            ):
                if isinstance(found, str):
                    broken.append(found)
                else:
                    pixels[len(places)] = found
                    places.append(place)
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
    extents: set[tuple[int, int] | None] = set()
    for folder, name in (images[at] for at in places):
        with contextlib.suppress(DataError):
            extents.add(image_extent(folder.read(name)))
    match list(extents - {None}):
        case [(height, width)] if height == width <= LARGEST_SIZE:
            return height
    return USUAL_SIZE


def kept_size(stated: int | None, size: int) -> int:
    """Return the size of images of a bundle, which training that starts from it keeps."""
    if stated not in (None, size):
        raise DataError(
            f"data.image_size is {stated}, and the bundle has {size}; fine-tuning keeps it: leave "
            "it out"
        )
    return size
