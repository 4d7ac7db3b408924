"""Images with captions: the section `[data]`, reading, and the rows of an epoch."""

import json
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import ClassVar, NamedTuple

import numpy as np
from pydantic import Field

from crosshead.config import MOST, MOST_PATCH
from crosshead.data.batching import Batch, Example, Plan, collate, example_lengths, plan_batches
from crosshead.data.images import ImageFolder, as_floats, decode_image
from crosshead.data.section import DataSection, Names
from crosshead.errors import DataError
from crosshead.system.devices import available_cores
from crosshead.system.lines import check_regular, iter_lines
from crosshead.system.progress import counted
from crosshead.vocabulary import BOS

USUAL_SIZE, LARGEST_SIZE = 64, 96
"""The size of images in pixels if none is set, and the largest size of square images that is then
kept."""

NOT_DESCRIBED = "images without a "
"""The beginning of the reason for images that no caption, or no pair, names."""

_CHUNK = 256
_NAMED = 3
"""The number of files and lines that a message names."""


class ImageTextData(DataSection):
    """Images with text: the base of sections `[data]`."""

    images: Names = Field(default_factory=list)
    """Folders of images, or zip archives of folders."""

    image_size: int | None = Field(None, ge=1, le=MOST_PATCH)
    """Height and width in pixels. The shorter side of an image is scaled to it, and the middle is
    cut out. Unset: the size of the first image if it is a square of up to 96 pixels, or else 64."""

    valid_size: int = Field(500, ge=1, le=MOST)
    """The number of images, between one and a tenth of all, that are held out of training if there
    are no files for validation."""

    max_length: int = Field(64, ge=1, le=2**24)
    """A text with more tokens than this is left out of training; of a pair, each side counts."""

    @property
    @abstractmethod
    def text_files(self) -> list[str]:
        """The files of the text."""

    @property
    @abstractmethod
    def valid_files(self) -> list[str]:
        """The files of the text for validation."""


class CaptionData(ImageTextData):
    """Images and captions: the section `[data]` of a recipe for captioning."""

    file_keys: ClassVar[tuple[str, ...]] = ("images", "captions", "valid_captions")

    captions: Names = Field(default_factory=list)
    """Files of captions. JSON Lines if the name ends in `.jsonl`, with the keys `image` and
    `caption`; otherwise lines `image#n<TAB>caption`. `image` is a name in a folder of `images`. An
    image may have several captions."""

    valid_captions: Names = Field(default_factory=list)
    """Files of captions for validation, in the form of `captions`; their images are in `images`
    too. Unset: some images are held out of training, with all their captions."""

    @property
    def text_files(self) -> list[str]:
        """The files of captions."""
        return self.captions

    @property
    def valid_files(self) -> list[str]:
        """The files of captions for validation."""
        return self.valid_captions


class ReadCaption(NamedTuple):
    """A line of a file of captions."""

    line: int
    image: str
    """The name of the image."""
    text: str
    source: str = ""
    """The sentence that `text` translates; empty for a caption of the image alone."""


class CaptionFormat(NamedTuple):
    """A kind of files whose lines name an image and say something about it."""

    unit: str
    """The noun for a line."""
    read: Callable[[Path], Iterator[ReadCaption]]
    """Yields the lines of a file."""
    is_empty: Callable[[ReadCaption], bool]
    """Returns whether a line says nothing."""
    valid_flag: str
    """The option that names files for validation."""


class Caption(NamedTuple):
    """A caption of an image, with its place in a file."""

    image: int
    """The row of the image in `CaptionSet.pixels`."""
    text: str
    file: str
    line: int
    source: str = ""
    """The sentence that `text` translates; empty for a caption of the image alone."""


@dataclass
class LeftOutCaptions:
    """The captions and images that a set leaves out: counts by reason, and some names."""

    reasons: dict[str, list[str]] = field(default_factory=dict)

    def add(self, reason: str, name: str) -> None:
        """Count one more.

        Args:
            reason: The reason.
            name: The file, or the file and the line.
        """
        self.reasons.setdefault(reason, []).append(name)

    def counts(self) -> dict[str, int]:
        """Return the number by reason."""
        return {reason: len(names) for reason, names in self.reasons.items()}

    def lines(self) -> list[str]:
        """Return a message for each reason, with the first names."""
        return [
            f"left out: {len(names):,} {reason} ({', '.join(names[:_NAMED])}"
            + (", ...)" if len(names) > _NAMED else ")")
            for reason, names in self.reasons.items()
        ]


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
        """Return some of the images, with their captions.

        Args:
            images: The rows of the images.
        """
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


def read_captions(path: Path) -> Iterator[ReadCaption]:
    """Yield the captions of a file.

    Args:
        path: JSON Lines if the name ends in `.jsonl`, otherwise lines `image#n<TAB>caption`.

    Raises:
        DataError: If a line holds no image and no caption; the message names file and line.
    """
    of_line = _of_json if is_json_lines(path) else _of_table
    for number, line in numbered_lines(path):
        name, text = of_line(line, f"{path}:{number}")
        yield ReadCaption(number, name, " ".join(text.split()))


def is_json_lines(path: Path) -> bool:
    """Return whether the name of a file says that it is JSON Lines, perhaps compressed.

    Args:
        path: The file.
    """
    return path.name.removesuffix(".gz").endswith(".jsonl")


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file that are not blank, with their numbers from 1.

    Args:
        path: The file.

    Raises:
        DataError: If the file cannot be read.
    """
    check_regular(path)
    for number, line in enumerate(iter_lines(path), 1):
        if line.strip():
            yield number, line


CAPTIONS = CaptionFormat(
    "caption", read_captions, lambda row: not row.text, valid_flag="--valid-captions"
)
"""The files of captions."""


def read_caption_set(
    images: Sequence[str],
    captions: Sequence[str],
    size: int | None,
    check: Callable[[], None] = lambda: None,
    kind: CaptionFormat = CAPTIONS,
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

    Returns:
        The images that have captions, and the captions.

    Raises:
        DataError: If a file cannot be read, or no image with a caption is left.
        UserError: If Pillow is not installed.
    """
    folders = [ImageFolder(Path(name)) for name in images]
    places = image_places(folders)
    left, rows = LeftOutCaptions(), []
    for file in captions:
        for row in kind.read(Path(file)):
            place = places.get(row.image) or places.get(PurePosixPath(row.image).name)
            if kind.is_empty(row):
                left.add(f"empty {kind.unit}s", f"{file}:{row.line}")
            elif place is None:
                left.add(f"{kind.unit}s without an image", f"{file}:{row.line} {row.image}")
            else:
                rows.append((place, file, row))
    wanted = list(dict.fromkeys(place for place, *_ in rows))
    for number, folder in enumerate(folders):
        for name in sorted(set(folder.names) - {name for which, name in wanted if which == number}):
            left.add(f"{NOT_DESCRIBED}{kind.unit}", name)
    pixels, kept = _decoded(folders, wanted, size, left, check)
    numbers = {place: row for row, place in enumerate(kept)}
    found = [
        Caption(numbers[place], row.text, file, row.line, row.source)
        for place, file, row in rows
        if place in numbers
    ]
    if not found:
        lines = [line for line in left.lines() if NOT_DESCRIBED not in line]
        why = "; ".join(lines) or f"the files have no {kind.unit}s"
        raise DataError(
            f"{', '.join(captions)}: no {kind.unit} has a readable image in "
            f"{', '.join(images)}: {why}"
        )
    return CaptionSet(pixels, [name for _, name in kept], found, left)


def hold_out(
    found: CaptionSet, count: int, seed: int, kind: CaptionFormat = CAPTIONS
) -> tuple[CaptionSet, CaptionSet]:
    """Return the training set and the validation set, which share no image.

    Args:
        found: All images and captions.
        count: The number of images to hold out; at most a tenth of all, at least one.
        seed: The random seed.
        kind: The kind of the files, for messages.

    Raises:
        DataError: If there are fewer than two images.
    """
    total = len(found.names)
    if total < 2:
        raise DataError(
            f"{found.captions[0].file}: one image with {kind.unit}s is not enough to train and to "
            f"validate; give more images, or {kind.valid_flag}"
        )
    order = np.random.default_rng(seed).permutation(total)
    cut = max(1, min(count, total // 10))
    return found.chosen(sorted(order[cut:].tolist())), found.chosen(sorted(order[:cut].tolist()))


@dataclass(frozen=True)
class CaptionRows:
    """An epoch of captions and their images."""

    pixels: np.ndarray
    """The pixels of all images, `uint8`, "N H W C"."""
    images: Sequence[int]
    """The image of each row."""
    examples: Sequence[Example]
    """The ids of each caption, as the target of an empty source."""
    patches: int
    """The number of patches of an image, which count as positions of its source."""
    start: int = BOS
    """The first token of every target."""
    row, bound = "caption", "data.max_length"

    @property
    def lengths(self) -> np.ndarray:
        """The positions of source and target of each row, "n 2"."""
        found: np.ndarray = example_lengths(self.examples) + np.array([self.patches, 0])
        return found

    def plan(self, max_tokens: int, seed: int, epoch: int) -> Plan:
        """Return the plan that `plan_batches` makes from the lengths."""
        return plan_batches(self.lengths, max_tokens, seed, epoch)

    def collate(self, rows: Sequence[int]) -> Batch:
        """Return the given rows as a batch of images and targets."""
        batch = collate(self.examples, rows, self.start)
        images = as_floats(self.pixels[[self.images[row] for row in rows]])
        return Batch((images, batch.target_input), batch.target_output)

    def extent(self, row: int) -> str:
        """Return the number of patches and tokens, for messages."""
        return f"{self.patches:,} patches and {len(self.examples[row][1]):,} tokens"


def _of_json(line: str, where: str) -> tuple[str, str]:
    """Return image and caption of a line of JSON."""
    try:
        row = json.loads(line)
        name, text = row["image"], row["caption"]
        if isinstance(name, str) and isinstance(text, str):
            return name, text
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise DataError(
        f"{where}: expected an object with the texts `image` and `caption`, found {line[:60]!r}"
    )


def _of_table(line: str, where: str) -> tuple[str, str]:
    """Return image and caption of a line `image#n<TAB>caption`."""
    name, tab, text = line.partition("\t")
    if not tab or not name.strip():
        raise DataError(
            f"{where}: expected `image#n<TAB>caption`, found {line[:60]!r}; end the name of a file "
            "of JSON Lines in .jsonl"
        )
    head, _, number = name.rpartition("#")
    return head if head and number.isdigit() else name, text


Place = tuple[int, str]
"""The number of a folder, and a name in it."""


def image_places(folders: Sequence[ImageFolder]) -> dict[str, Place]:
    """Return the place of each image by its name, and by its name without folders if one has it.

    Args:
        folders: The folders.

    Raises:
        DataError: If two folders have an image of one name.
    """
    whole: dict[str, Place] = {}
    short: dict[str, list[Place]] = {}
    for number, folder in enumerate(folders):
        for name in folder.names:
            if name in whole:
                raise DataError(
                    f"{folder.path}: {name} is also in {folders[whole[name][0]].path}; give each "
                    "image once"
                )
            whole[name] = number, name
            short.setdefault(PurePosixPath(name).name, []).append((number, name))
    return {name: each[0] for name, each in short.items() if len(each) == 1} | whole


def _decoded(
    folders: Sequence[ImageFolder],
    wanted: Sequence[Place],
    size: int | None,
    left: LeftOutCaptions,
    check: Callable[[], None],
) -> tuple[np.ndarray, list[Place]]:
    """Return the pixels of images and the places of those that are whole, decoded in threads."""

    def decoded(place: Place) -> np.ndarray | DataError:
        number, name = place
        try:
            return decode_image(folders[number].read(name), size, name)
        except DataError as error:
            return error

    if size is None and wanted:
        first = decoded(wanted[0])
        shape = (0, 0) if isinstance(first, DataError) else first.shape[:2]
        size = shape[0] if 0 < shape[0] == shape[1] <= LARGEST_SIZE else USUAL_SIZE
    found: list[np.ndarray] = []
    kept: list[Place] = []
    with ThreadPoolExecutor(available_cores()) as pool:
        for begin in range(0, len(wanted), _CHUNK):
            check()
            some = wanted[begin : begin + _CHUNK]
            for place, pixels in zip(some, pool.map(decoded, some), strict=True):
                if isinstance(pixels, DataError):
                    left.add("broken images", str(pixels))
                else:
                    found.append(pixels)
                    kept.append(place)
    return np.stack(found) if found else np.empty((0, 0, 0, 3), np.uint8), kept


def shown_counts(found: CaptionSet, unit: str = "caption") -> str:
    """Return the number of images and captions, as a clause.

    Args:
        found: The set.
        unit: The noun for a caption.
    """
    return f"{counted(len(found.names), 'image')} with {counted(len(found.captions), unit)}"
