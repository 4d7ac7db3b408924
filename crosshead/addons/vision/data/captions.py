"""Images with captions or pairs: sections `[data]` of a recipe, and the rows of an epoch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from pydantic import Field

from crosshead.addons.vision.data.images import as_floats
from crosshead.config import MOST, MOST_PATCH
from crosshead.data import DataSection, Names
from crosshead.text.batching import Batch, Example, Plan, collate, example_lengths, plan_batches
from crosshead.vocabulary import BOS


class ImageTextData(DataSection):
    """Images with text: the base of sections `[data]`.

    `file_keys` has the keys of images, of text, and of text for validation.
    """

    images: Names = Field(default_factory=list)
    """Folders of images, or zip archives of folders."""

    image_size: int | None = Field(None, ge=1, le=MOST_PATCH)
    """Height and width in pixels. The shorter side of an image is scaled to it, and the middle is
    cut out. Unset: the size of the images if they are squares of one size, up to 96, or else 64;
    a hundred images, spread over the set, are looked at."""

    valid_size: int = Field(500, ge=1, le=MOST)
    """The number of images that are held out of training if there are no files for validation; at
    most a tenth of all. They are the same for every seed."""

    max_length: int = Field(64, ge=1, le=2**24)
    """A text with more tokens than this is left out of training; of a pair, each side counts."""

    @property
    def text_files(self) -> list[str]:
        """The files of the text."""
        files: list[str] = getattr(self, self.file_keys[1])
        return files

    @property
    def valid_files(self) -> list[str]:
        """The files of the text for validation."""
        files: list[str] = getattr(self, self.file_keys[2])
        return files


class CaptionData(ImageTextData):
    """Images and captions: the section `[data]` of a recipe for captioning."""

    file_keys: ClassVar[tuple[str, ...]] = ("images", "captions", "valid_captions")

    captions: Names = Field(default_factory=list)
    """Files of captions. JSON Lines if the name ends in `.jsonl`, with the keys `image` and
    `caption`; CSV if the first line is `image,caption` or `image;caption`; otherwise lines
    `image#n<TAB>caption`. `image` is a name in a folder of `images`. An image may have several
    captions."""

    valid_captions: Names = Field(default_factory=list)
    """Files of captions for validation, in the form of `captions`; their images are in `images`
    too. Unset: some images are held out of training, with all their captions."""


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
    has_source: ClassVar[bool] = False
    """True if the source of an example has text, too."""

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
        return Batch((images, *batch.inputs[not self.has_source :]), batch.target_output)

    def extent(self, row: int) -> str:
        """Return the number of patches and of tokens of each side, for messages."""
        tokens = [f"{len(side):,}" for side in self.examples[row]][not self.has_source :]
        return f"{self.patches:,} patches, {' and '.join(tokens)} tokens"


class ImagePairRows(CaptionRows):
    """An epoch of pairs beside images: captions that have a source."""

    row = "pair"
    has_source = True
