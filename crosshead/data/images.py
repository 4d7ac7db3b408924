"""Images of a folder or a zip archive: found, read and decoded into arrays of pixels.

Arrays of pixels are `uint8` with axes "N H W C"; models get floats "B C H W" from -1 to 1.
"""

import io
import multiprocessing
import os
import stat
import time
import warnings
import zipfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from crosshead.errors import DataError, UserError, why_unreadable
from crosshead.system.stored import NotRegularError, open_regular
from crosshead.system.workers import become_worker, signals_left_to_this

if TYPE_CHECKING:
    from PIL import Image
    from torch import Tensor

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".ppm", ".pgm", ".tif", ".tiff")
"""The suffixes of files that are images."""

MOST_BYTES = 64 << 20
"""The largest file of an image."""

MOST_PIXELS = 50_000_000
"""The largest number of pixels of an image; more would be a decompression bomb."""

CHANNELS = 3
"""Red, green and blue."""

ALONE = 4000
"""The number of images from which on processes decode them. Fewer are decoded sooner than processes
start."""

_CHUNK = 256
"""The number of images that a process decodes at a time."""

_AHEAD = 4
"""The number of chunks for each process that are decoded before the first is taken."""

_PAUSE = 5.0
"""Seconds between messages about the progress."""


class Decoded(NamedTuple):
    """Some images of a folder, decoded."""

    pixels: np.ndarray
    """The pixels, `uint8`, "N H W C"."""
    places: np.ndarray
    """The place of each image in the list of names; broken images are left out."""
    broken: list[str]
    """A message for each broken image."""


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
                    raise DataError(
                        f"{path}: no such file or folder; give a folder of images or a zip of one"
                    )
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
            return read_image(self.path / name)
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


def read_image(path: Path) -> bytes:
    """Return the contents of the file of an image.

    Args:
        path: The file.

    Raises:
        DataError: If the file cannot be read, or is larger than `MOST_BYTES`.
    """
    try:
        with open_regular(path) as file:
            data = file.read(MOST_BYTES + 1)
    except NotRegularError as error:
        raise DataError(f"{path}: is {error.strerror} of an image") from None
    except OSError as error:
        raise DataError(f"{path}: {why_unreadable(error)}") from None
    if len(data) > MOST_BYTES:
        raise DataError(f"{path}: is larger than {MOST_BYTES >> 20} MiB; make the image smaller")
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
        # Pillow warns of much that it can read, and of large images, which are refused here.
        with (
            warnings.catch_warnings(action="ignore"),
            image_module.open(io.BytesIO(data)) as opened,
        ):
            if opened.width * opened.height > MOST_PIXELS:
                raise DataError(
                    f"{name}: {opened.width} x {opened.height} pixels are more than "
                    f"{MOST_PIXELS:,}; make the image smaller"
                )
            return fitted(ops.exif_transpose(opened), size)
    except DataError:
        raise
    except image_module.DecompressionBombError:  # Pillow's own limit, which is higher
        raise DataError(
            f"{name}: more than {MOST_PIXELS:,} pixels; make the image smaller"
        ) from None
    except Exception as error:  # the decoders of many formats raise errors of many classes
        why = " ".join(str(error).split()).replace(f"{io.BytesIO()!r}"[:11], "the file")
        raise DataError(f"{name}: not a whole image ({type(error).__name__}: {why})") from None


def fitted(image: "Image.Image | np.ndarray", size: int | None) -> np.ndarray:
    """Return an image in red, green and blue as pixels, "H W C", `uint8`.

    Args:
        image: The image, or an array of its pixels.
        size: Height and width: the shorter side is scaled to it and the middle cut out. None keeps
            the size.
    """
    image_module, ops = _pillow()
    found = _as_rgb(image_module.fromarray(image) if isinstance(image, np.ndarray) else image)
    if size is not None and found.size != (size, size):
        found = ops.fit(found, (size, size), image_module.Resampling.BICUBIC)
    return np.asarray(found)


def decode_images(
    folder: ImageFolder,
    names: Sequence[str],
    size: int,
    workers: int = 1,
    say: Callable[[str], None] = lambda line: None,
    check: Callable[[], None] = lambda: None,
) -> Decoded:
    """Decode many images; processes share the work from `ALONE` images on.

    Args:
        folder: The folder of the images.
        names: Their names in it.
        size: Height and width, as for `decode_image`.
        workers: The number of processes.
        say: A callback that gets messages about the progress.
        check: A callback that is called several times a second. An exception from it ends the call.

    Returns:
        The images that could be decoded, in the order of `names`.

    Raises:
        UserError: If Pillow is not installed, or a process dies.
    """
    _pillow()
    pixels = np.empty((len(names), size, size, CHANNELS), np.uint8)
    places: list[int] = []
    broken: list[str] = []
    shown, done = time.monotonic(), 0
    jobs = [
        (folder.path, names[first : first + _CHUNK], size) for first in range(0, len(names), _CHUNK)
    ]
    alone = workers == 1 or len(names) < ALONE
    for part in map(_decode_chunk, jobs) if alone else _in_processes(jobs, workers, check):
        check()
        pixels[len(places) : len(places) + len(part.pixels)] = part.pixels
        places += (done + part.places).tolist()
        broken += part.broken
        done = min(len(names), done + _CHUNK)
        if time.monotonic() - shown > _PAUSE:
            say(f"decoded {done:,} of {len(names):,} images of {folder.path}")
            shown = time.monotonic()
    return Decoded(pixels[: len(places)], np.array(places, np.int64), broken)


def image_extent(data: bytes) -> tuple[int, int] | None:
    """Return height and width from the head of a file, or None if it is no image.

    Args:
        data: The contents of the file.
    """
    image_module, _ = _pillow()
    try:
        with warnings.catch_warnings(action="ignore"), image_module.open(io.BytesIO(data)) as found:
            return found.height, found.width
    except Exception:  # the decoders of many formats raise errors of many classes
        return None


def as_floats(pixels: np.ndarray) -> "Tensor":
    """Return pixels as floats from -1 to 1, "B C H W".

    Args:
        pixels: Pixels, `uint8`, with axes "B H W C".
    """
    import torch  # here, because processes that decode images do not need it

    found = torch.from_numpy(np.require(pixels, requirements=["C", "W"])).permute(0, 3, 1, 2)
    return found.to(torch.float32) / 127.5 - 1


def _decode_chunk(job: tuple[Path, Sequence[str], int]) -> Decoded:
    """Decode some images of a folder, one after the other."""
    path, names, size = job
    folder, found, broken = _opened(path), {}, []
    for place, name in enumerate(names):
        try:
            found[place] = decode_image(folder.read(name), size, name)
        except DataError as error:
            broken.append(str(error))
    pixels = np.stack(list(found.values())) if found else np.empty((0, size, size, 3), np.uint8)
    return Decoded(pixels, np.array(list(found), np.int64), broken)


@cache
def _opened(path: Path) -> ImageFolder:
    """Return the images of a folder, listed once per process."""
    return ImageFolder(path)


def _in_processes(
    jobs: Sequence[tuple[Path, Sequence[str], int]], workers: int, check: Callable[[], None]
) -> Iterator[Decoded]:
    """Yield the results of `_decode_chunk` in the order of the jobs."""
    # A process forked while threads run may wait forever for locks that those threads held.
    context = multiprocessing.get_context("spawn")
    waiting: deque[Future[Decoded]] = deque()
    rest = iter(jobs)
    with ProcessPoolExecutor(workers, context, initializer=become_worker) as pool:
        try:
            while True:
                while len(waiting) < _AHEAD * workers and (job := next(rest, None)) is not None:
                    with signals_left_to_this():
                        waiting.append(pool.submit(_decode_chunk, job))
                if not waiting:
                    return
                while not wait([waiting[0]], 0.2).done:
                    check()
                yield waiting.popleft().result()
        except BrokenProcessPool:
            raise UserError(
                "a process that decodes images died, perhaps because memory ran out; lower "
                "data.image_size, or give fewer images"
            ) from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


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
