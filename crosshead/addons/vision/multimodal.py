"""Multimodal translation: models that translate sentences beside images."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

from pydantic import SerializeAsAny, model_validator

from crosshead.addons.vision.data.caption_files import CaptionFormat
from crosshead.addons.vision.data.caption_sets import CaptionSet
from crosshead.addons.vision.data.captions import CaptionRows
from crosshead.addons.vision.data.image_pairs import PAIRS, ImagePairData, ImagePairRows
from crosshead.addons.vision.image_text import ImageTextTask, ImageTextValidator
from crosshead.addons.vision.image_text_corpus import ImageTextCorpus, ImageTextRecipe
from crosshead.addons.vision.multimodal_translator import MultimodalTranslator
from crosshead.decoding.search import DecodeConfig
from crosshead.recipe.recipe import Recipe
from crosshead.tasks.pipeline import Pipeline
from crosshead.tasks.validation import Validator
from crosshead.text.learning import learn_tokenizers
from crosshead.text.parallel.examples import Example
from crosshead.text.parallel.pairs import ParallelText
from crosshead.text.profile import TextProfile
from crosshead.text.tokenizers import Tokenizer, TokenizerConfig, token_ids


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
class ImagePairCorpus(ImageTextCorpus):
    """Images and tokenized pairs: captions that have a source."""

    unit, unit_name = "pair", "pairs beside images"

    @property
    def longest_input(self) -> int:
        """The number of tokens of the longest source in training."""
        return max(len(source) for source, _ in self.train_rows.examples)

    @cached_property
    def profile(self) -> TextProfile | None:
        """Statistics of the training pairs, or None if there are too few."""
        examples = self.train_rows.examples
        return TextProfile.of(examples, self.source_tokenizer, self.target_tokenizer)

    def texts(self, rows: CaptionRows) -> list[Any]:
        """Return the ids of both sides for the checksum."""
        return list(rows.examples)

    def records(self, epoch: CaptionRows, rows: Sequence[int]) -> tuple[str, str]:
        """Return pairs as JSON Lines, and the options to train on them."""
        found = [self.train.captions[self.rows[row]] for row in rows]
        lines = [
            json.dumps(
                {"image": self.train.names[each.image], "source": each.source, "target": each.text}
            )
            for each in found
        ]
        return "\n".join(lines) + "\n", "--pairs, with the same --images"


class MultimodalValidator(ImageTextValidator):
    """Validates by the loss of the references, and by BLEU and exact match of translations."""

    labels = "source", "output", "reference"

    def inputs(self) -> list[str]:
        """Return the source of each pair."""
        return self.corpus.valid.sources

    def references(self) -> list[list[str]]:
        """Return the target of each pair."""
        return [[text] for text in self.corpus.valid.texts]

    def outputs(self, decode: DecodeConfig) -> list[str]:
        """Return the best translation of each source."""
        valid = self.corpus.valid
        found = MultimodalTranslator(self.bundle).search(
            valid.pixels,
            [each.image for each in valid.captions],
            valid.sources,
            decode,
            progress=lambda share: self.stop_if_asked(),
        )
        return [best[0].text for best in found]


class MultimodalTask(ImageTextTask):
    """Translation of sentences beside images."""

    name: ClassVar[str] = "multimodal"
    recipe: ClassVar[type[Recipe]] = MultimodalRecipe
    pipeline: ClassVar[type[Pipeline]] = MultimodalTranslator
    validator: ClassVar[type[Validator[Any, Any, Any]]] = MultimodalValidator
    architecture: ClassVar[str] = "multimodal"
    files: ClassVar[CaptionFormat] = PAIRS
    flag: ClassVar[str] = "pairs"
    corpus: ClassVar[type[ImageTextCorpus]] = ImagePairCorpus
    rows: ClassVar[type[CaptionRows]] = ImagePairRows
    check_data: ClassVar[str] = (
        "check that each target translates its source, and that the images belong to them"
    )

    def recognizes(self, data: Mapping[str, Any]) -> bool:
        """Return whether `[data]` names both images and pairs."""
        return bool(data.get("images")) and bool(data.get("pairs"))

    def learned(
        self, config: TokenizerConfig, train: CaptionSet
    ) -> tuple[TokenizerConfig, Tokenizer, Tokenizer]:
        """Learn from both sides of the pairs."""
        return learn_tokenizers(config, ParallelText(train.sources, train.texts, ()))

    def examples(self, found: CaptionSet, tokenizers: tuple[Tokenizer, Tokenizer]) -> list[Example]:
        """Return the ids of both sides of each pair."""
        sides = zip(tokenizers, (found.sources, found.texts), strict=True)
        return list(zip(*(token_ids(*each) for each in sides), strict=True))
