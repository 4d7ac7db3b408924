"""Captioning: models that describe images in words."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from pydantic import SerializeAsAny, model_validator

from crosshead.addons.vision.caption_pipeline import ImageCaptioner
from crosshead.addons.vision.data.caption_files import CAPTIONS, CaptionFormat
from crosshead.addons.vision.data.caption_sets import CaptionSet
from crosshead.addons.vision.data.captions import CaptionData, CaptionRows
from crosshead.addons.vision.image_text import ImageTextTask, ImageTextValidator
from crosshead.addons.vision.image_text_corpus import ImageTextCorpus, ImageTextRecipe
from crosshead.decoding.search import DecodeConfig
from crosshead.recipe.recipe import Recipe
from crosshead.tasks.pipeline import Pipeline
from crosshead.tasks.usability import Nouns
from crosshead.tasks.validation import Validator
from crosshead.text.learning import learn_tokenizer
from crosshead.text.parallel.examples import Example
from crosshead.text.tokenizers import Tokenizer, TokenizerConfig, token_ids


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


class CaptioningValidator(ImageTextValidator):
    """Validates by the loss of the references, and by BLEU and exact match of greedy captions."""

    labels = "image", "output", "nearest reference"
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
    files: ClassVar[CaptionFormat] = CAPTIONS
    flag: ClassVar[str] = "captions"
    corpus: ClassVar[type[ImageTextCorpus]] = CaptionCorpus
    rows: ClassVar[type[CaptionRows]] = CaptionRows
    check_data: ClassVar[str] = "check that each caption describes its image"

    def recognizes(self, data: Mapping[str, Any]) -> bool:
        """Return whether `[data]` names captions."""
        return bool(data.get("captions"))

    def learned(
        self, config: TokenizerConfig, train: CaptionSet
    ) -> tuple[TokenizerConfig, Tokenizer, Tokenizer]:
        """Learn from the captions."""
        config, tokenizer = learn_tokenizer(config, train.texts)
        return config, tokenizer, tokenizer

    def examples(self, found: CaptionSet, tokenizers: tuple[Tokenizer, Tokenizer]) -> list[Example]:
        """Return the ids of each caption, as the target of an empty source."""
        return [((), ids) for ids in token_ids(tokenizers[1], found.texts)]
