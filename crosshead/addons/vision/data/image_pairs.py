"""Pairs of sentences beside images: the section `[data]`, reading, and the rows of an epoch.

A pair is a caption of an image (`crosshead.addons.vision.data.caption_files`) that has a source.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from pydantic import Field

from crosshead.addons.vision.data.caption_files import CaptionFormat, ReadCaption, image_rows
from crosshead.addons.vision.data.captions import CaptionRows, ImageTextData
from crosshead.addons.vision.data.images import as_floats
from crosshead.data import Names
from crosshead.errors import DataError
from crosshead.text.batching import Batch, collate

KEYS = ("image", "source", "target")
"""The keys of a line of JSON, and the columns of a table."""


class ImagePairData(ImageTextData):
    """Images and pairs: the section `[data]` of a recipe for multimodal translation."""

    file_keys: ClassVar[tuple[str, ...]] = ("images", "pairs", "valid_pairs")

    pairs: Names = Field(default_factory=list)
    """Files of pairs beside images. JSON Lines if the name ends in `.jsonl`, with the keys `image`,
    `source` and `target`; otherwise lines `image<TAB>source<TAB>target`. `image` is a name in a
    folder of `images`. An image may have several pairs."""

    valid_pairs: Names = Field(default_factory=list)
    """Files of pairs for validation, in the form of `pairs`; their images are in `images` too.
    Unset: some images are held out of training, with all their pairs."""


def read_image_pairs(path: Path) -> Iterator[ReadCaption]:
    """Yield the pairs of a file."""
    for number, (image, source, target) in image_rows(path, KEYS):
        yield ReadCaption(number, image, target, source)


PAIRS = CaptionFormat(
    "pair", read_image_pairs, lambda row: not (row.source and row.text), valid_flag="--valid-pairs"
)
"""The files of pairs beside images."""


@dataclass(frozen=True)
class ImagePairRows(CaptionRows):
    """An epoch of pairs and their images."""

    row = "pair"

    def collate(self, rows: Sequence[int]) -> Batch:
        """Return the given rows as a batch of images, sources and targets."""
        batch = collate(self.examples, rows, self.start)
        images = as_floats(self.pixels[[self.images[row] for row in rows]])
        return Batch((images, *batch.inputs), batch.target_output)

    def extent(self, row: int) -> str:
        """Return the number of patches and of tokens of both sides, for messages."""
        source, target = map(len, self.examples[row])
        return f"{self.patches:,} patches, {source:,} and {target:,} tokens"


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
