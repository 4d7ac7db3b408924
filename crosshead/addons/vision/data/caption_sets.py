"""Sets of decoded images with captions: reading, reports of what is left out, held-out images."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np

from crosshead.addons.vision.data.caption_files import CAPTIONS, CaptionFormat
from crosshead.addons.vision.data.image_decoding import (
    ORDER_SEED,
    ImagePlace,
    common_size,
    decode_images,
)
from crosshead.addons.vision.data.images import NOT_READ, ImageFolder
from crosshead.errors import DataError
from crosshead.system.progress import counted, left_out

NOT_READABLE = " of an image in a format that is not read (convert it to JPEG or PNG)"


class Caption(NamedTuple):
    """A caption of an image, with its place in a file."""

    image: int
    """The row of the image in `CaptionSet.pixels`."""
    text: str
    file: str
    line: int
    source: str = ""
    """The sentence that `text` translates; empty for a caption of the image alone."""


class Reason(NamedTuple):
    """The reason why a caption or an image is left out."""

    noun: str
    """A noun, such as `broken image`."""
    rest: str = ""
    """The words after it, such as ` without a caption`."""
    is_described: bool = True
    """False for an image that no caption, or no pair, names."""


@dataclass
class LeftOutCaptions:
    """The captions and images that a set leaves out, by reason."""

    names: dict[Reason, list[str]] = field(default_factory=dict)
    """The files, or files and lines, by reason."""

    def add(self, name: str, reason: Reason) -> None:
        """Count one more."""
        self.names.setdefault(reason, []).append(name)

    def counts(self) -> dict[str, int]:
        """Return the number by reason."""
        return {f"{each.noun}s{each.rest}": len(names) for each, names in self.names.items()}

    def described(self) -> "LeftOutCaptions":
        """Return the same without the images that no caption, or no pair, names."""
        return LeftOutCaptions(
            {reason: each for reason, each in self.names.items() if reason.is_described}
        )

    def lines(self) -> list[str]:
        """Return a message for each reason, with the first names."""
        return [left_out(names, each.noun, each.rest) for each, names in self.names.items()]


@dataclass(frozen=True)
class CaptionSet:
    """Decoded images and their captions."""

    pixels: np.ndarray
    """The pixels, `uint8`, "N H W C"."""
    names: list[str]
    """The name of each image, in its folder."""
    captions: list[Caption]
    """All captions, in the order of the files."""
    left_out: LeftOutCaptions

    @property
    def texts(self) -> list[str]:
        """The text of each caption."""
        return [each.text for each in self.captions]

    @property
    def sources(self) -> list[str]:
        """The sentence that each caption translates."""
        return [each.source for each in self.captions]

    def references(self) -> list[list[str]]:
        """Return the captions of each image, in the order of `pixels`."""
        found: list[list[str]] = [[] for _ in self.names]
        for each in self.captions:
            found[each.image].append(each.text)
        return found

    def chosen(self, images: Sequence[int]) -> "CaptionSet":
        """Return some of the images, with their captions."""
        places = {image: place for place, image in enumerate(images)}
        captions = [
            each._replace(image=places[each.image])
            for each in self.captions
            if each.image in places
        ]
        rows = list(images)
        return CaptionSet(
            self.pixels[rows], [self.names[row] for row in rows], captions, self.left_out
        )


def read_caption_set(
    images: Sequence[str],
    captions: Sequence[str],
    size: int | None,
    check: Callable[[], None] = lambda: None,
    kind: CaptionFormat = CAPTIONS,
    say: Callable[[str], None] = lambda line: None,
) -> CaptionSet:
    """Read captions and decode their images.

    Captions without an image, images without a caption, empty captions and broken images are left
    out and counted.

    Args:
        images: Folders or zip archives.
        captions: Files of captions, or of another kind.
        size: Height and width of the images, or None for the usual one (see `CaptionData`).
        check: Called several times a second; an exception from it ends the call.
        kind: The kind of the files.
        say: A callback that gets messages about the progress.

    Returns:
        The images that have captions, and the captions.

    Raises:
        DataError: If a file cannot be read, no image with a caption is left, or the images need too
            much memory.
        UserError: If Pillow is not installed.
    """
    folders = [ImageFolder(Path(name)) for name in images]
    places = ImageNames(folders)
    left, rows = LeftOutCaptions(), []
    for file in captions:
        for row in kind.read(Path(file)):
            fitting = places.find(row.image)
            if kind.is_empty(row):
                left.add(f"{file}:{row.line}", Reason(f"empty {kind.unit}"))
            elif not fitting:
                is_read = PurePosixPath(row.image).suffix.lower() not in NOT_READ
                why = Reason(kind.unit, " without an image" if is_read else NOT_READABLE)
                left.add(f"{file}:{row.line} {row.image}", why)
            elif len(fitting) > 1:
                why = Reason(kind.unit, " whose name fits several images (give their folder too)")
                left.add(f"{file}:{row.line} {row.image}", why)
            else:
                rows.append((fitting[0], file, row))
    wanted = list(dict.fromkeys(place for place, *_ in rows))
    for folder in folders:
        for name in sorted(
            set(folder.names) - {each.name for each in wanted if each.folder is folder}
        ):
            left.add(name, Reason("image", f" without a {kind.unit}", is_described=False))
    made = decode_images(wanted, size or common_size(wanted), say, check)
    for message in made.broken:
        left.add(message, Reason("broken image"))
    kept = [wanted[number] for number in made.places]
    numbers = {place: row for row, place in enumerate(kept)}
    found = [
        Caption(numbers[place], row.text, file, row.line, row.source)
        for place, file, row in rows
        if place in numbers
    ]
    if not found:
        lines = left.described().lines() or [f"the files have no {kind.unit}s"]
        raise DataError(
            f"{', '.join(captions)}: no {kind.unit} has a readable image in "
            f"{', '.join(images)}: {'; '.join(lines)}"
        )
    return CaptionSet(made.pixels, [each.name for each in kept], found, left)


def hold_out(
    found: CaptionSet, count: int, kind: CaptionFormat = CAPTIONS
) -> tuple[CaptionSet, CaptionSet]:
    """Return the training set and the validation set, which share no image.

    The validation set is the same for every seed of a run.
    """
    total = len(found.names)
    if total < 2:
        raise DataError(
            f"{found.captions[0].file}: one image with {kind.unit}s is not enough to train and to "
            f"validate; give more images, or {kind.valid_flag}"
        )
    order = np.random.default_rng(ORDER_SEED).permutation(total)
    cut = max(1, min(count, total // 10))
    return found.chosen(sorted(order[cut:].tolist())), found.chosen(sorted(order[:cut].tolist()))


class ImageNames:
    """The images of some folders, found by the names that files of captions use."""

    def __init__(self, folders: Sequence[ImageFolder]) -> None:
        self._whole: dict[str, ImagePlace] = {}
        self._ends: dict[int, dict[tuple[str, ...], list[ImagePlace]]] = {}
        for folder in folders:
            for name in folder.names:
                if name in self._whole:
                    other = self._whole[name].folder
                    raise DataError(
                        f"{folder.path}: {name} is also in {other.path}; give each image once"
                    )
                self._whole[name] = ImagePlace(folder, name)

    def find(self, name: str) -> list[ImagePlace]:
        """Return the places of the images that a name fits: one, none or several.

        The name is the one in the folder, or the end of the path of an image: the file alone, or
        the file with some of the folders above it.
        """
        if name in self._whole:
            return [self._whole[name]]
        parts = PurePosixPath(name).parts
        return self._by_end(len(parts)).get(parts, [])

    def _by_end(self, depth: int) -> dict[tuple[str, ...], list[ImagePlace]]:
        """Return the places of the images by the last parts of their paths."""
        if depth not in self._ends:
            ends: dict[tuple[str, ...], list[ImagePlace]] = {}
            for place in self._whole.values():
                parts = Path(place.path).absolute().parts
                ends.setdefault(parts[-depth:], []).append(place)
            self._ends[depth] = ends
        return self._ends[depth]


def shown_counts(found: CaptionSet, unit: str = "caption") -> str:
    """Return the number of images and captions, as a clause."""
    return f"{counted(len(found.names), 'image')} with {counted(len(found.captions), unit)}"
