"""Images of a folder or a zip archive: found, read and decoded into arrays of pixels.

Arrays of pixels are `uint8` with axes "N H W C"; models get floats "B C H W" from -1 to 1.
"""

import io
import os
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from crosshead.errors import DataError, UserError
from crosshead.system.stored import read_stored

if TYPE_CHECKING:
    from PIL import Image

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".ppm", ".pgm", ".tif", ".tiff")
"""The suffixes of files that are images."""

MOST_BYTES = 64 << 20
"""The largest file of an image."""

MOST_PIXELS = 50_000_000
"""The largest number of pixels of an image; more would be a decompression bomb."""

CHANNELS = 3
"""Red, green and blue."""


class ImageFolder:
    """The images of a folder with subfolders, or of a zip archive of one.

    Args:
        path: The folder or the archive.

    Raises:
        DataError: If the path is neither, or cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._archive: zipfile.ZipFile | None = None
        try:
            if path.is_dir():
                found = sorted(_files_below(path))
            else:
                if not path.is_file():
                    raise DataError(f"{path}: not found; give a folder of images or a zip of one")
                self._archive = zipfile.ZipFile(path)
                found = sorted(
                    info.filename
                    for info in self._archive.infolist()
                    if not info.is_dir() and not stat.S_ISLNK(info.external_attr >> 16)
                )
        except zipfile.BadZipFile:
            raise DataError(
                f"{path}: neither a folder nor a whole zip archive; give a folder of images or a "
                "zip of one"
            ) from None
        except OSError as error:
            raise DataError(f"{path}: {error.strerror}; check the path") from None
        self.names: list[str] = [each for each in found if is_image(each)]
        """The names of the images, with their folders, sorted."""
        self.others = len(found) - len(self.names)
        """The number of files that are not images."""

    def read(self, name: str) -> bytes:
        """Return the contents of a file.

        Args:
            name: One of `names`.

        Raises:
            DataError: If the file cannot be read, or is larger than `MOST_BYTES`.
        """
        if self._archive is None:
            return read_stored(self.path / name, MOST_BYTES)
        try:
            info = self._archive.getinfo(name)
            if info.file_size > MOST_BYTES:
                raise DataError(f"{self.path}: {name} is larger than {MOST_BYTES >> 20} MiB")
            with self._archive.open(info) as file:
                data = file.read(MOST_BYTES + 1)
        except (KeyError, OSError, RuntimeError, EOFError, zipfile.BadZipFile) as error:
            raise DataError(f"{self.path}: {name} cannot be read: {error}") from None
        if len(data) > MOST_BYTES:
            raise DataError(f"{self.path}: {name} is larger than {MOST_BYTES >> 20} MiB")
        return data


def is_image(name: str) -> bool:
    """Return whether the name of a file ends like an image's and is not hidden.

    Args:
        name: The name, with its folders.
    """
    parts = PurePosixPath(name).parts
    hidden = any(part.startswith((".", "__MACOSX")) for part in parts)
    return name.lower().endswith(SUFFIXES) and not hidden


def decode_image(data: bytes, size: int | None, name: str) -> np.ndarray:
    """Return the pixels of an image, "H W C".

    The image is turned as its camera says, transparent parts become white, and every mode becomes
    red, green and blue.

    Args:
        data: The contents of the file.
        size: Height and width: the shorter side is scaled to it and the middle cut out. None keeps
            the image as it is.
        name: The name of the file, for messages.

    Returns:
        The pixels, `uint8`.

    Raises:
        DataError: If the data are no whole image, or it has more than `MOST_PIXELS`.
        UserError: If Pillow is not installed.
    """
    image_module, ops = _pillow()
    try:
        with image_module.open(io.BytesIO(data)) as opened:
            if opened.width * opened.height > MOST_PIXELS:
                raise DataError(
                    f"{name}: {opened.width} x {opened.height} pixels are more than "
                    f"{MOST_PIXELS:,}; make the image smaller"
                )
            image = ops.exif_transpose(opened)
            if size is not None:
                image = ops.fit(_as_rgb(image), (size, size), image_module.Resampling.BICUBIC)
            return np.asarray(_as_rgb(image))
    except DataError:
        raise
    except Exception as error:  # the decoders of many formats raise errors of many classes
        why = " ".join(str(error).split()).replace(f"{io.BytesIO()!r}"[:11], "the file")
        raise DataError(f"{name}: not a whole image ({type(error).__name__}: {why})") from None


def as_floats(pixels: np.ndarray) -> Float[Tensor, "B C H W"]:
    """Return pixels as floats from -1 to 1, "B C H W".

    Args:
        pixels: Pixels, `uint8`, with axes "B H W C".
    """
    found = torch.from_numpy(np.ascontiguousarray(pixels)).permute(0, 3, 1, 2)
    return found.to(torch.float32) / 127.5 - 1


def _as_rgb(image: "Image.Image") -> "Image.Image":
    """Return an image in red, green and blue, with transparent parts on white."""
    image_module, _ = _pillow()
    if image.mode.startswith(("I", "F")):  # 16 bits or more: scaled, where Pillow would cut off
        values = np.asarray(image, dtype=np.float64)
        low, high = (0.0, 65535.0) if image.mode != "F" else (values.min(), values.max())
        scaled = (values - low) * (255 / max(high - low, 1e-12))
        image = image_module.fromarray(scaled.clip(0, 255).astype(np.uint8))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        white = image_module.new("RGBA", image.size, "white")
        image = image_module.alpha_composite(white, image)
    return image.convert("RGB")


def _pillow() -> tuple[Any, Any]:
    """Return Pillow's modules of images and of operations on them."""
    try:
        from PIL import Image, ImageOps
    except ImportError:
        raise UserError(
            "Pillow, which reads images, is not installed: pip install 'crosshead[images]'"
        ) from None
    return Image, ImageOps


def _files_below(folder: Path) -> Iterator[str]:
    """Yield the regular files below a folder by their names in it, with "/" between folders."""
    for place, folders, files in os.walk(folder):
        folders.sort()
        for name in files:
            path = Path(place) / name
            if stat.S_ISREG(path.stat().st_mode):
                yield path.relative_to(folder).as_posix()


def encode_png(pixels: np.ndarray) -> bytes:
    """Return pixels as the contents of a PNG file.

    Args:
        pixels: Pixels "H W C", `uint8`.

    Raises:
        UserError: If Pillow is not installed.
    """
    image_module, _ = _pillow()
    found = io.BytesIO()
    image_module.fromarray(pixels).save(found, "PNG")
    return found.getvalue()
