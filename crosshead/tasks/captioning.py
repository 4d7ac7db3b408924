"""Captioning: models that describe images in words."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import SerializeAsAny, model_validator

from crosshead.bundle.base import Bundle
from crosshead.bundle.image_text_bundle import ImageTextBundle
from crosshead.data.caption_files import CAPTIONS
from crosshead.data.caption_sets import CaptionSet
from crosshead.data.captions import CaptionData, CaptionRows
from crosshead.data.text.learning import learn_tokenizer
from crosshead.data.text.tokenizers import load_tokenizer, token_ids
from crosshead.decoding.search import DecodeConfig
from crosshead.errors import DataError
from crosshead.pipelines.base import Pipeline
from crosshead.pipelines.captioner import ImageCaptioner
from crosshead.recipe.recipe import Recipe
from crosshead.tasks.base import Say
from crosshead.tasks.image_text import (
    ImageTextCorpus,
    ImageTextRecipe,
    ImageTextTask,
    ImageTextValidator,
    card_files,
    read_sets,
)
from crosshead.tasks.usability import Nouns
from crosshead.tasks.validation import Validator


class CaptioningRecipe(ImageTextRecipe):
    """A run on images with captions."""

    data: SerializeAsAny[CaptionData]

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.tokenizer.joint:
            raise ValueError("captions have one side: set tokenizer.joint = true")
        return self


@dataclass(frozen=True)
class CaptionCorpus(ImageTextCorpus):
    """Images and tokenized captions."""

    unit, unit_name = "caption", "captions"

    @property
    def longest_input(self) -> int:
        """The number of patches of an image."""
        return self.train_rows.patches

    def texts(self, rows: CaptionRows) -> list[Any]:
        """Return the ids of captions for the checksum."""
        return [ids for _, ids in rows.examples]

    def records(self, epoch: CaptionRows, rows: Sequence[int]) -> tuple[str, str]:
        """Return captions as JSON Lines, and the options to train on them."""
        found = [self.train.captions[self.rows[row]] for row in rows]
        lines = [
            json.dumps({"image": self.train.names[each.image], "caption": each.text})
            for each in found
        ]
        return "\n".join(lines) + "\n", "--captions, with the same --images"


def read_corpus(
    recipe: CaptioningRecipe,
    base: ImageTextBundle | None,
    resumed: Path | None,
    say: Say = lambda line: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> CaptionCorpus:
    """Read the captions of a recipe, decode their images, and learn the tokenizer.

    Args:
        recipe: The settings of the run.
        base: The bundle that training starts from, whose tokenizer and image size are kept.
        resumed: The run directory that is resumed, whose tokenizer is kept.
        say: A callback that gets messages.
        should_stop: Returns whether the run should stop.

    Returns:
        The training and validation data.

    Raises:
        Stopped: Soon after `should_stop` returns true.
        DataError: If the images or the captions cannot be used.
    """
    data = recipe.data
    train, valid, patches = read_sets(recipe, base, CAPTIONS, "captions", say, should_stop)
    config = recipe.tokenizer
    if resumed is not None:
        tokenizer = load_tokenizer(resumed, "tokenizer")
    elif base is not None:
        tokenizer = base.target_tokenizer
    else:
        config, tokenizer = learn_tokenizer(config, train.texts)
    ids = token_ids(tokenizer, train.texts)
    rows = [row for row, each in enumerate(ids) if len(each) <= data.max_length]
    if not rows:
        raise DataError(
            f"{data.captions[0]}: every caption has more than data.max_length {data.max_length} "
            "tokens; raise it"
        )

    def image_rows(of: CaptionSet, chosen: Sequence[int], ids: Sequence[list[int]]) -> CaptionRows:
        images = [of.captions[row].image for row in chosen]
        examples = [((), ids[row]) for row in chosen]
        return CaptionRows(of.pixels, images, examples, patches, start=recipe.model.start_token)

    return CaptionCorpus(
        card_files(data),
        config,
        tokenizer,
        tokenizer,
        train,
        valid,
        image_rows(train, rows, ids),
        image_rows(valid, range(len(valid.captions)), token_ids(tokenizer, valid.texts)),
        rows,
        held_out=not data.valid_captions,
    )


class CaptioningValidator(ImageTextValidator):
    """Validates by the loss of the references, and by BLEU and exact match of greedy captions."""

    labels = "image", "output", "reference"
    nouns = Nouns("image", "caption")

    def inputs(self) -> list[str]:
        """Return the name of each image."""
        return self.corpus.valid.names

    def references(self) -> list[list[str]]:
        """Return the captions of each image."""
        return self.corpus.valid.references()

    def outputs(self, decode: DecodeConfig) -> list[str]:
        """Return the best caption of each image."""
        found = ImageCaptioner(self.bundle).search(
            self.corpus.valid.pixels, decode, progress=lambda share: self.stop_if_asked()
        )
        return [best[0].text for best in found]


class CaptioningTask(ImageTextTask):
    """Captioning of images."""

    name: ClassVar[str] = "captioning"
    recipe: ClassVar[type[Recipe]] = CaptioningRecipe
    pipeline: ClassVar[type[Pipeline]] = ImageCaptioner
    validator: ClassVar[type[Validator[Any, Any, Any]]] = CaptioningValidator
    architecture: ClassVar[str] = "captioner"
    check_data: ClassVar[str] = "check that each caption describes its image"

    def recognizes(self, data: Mapping[str, Any]) -> bool:
        """Return whether `[data]` names captions."""
        return bool(data.get("captions"))

    def read(
        self,
        recipe: CaptioningRecipe,
        base: Bundle | None,
        resumed: Path | None,
        say: Say = lambda line: None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> CaptionCorpus:
        """Read images and captions: see `read_corpus`."""
        assert base is None or isinstance(base, ImageTextBundle)
        return read_corpus(recipe, base, resumed, say, should_stop)
