"""Decoded images with captions or pairs: files, what is left out, held-out images, epochs.

A pair is a caption of an image that has a source.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np

from crosshead.addons.vision.data.image_decoding import (
    ORDER_SEED,
    ImagePlace,
    common_size,
    decode_images,
)
from crosshead.addons.vision.data.images import ImageFolder, as_floats
from crosshead.errors import DataError
from crosshead.system.lines import check_regular, iter_lines
from crosshead.system.progress import left_out
from crosshead.text.batching import Batch, Example, Plan, collate, example_lengths, plan_batches
from crosshead.text.parallel.tables import Form, Row, chosen_cells, csv_form, is_csv, is_jsonl
from crosshead.vocabulary import BOS


class CaptionFormat(NamedTuple):
    """A kind of files whose lines name an image and say something about it."""

    unit: str
    """The noun for a line; with an s, it is the option of these files."""
    columns: tuple[str, ...]
    """The keys of a line of JSON, and the columns of a table: the image, then the texts."""


CAPTIONS = CaptionFormat("caption", ("image", "caption"))
"""The files of captions."""

PAIRS = CaptionFormat("pair", ("image", "source", "target"))
"""The files of pairs beside images."""


class Caption(NamedTuple):
    """A caption of an image, with its place in a file."""

    image: int
    """The row of the image in `CaptionSet.pixels`."""
    texts: tuple[str, ...]
    """The caption, or a source and its translation."""
    file: str
    line: int


@dataclass(frozen=True)
class CaptionSet:
    """Decoded images and their captions."""

    pixels: np.ndarray
    """The pixels, `uint8`, "N H W C"."""
    names: list[str]
    """The name of each image, in its folder."""
    captions: list[Caption]
    """All captions, in the order of the files."""
    left_out: Mapping[tuple[str, str], list[str]]
    """The places that are left out, by the noun and the words after it that say why."""
    kind: CaptionFormat = CAPTIONS

    @property
    def texts(self) -> list[str]:
        """The text of each caption."""
        return [each.texts[-1] for each in self.captions]

    @property
    def sources(self) -> list[str]:
        """The sentence that each caption translates; empty for a caption of the image alone."""
        return ["".join(each.texts[:-1]) for each in self.captions]

    @property
    def rows(self) -> list[int]:
        """The row in `pixels` of the image of each caption."""
        return [each.image for each in self.captions]

    @property
    def inputs(self) -> list[str]:
        """The source of each pair, or the name of each image that has captions."""
        return self.sources if self.kind == PAIRS else self.names

    def references(self) -> list[list[str]]:
        """Return the target of each pair, or the captions of each image."""
        if self.kind == PAIRS:
            return [[text] for text in self.texts]
        found: list[list[str]] = [[] for _ in self.names]
        for each in self.captions:
            found[each.image].append(each.texts[-1])
        return found

    def beside(self, rows: Sequence[int]) -> "CaptionSet":
        """Return the captions beside other images."""
        pairs = zip(self.captions, rows, strict=True)
        return replace(self, captions=[each._replace(image=row) for each, row in pairs])

    def messages(self) -> list[str]:
        """Return a message for each reason to leave something out, with the first places."""
        return [left_out(places, *reason) for reason, places in self.left_out.items()]

    def chosen(self, images: Sequence[int]) -> "CaptionSet":
        """Return some of the images, with their captions."""
        places = {image: place for place, image in enumerate(images)}
        captions = [
            each._replace(image=places[each.image])
            for each in self.captions
            if each.image in places
        ]
        rows = list(images)
        names = [self.names[row] for row in rows]
        return replace(self, pixels=self.pixels[rows], names=names, captions=captions)


@dataclass(frozen=True)
class CaptionRows:
    """An epoch of captions or pairs, and their images."""

    pixels: np.ndarray
    """The pixels of all images, `uint8`, "N H W C"."""
    images: Sequence[int]
    """The image of each row."""
    examples: Sequence[Example]
    """The ids of each source and target; a caption is the target of an empty source."""
    patches: int
    """The number of patches of an image, which count as positions of its source."""
    kind: CaptionFormat = CAPTIONS
    start: int = BOS
    """The first token of every target."""
    bound = "data.max_length"

    @property
    def row(self) -> str:
        """The noun for a row."""
        return self.kind.unit

    @property
    def lengths(self) -> np.ndarray:
        """The positions of source and target of each row, "n 2"."""
        found: np.ndarray = example_lengths(self.examples) + np.array([self.patches, 0])
        return found

    def plan(self, max_tokens: int, seed: int, epoch: int) -> Plan:
        """Return the plan that `plan_batches` makes from the lengths."""
        return plan_batches(self.lengths, max_tokens, seed, epoch)

    def collate(self, rows: Sequence[int]) -> Batch:
        """Return the given rows as a batch of images and the inputs of each side."""
        batch = collate(self.examples, rows, self.start)
        images = as_floats(self.pixels[[self.images[row] for row in rows]])
        return Batch((images, *batch.inputs[self.kind == CAPTIONS :]), batch.target_output)

    def extent(self, row: int) -> str:
        """Return the number of patches and of tokens of each side, for messages."""
        tokens = [f"{len(side):,}" for side in self.examples[row]][self.kind == CAPTIONS :]
        return f"{self.patches:,} patches, {' and '.join(tokens)} tokens"


def image_rows(path: Path, columns: Sequence[str]) -> Iterator[Row]:
    """Yield the line and the cells of each row that is not empty.

    The columns have these names in JSON Lines and in CSV, which is a file whose name ends in `.csv`
    or whose first line is the names. Other files have these columns between tabs, without names. A
    number behind an image counts its captions: `dog.jpg#0`.
    """
    check_regular(path)
    lines = partial(iter_lines, path)
    is_table = is_csv(path) or re.fullmatch("[,;]".join(columns), next(lines(), ""))
    fields = columns if is_table or is_jsonl(path) else []
    form = csv_form(lines) if is_table else Form()
    advice = f"; the columns are {', '.join(columns)}"
    for number, cells in chosen_cells(path, lines(), fields, form, len(columns), advice):
        if any(cells):
            image, *texts = (" ".join(cell.split()) for cell in cells)
            yield number, [re.sub(r"(?<=.)#\d+$", "", image), *texts]


def read_caption_set(
    images: Sequence[str],
    captions: Sequence[str],
    size: int | None,
    check: Callable[[], None] = lambda: None,
    kind: CaptionFormat = CAPTIONS,
    say: Callable[[str], None] = lambda line: None,
) -> CaptionSet:
    """Read captions and decode their images.

    Captions without an image, empty captions and broken images are left out and counted.

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
    places = ImageNames([ImageFolder(Path(name)) for name in images])
    left, rows = defaultdict[tuple[str, str], list[str]](list), []
    for file in captions:
        for line, (image, *texts) in image_rows(Path(file), kind.columns):
            fitting = places.find(image)
            if not all(texts):
                left[f"empty {kind.unit}", ""].append(f"{file}:{line}")
            elif len(fitting) == 1:
                rows.append((fitting[0], (tuple(texts), file, line)))
            else:
                several = " whose name fits several images (give their folder too)"
                why = several if fitting else " without an image"
                left[kind.unit, why].append(f"{file}:{line} {image}")
    wanted = list(dict.fromkeys(place for place, _ in rows))
    made = decode_images(wanted, size or common_size(wanted), say, check)
    if made.broken:
        left["broken image", ""] = made.broken
    kept = [wanted[number] for number in made.places]
    numbers = {place: row for row, place in enumerate(kept)}
    found = CaptionSet(
        made.pixels,
        [each.name for each in kept],
        [Caption(numbers[place], *rest) for place, rest in rows if place in numbers],
        dict(left),
        kind,
    )
    if not found.captions:
        raise DataError(
            f"{', '.join(captions)}: no {kind.unit} has a readable image in {', '.join(images)}: "
            f"{'; '.join(found.messages()) or f'the files have no {kind.unit}s'}"
        )
    return found


def hold_out(found: CaptionSet, count: int) -> tuple[CaptionSet, CaptionSet]:
    """Return the training set and the validation set, which share no image.

    The validation set is the same for every seed of a run.
    """
    total, unit = len(found.names), found.kind.unit
    if total < 2:
        raise DataError(
            f"{found.captions[0].file}: one image with {unit}s is not enough to train and to "
            f"validate; give more images, or --valid-{unit}s"
        )
    order = np.random.default_rng(ORDER_SEED).permutation(total)
    cut = max(1, min(count, total // 10))
    return found.chosen(sorted(order[cut:].tolist())), found.chosen(sorted(order[:cut].tolist()))


class ImageNames:
    """The images of some folders, found by the names that files of captions use."""

    def __init__(self, folders: Sequence[ImageFolder]) -> None:
        self._whole: dict[str, ImagePlace] = {}
        self._by_file = defaultdict[str, list[tuple[tuple[str, ...], ImagePlace]]](list)
        for folder in folders:
            for name in folder.names:
                if name in self._whole:
                    other = self._whole[name].folder
                    raise DataError(
                        f"{folder.path}: {name} is also in {other.path}; give each image once"
                    )
                place = self._whole[name] = ImagePlace(folder, name)
                parts = Path(place.path).absolute().parts
                self._by_file[parts[-1]].append((parts, place))

    def find(self, name: str) -> list[ImagePlace]:
        """Return the places of the images that a name fits: one, none or several.

        The name is the one in the folder, or the end of the path of an image: the file alone, or
        the file with some of the folders above it.
        """
        if name in self._whole:
            return [self._whole[name]]
        ends = PurePosixPath(name).parts
        named = self._by_file.get(ends[-1], []) if ends else []
        return [place for parts, place in named if parts[-len(ends) :] == ends]


def other_images(images: Sequence[int]) -> list[int]:
    """Return another image for each sentence: images are shuffled, and none stays at its place.

    Args:
        images: The number of the image of each sentence.

    Returns:
        The number of the image that each sentence gets. Sentences with one image get one image.

    Raises:
        DataError: If all sentences have the same image.

    Reference:
        Caglayan et al. 2019, "Probing the Need for Visual Context in Multimodal Machine
        Translation" (incongruent decoding).
    """
    known = sorted(set(images))
    if len(known) < 2:
        raise DataError("shuffling the images needs sentences with two different images or more")
    order = np.random.default_rng(1).permutation(known).tolist()
    # A circle through all images leaves none at its place.
    follower = dict(zip(order, [*order[1:], order[0]], strict=True))
    return [follower[image] for image in images]
