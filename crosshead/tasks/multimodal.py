"""Multimodal translation: models that translate sentences beside images."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import SerializeAsAny, model_validator

from crosshead.bundle.base import Bundle
from crosshead.bundle.image_text_bundle import ImageTextBundle
from crosshead.data.caption_sets import CaptionSet
from crosshead.data.captions import CaptionRows
from crosshead.data.image_pairs import PAIRS, ImagePairData, ImagePairRows
from crosshead.data.parallel.pairs import ParallelText
from crosshead.data.text.learning import learn_tokenizers
from crosshead.data.text.profile import TextProfile
from crosshead.data.text.tokenizers import load_tokenizers, token_ids
from crosshead.decoding.search import DecodeConfig
from crosshead.errors import DataError
from crosshead.pipelines.base import Pipeline
from crosshead.pipelines.multimodal_translator import MultimodalTranslator
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
from crosshead.tasks.validation import Validator


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


def read_corpus(
    recipe: MultimodalRecipe,
    base: ImageTextBundle | None,
    resumed: Path | None,
    say: Say = lambda line: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> ImagePairCorpus:
    """Read the pairs of a recipe, decode their images, and learn the tokenizers.

    Args:
        recipe: The settings of the run.
        base: The bundle that training starts from, whose tokenizers and image size are kept.
        resumed: The run directory that is resumed, whose tokenizers are kept.
        say: A callback that gets messages.
        should_stop: Returns whether the run should stop.

    Returns:
        The training and validation data.

    Raises:
        Stopped: Soon after `should_stop` returns true.
        DataError: If the images or the pairs cannot be used.
    """
    data, config = recipe.data, recipe.tokenizer
    train, valid, patches = read_sets(recipe, base, PAIRS, "pairs", say, should_stop)
    if resumed is not None:
        tokenizers = load_tokenizers(resumed, joint=config.joint)
    elif base is not None:
        tokenizers = base.source_tokenizer, base.target_tokenizer
    else:
        config, *learned = learn_tokenizers(config, ParallelText(train.sources, train.texts, ()))
        tokenizers = learned[0], learned[1]

    def examples(of: CaptionSet) -> list[tuple[list[int], list[int]]]:
        source, target = tokenizers
        sides = token_ids(source, of.sources), token_ids(target, of.texts)
        return list(zip(*sides, strict=True))

    def image_rows(
        of: CaptionSet, chosen: Sequence[int], ids: Sequence[tuple[list[int], list[int]]]
    ) -> ImagePairRows:
        images = [of.captions[row].image for row in chosen]
        start = recipe.model.start_token
        return ImagePairRows(of.pixels, images, [ids[row] for row in chosen], patches, start)

    ids = examples(train)
    rows = [row for row, pair in enumerate(ids) if max(map(len, pair)) <= data.max_length]
    if not rows:
        raise DataError(
            f"{data.pairs[0]}: every pair has more than data.max_length {data.max_length} tokens "
            "on one side; raise it"
        )
    return ImagePairCorpus(
        card_files(data),
        config,
        *tokenizers,
        train,
        valid,
        image_rows(train, rows, ids),
        image_rows(valid, range(len(valid.captions)), examples(valid)),
        rows,
        held_out=not data.valid_pairs,
    )


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
    check_data: ClassVar[str] = (
        "check that each target translates its source, and that the images belong to them"
    )

    def recognizes(self, data: Mapping[str, Any]) -> bool:
        """Return whether `[data]` names both images and pairs."""
        return bool(data.get("images")) and bool(data.get("pairs"))

    def read(
        self,
        recipe: MultimodalRecipe,
        base: Bundle | None,
        resumed: Path | None,
        say: Say = lambda line: None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> ImagePairCorpus:
        """Read images and pairs: see `read_corpus`."""
        assert base is None or isinstance(base, ImageTextBundle)
        return read_corpus(recipe, base, resumed, say, should_stop)
