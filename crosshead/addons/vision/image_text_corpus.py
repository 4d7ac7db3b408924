"""The data of tasks on images with text: captions, and pairs of sentences beside images."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from pydantic import Field, SerializeAsAny, ValidationInfo, model_validator

from crosshead.addons.vision.bundles import ImageTextBundle, ImageTextBundleConfig
from crosshead.addons.vision.data.caption_sets import (
    CAPTIONS,
    PAIRS,
    CaptionFormat,
    CaptionRows,
    CaptionSet,
    hold_out,
    read_caption_set,
)
from crosshead.addons.vision.data.image_decoding import kept_size, shared_images
from crosshead.addons.vision.models.image_encoder import ImageShape, ImageStackConfig
from crosshead.bundle.base import Bundle
from crosshead.bundle.card import CardFile
from crosshead.config import MOST, MOST_PATCH, called
from crosshead.data import DataSection, Names
from crosshead.errors import DataError
from crosshead.evaluation.sacrebleu_metrics import tokenised_warning
from crosshead.recipe.recipe import Recipe
from crosshead.recipe.text_recipe import TokenRecipe
from crosshead.system.lines import file_sha256, iter_lines
from crosshead.system.progress import counted
from crosshead.tasks.base import Say
from crosshead.tasks.corpus import stop_check
from crosshead.tasks.token_task import TokenCorpus, unknown_words
from crosshead.text.profile import TextProfile


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


class ImageTextRecipe(TokenRecipe):
    """A run on images with text."""

    data: SerializeAsAny[ImageTextData]
    left_open: ClassVar[Mapping[str, Mapping[str, object]]] = {
        "data": {"image_size": None},
        **TokenRecipe.left_open,
    }

    @model_validator(mode="after")
    def _check_images(self, info: ValidationInfo) -> Self:
        assert isinstance(self.model, ImageStackConfig)
        if self.data.image_size is not None:
            ImageShape(self.data.image_size).patches(self.model.patch_size)
        most, longest = self.model.most_positions, self.data.max_length
        if most is not None and longest + 1 > most:
            raise ValueError(
                f"{called('data.max_length', info)} {longest} (and the end token) is "
                f"more than the {most} learned positions of model.max_length; lower the first or "
                "raise the second"
            )
        if self.tokenizer.sampling:
            raise ValueError("tokenizer.sampling is for translation without images; leave it out")
        return self


class CaptioningRecipe(ImageTextRecipe):
    """A run on images with captions."""

    data: SerializeAsAny[CaptionData]

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.tokenizer.joint:
            raise ValueError("captions have one side: set tokenizer.joint = true")
        return self


class MultimodalRecipe(ImageTextRecipe):
    """A run on pairs beside images."""

    data: SerializeAsAny[ImagePairData]

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.model.shares_vocabulary and not self.tokenizer.joint:
            raise ValueError(
                "model.tie three-way needs one vocabulary for both sides: set tokenizer.joint = "
                "true, or model.tie = 'two-way'"
            )
        return self


@dataclass(frozen=True)
class ImageTextCorpus(TokenCorpus):
    """Images and tokenized texts: captions, or pairs of sentences."""

    train: CaptionSet
    valid: CaptionSet
    train_rows: CaptionRows
    valid_rows: CaptionRows
    rows: Sequence[int]
    """The place in `train.captions` of each training row."""
    held_out: bool
    """True if the validation images were held out of the training images."""

    kind: ClassVar[type[Bundle]] = ImageTextBundle
    files_of: ClassVar[CaptionFormat]
    """The kind of the files of text."""

    @property
    def size(self) -> int:
        """The number of training captions."""
        return len(self.train_rows.images)

    @property
    def image_size(self) -> int:
        """Height and width of the images in pixels."""
        return int(self.train.pixels.shape[1])

    @property
    def lengths(self) -> np.ndarray:
        """The patches and the tokens of all captions."""
        return self.train_rows.lengths

    def epochs(self, recipe: Recipe) -> Callable[[int], CaptionRows]:  # type: ignore[override]
        """Return a function that gives all captions for every epoch."""
        return lambda epoch: self.train_rows

    def sha256(self) -> str:
        """Return the checksum of all images and captions."""
        found = hashlib.sha256()
        for rows in (self.train_rows, self.valid_rows):
            found.update(np.ascontiguousarray(rows.pixels).tobytes())
            texts = [ids if self.files_of == PAIRS else ids[1] for ids in rows.examples]
            found.update(json.dumps([list(rows.images), texts]).encode())
        return found.hexdigest()

    def origin(self, row: int) -> str:
        """Return the file and the line of a caption."""
        caption = self.train.captions[self.rows[row]]
        return f"{caption.file}:{caption.line}"

    def opening(self, data: ImageTextData) -> list[str]:
        """Return the numbers of images and captions, and what was left out."""
        size = self.image_size
        first = (
            f"{self._counts(self.train)} to train on, {size} x {size} pixels in "
            f"{self.train_rows.patches} patches; validation: {self.validation(data)}"
        )
        lines = self.train.messages() + ([] if self.held_out else self.valid.messages())
        longer = len(self.train.captions) - self.size
        if longer:
            lines.append(
                f"left out: {counted(longer, self.unit)} of more than data.max_length "
                f"{data.max_length} tokens"
            )
        where = ", ".join(data.valid_files) or "the held-out references"
        lines += tokenised_warning(self.valid.texts, where)
        lines += unknown_words(self.target_tokenizer, self.train.texts, self.unit)
        return [first, *lines]

    def validation(self, data: ImageTextData) -> str:
        """Return a clause about the validation set."""
        where = "held out" if self.held_out else f"of {', '.join(data.valid_files)}"
        return f"{self._counts(self.valid)} {where}"

    def _counts(self, found: CaptionSet) -> str:
        images, texts = len(found.names), len(found.captions)
        return f"{counted(images, 'image')} with {counted(texts, self.unit)}"

    def left_out(self) -> dict[str, int]:
        """Return the number of captions and images left out of training, by reason."""
        left = self.train.left_out.items()
        counts = {f"{noun}s{rest}": len(places) for (noun, rest), places in left}
        longer = len(self.train.captions) - self.size
        return {**counts, **({"too long": longer} if longer else {})}

    def bundle_config(self, recipe: ImageTextRecipe, longest_input: int) -> ImageTextBundleConfig:  # type: ignore[override]
        """Return the tokenizers, the size of the images and the search."""
        return ImageTextBundleConfig(
            task=recipe.model.task,
            model=recipe.model,
            joint_tokenizer=recipe.tokenizer.joint,
            source_vocabulary=self.source_tokenizer.vocab_size,
            target_vocabulary=self.target_tokenizer.vocab_size,
            longest_source=longest_input,
            longest_target=int(self.train_rows.lengths[:, 1].max()),
            image_size=self.image_size,
            decode=recipe.decode,
            profile=self.profile,
        )

    def bundle(self, config: Any, model: Any) -> ImageTextBundle:
        """Return the bundle of a model, with the tokenizers."""
        return ImageTextBundle(config, model, self.source_tokenizer, self.target_tokenizer)

    def completed(self, recipe: ImageTextRecipe) -> ImageTextRecipe:  # type: ignore[override]
        """Return the recipe with the chosen vocabulary size and image size."""
        data = recipe.data.model_copy(update={"image_size": self.image_size})
        return recipe.model_copy(update={"tokenizer": self.tokenizer, "data": data})


@dataclass(frozen=True)
class CaptionCorpus(ImageTextCorpus):
    """Images and tokenized captions."""

    unit, unit_name = "caption", "captions"
    files_of = CAPTIONS

    @property
    def longest_input(self) -> int:
        """The number of patches of an image."""
        return self.train_rows.patches


@dataclass(frozen=True)
class ImagePairCorpus(ImageTextCorpus):
    """Images and tokenized pairs: captions that have a source."""

    unit, unit_name = "pair", "pairs beside images"
    files_of = PAIRS

    @property
    def longest_input(self) -> int:
        """The number of tokens of the longest source in training."""
        return max(len(source) for source, _ in self.train_rows.examples)

    @cached_property
    def profile(self) -> TextProfile | None:
        """Statistics of the training pairs, or None if there are too few."""
        examples = self.train_rows.examples
        return TextProfile.of(examples, self.source_tokenizer, self.target_tokenizer)


def read_sets(
    recipe: ImageTextRecipe,
    base: ImageTextBundle | None,
    kind: CaptionFormat,
    say: Say = lambda line: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> tuple[CaptionSet, CaptionSet, int]:
    """Read the images of a recipe and their texts."""
    data, check = recipe.data, stop_check(should_stop)
    if not data.images or not data.text_files:
        raise DataError(
            f"no training data: give a folder of images (--images) and a file of {kind.unit}s "
            f"(--{kind.unit}s)"
        )
    size = data.image_size
    if base is not None:
        size = kept_size(size, base.config.image_size)
    train = read_caption_set(data.images, data.text_files, size, check, kind, say)
    assert isinstance(recipe.model, ImageStackConfig)
    try:
        patches = ImageShape(int(train.pixels.shape[1])).patches(recipe.model.patch_size)
    except ValueError as error:
        raise DataError(str(error)) from None
    if not data.valid_files:
        return *hold_out(train, data.valid_size), patches
    size = int(train.pixels.shape[1])
    valid = read_caption_set(data.images, data.valid_files, size, check, kind, say)
    if shared := {*train.names} & {*valid.names}:  # names are unique in all folders
        say(shared_images(len(shared), len(valid.names)))
    return train, valid, patches


def card_files(data: ImageTextData) -> list[CardFile]:
    """Return the files of text, for the model card."""
    return [
        CardFile(name, sum(1 for _ in iter_lines(Path(name))), file_sha256(Path(name)))
        for name in data.text_files
    ]
