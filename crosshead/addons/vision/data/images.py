"""Images of a folder or a zip archive: found, read and decoded into arrays of pixels.

Arrays of pixels are `uint8` with axes "N H W C"; models get floats "B C H W" from -1 to 1.
"""

import io
import os
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import numpy as np

from crosshead.config import shown
from crosshead.errors import DataError, UserError, why_unreadable
from crosshead.system.files import StrPath
from crosshead.system.lines import is_utf8
from crosshead.system.stored import UNREADABLE, NotRegularError, open_regular

if TYPE_CHECKING:
    from PIL import Image
    from torch import Tensor

ImageLike: TypeAlias = "StrPath | Image.Image | np.ndarray"
"""The file of an image, an image of Pillow, or pixels `uint8` with axes "H W C" or "H W"."""

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".ppm", ".pgm", ".tif", ".tiff",
    ".jpe", ".jfif", ".jp2", ".j2k",
    ".heic", ".heif", ".avif", ".jxl",
)  # fmt: skip
"""The suffixes of files that are images. The last row has formats that are not read, so
that their files count as broken images."""

FORMATS = ("JPEG", "PNG", "BMP", "GIF", "WEBP", "PPM", "TIFF", "JPEG2000")
"""The formats that are read, whatever the name of a file says. Pillow would start a program for
some others, such as PostScript."""

MOST_BYTES = 64 << 20
"""The largest file of an image."""

MOST_PIXELS = 50_000_000
"""The largest number of pixels of an image; more would be a decompression bomb."""

CHANNELS = 3
"""Red, green and blue."""

_WHITE = 65_535
"""White in images of 16 bits."""


class ImageFolder:
    """The images of a folder with subfolders, or of a zip archive of one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.exists():
            raise DataError(
                f"{path}: no such file or folder; give a folder of images or a zip of one"
            )
        try:
            self._archive = None if path.is_dir() else zipfile.ZipFile(path)
        except zipfile.BadZipFile:
            raise DataError(
                f"{path}: neither a folder nor a whole zip archive; give a folder of images or a "
                "zip of one"
            ) from None
        except OSError as error:
            raise DataError(f"{path}: {why_unreadable(error)}") from None
        found = _files_below(path) if self._archive is None else self._archive.namelist()
        self.names = sorted({name for name in found if is_image(name)})
        """The names of the images, with their folders, sorted."""
        for name in self.names:
            if not is_utf8(name):
                raise DataError(
                    f"{path}: the name {name!a} is not UTF-8: rename the file or folder"
                )

    def read(self, name: str) -> bytes:
        """Return the contents of a file."""
        if self._archive is None:
            return read_image(self.path / name)
        try:
            with self._archive.open(name) as file:
                return _contents(file, f"{self.path}: {name}")
        except (KeyError, OSError, *UNREADABLE) as error:
            raise DataError(f"{self.path}: {name} cannot be read: {error}") from None


def read_image(path: Path) -> bytes:
    """Return the contents of the file of an image."""
    try:
        with open_regular(path) as file:
            return _contents(file, str(path))
    except NotRegularError as error:
        advice = f"; give its files: {path}/*" if path.is_dir() else ""
        raise DataError(f"{path}: is {error.strerror} of an image{advice}") from None
    except OSError as error:
        raise DataError(f"{path}: {why_unreadable(error)}") from None


def _contents(file: IO[bytes], name: str) -> bytes:
    """Return the contents of an open file of limited size."""
    data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise DataError(f"{name}: is larger than {MOST_BYTES >> 20} MiB; make the image smaller")
    return data


def is_image(name: str) -> bool:
    """Return whether the name of a file ends like an image's and is not hidden."""
    parts = PurePosixPath(name).parts
    hidden = any(part.startswith((".", "__MACOSX")) for part in parts)
    return name.lower().endswith(SUFFIXES) and not hidden


def decode_image(data: bytes, size: int | None, name: str) -> np.ndarray:
    """Return the pixels of an image, "H W C".

    The image is turned as its camera says, transparent parts become white, and every mode becomes
    red, green and blue. White is 65,535 in 16-bit images; larger values and floats are refused.
    """
    image_module, ops = _pillow()
    with _refusals(name), image_module.open(io.BytesIO(data), formats=FORMATS) as opened:
        if opened.width * opened.height > MOST_PIXELS:
            raise DataError(
                f"{opened.width} x {opened.height} pixels are more than {MOST_PIXELS:,}; make the "
                "image smaller"
            )
        return _fitted(ops.exif_transpose(opened), size)


def pixels_of(image: ImageLike, size: int | None) -> np.ndarray:
    """Return an image as pixels in red, green and blue, "H W C", `uint8`."""
    if isinstance(image, str | os.PathLike):
        return decode_image(read_image(Path(image)), size, str(image))
    if isinstance(image, np.ndarray):
        axes = image.ndim > 1 and image.shape[2:] in ((), (2,), (3,), (4,))
        if image.dtype != np.uint8 or not axes or not image.size:
            raise DataError(
                "expected pixels from 0 to 255 in an array `uint8` of height, width and colours, "
                f"found {image.dtype} of shape {image.shape}"
            )
        found = _pillow()[0].fromarray(image)
    elif hasattr(image, "convert"):
        found = image
    else:
        raise DataError(f"expected a file, an image or an array, found {shown(image)}")
    with _refusals("the image"):
        return _fitted(_pillow()[1].exif_transpose(found), size)


def image_extent(data: bytes) -> tuple[int, int] | None:
    """Return height and width from the head of a file, or None if it is no image."""
    image_module, _ = _pillow()
    try:
        with image_module.open(io.BytesIO(data), formats=FORMATS) as found:
            return found.height, found.width
    except Exception:  # the decoders of many formats raise errors of many classes
        return None


def as_floats(pixels: np.ndarray) -> "Tensor":
    """Return pixels as floats from -1 to 1, "B C H W"."""
    import torch  # here, because processes that decode images do not need it

    found = torch.from_numpy(np.require(pixels, requirements=["C", "W"])).permute(0, 3, 1, 2)
    return found.to(torch.float32) / 127.5 - 1


def encode_png(pixels: np.ndarray) -> bytes:
    """Return pixels as the contents of a PNG file."""
    image_module, _ = _pillow()
    found = io.BytesIO()
    image_module.fromarray(pixels).save(found, "PNG")
    return found.getvalue()


@contextmanager
def _refusals(name: str) -> Iterator[None]:
    """Turn the errors of Pillow into a `DataError` that begins with a name."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{name}: {error}") from None
    except MemoryError:
        raise
    except Exception as error:  # the decoders of many formats raise errors of many classes
        raise DataError(
            f"{name}: not a whole image ({type(error).__name__}); convert it to JPEG or PNG"
        ) from None


def _fitted(image: "Image.Image", size: int | None) -> np.ndarray:
    """Return an image of Pillow as pixels of this height and width, "H W C"."""
    image_module, ops = _pillow()
    found = _as_rgb(image)
    if size is not None and found.size != (size, size):
        found = ops.fit(found, (size, size), image_module.Resampling.BICUBIC)
    return np.asarray(found)


def _as_rgb(image: "Image.Image") -> "Image.Image":
    """Return an image in red, green and blue, with transparent parts on white."""
    image_module, _ = _pillow()
    if image.mode.startswith(("I", "F")):  # 16 bits or more: scaled, where Pillow would cut off
        values = np.asarray(image)
        if image.mode == "F" or values.min() < 0 or values.max() > _WHITE:
            raise DataError(f"it has values that are no whole numbers from 0 to {_WHITE:,}")
        image = image_module.fromarray(np.rint(values * (255 / _WHITE)).astype(np.uint8))
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
    warnings.filterwarnings("ignore", module=r"PIL\b")  # Pillow warns of much that it can read
    return Image, ImageOps


def _files_below(folder: Path) -> Iterator[str]:
    """Yield the files below a folder by their names in it, with "/" between folders."""
    for place, folders, files in os.walk(folder, followlinks=True):
        above = Path(place).resolve()
        # A link to a folder above itself would never end.
        folders[:] = [
            name for name in folders if not above.is_relative_to((above / name).resolve())
        ]
        yield from ((Path(place) / name).relative_to(folder).as_posix() for name in files)
