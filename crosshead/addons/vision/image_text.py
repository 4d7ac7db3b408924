"""The tasks on images with text: captioning, and translation of sentences beside images."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor

from crosshead.addons.vision.bundles import (
    ImageTextBundle,
    ImageTextPipeline,
    build_image_text_model,
)
from crosshead.addons.vision.caption_pipeline import ImageCaptioner
from crosshead.addons.vision.data.caption_sets import PAIRS, CaptionRows, CaptionSet
from crosshead.addons.vision.image_text_corpus import (
    CaptionCorpus,
    CaptioningRecipe,
    ImagePairCorpus,
    ImageTextCorpus,
    ImageTextRecipe,
    MultimodalRecipe,
    card_files,
    read_sets,
)
from crosshead.addons.vision.models.image_encoder import ImageShape
from crosshead.addons.vision.multimodal_translator import MultimodalTranslator
from crosshead.addons.vision.scores import caption_scores, multi_bleu, nearest_references
from crosshead.bundle.base import Bundle
from crosshead.decoding.settings import DecodeConfig, search_name
from crosshead.errors import DataError
from crosshead.models.base import Model
from crosshead.recipe.presets import Sections
from crosshead.recipe.recipe import Recipe
from crosshead.tasks.base import Say
from crosshead.tasks.pipeline import Pipeline
from crosshead.tasks.token_task import TokenTask
from crosshead.tasks.usability import (
    LOW_BLEU,
    TRANSLATIONS,
    Findings,
    Nouns,
    translation_findings,
)
from crosshead.tasks.validation import LOSS, Metric, Validation, Validator
from crosshead.text.batching import plan_in_order
from crosshead.text.learning import learn_tokenizer, learn_tokenizers
from crosshead.text.parallel.examples import Example
from crosshead.text.parallel.pairs import ParallelText
from crosshead.text.tokenizers import (
    MOST_PIECES,
    Tokenizer,
    TokenizerConfig,
    load_tokenizers,
    token_ids,
)

BLEU = Metric("bleu", "BLEU", higher_is_better=True, search="greedy", chance=LOW_BLEU)
EXACT = Metric("exact", "exact match, %", higher_is_better=True, search="greedy")

_EXAMPLE_SIZE = 64
"""The size of the images of the models in the table of presets."""


def _over_patches(**layers: int) -> Sections:
    return {
        "tokenizer": {"kind": "words", "vocab_size": 8000},
        "model": {
            **layers, "d_model": 64, "d_ff": 128, "heads": 4, "dropout": 0.0, "norm": "pre",
            "patch_positions": "sinusoidal",
        },
        "train": {
            "schedule": "cosine", "learning_rate": 0.002, "max_updates": 4000, "batch_tokens": 3072,
            "label_smoothing": 0.0, "average": 0, "patience": 0,
        },
    }  # fmt: skip


PRESETS: dict[str, dict[str, Sections]] = {
    "captioner": {"tiny": _over_patches(encoder_layers=1, decoder_layers=3)},
    "multimodal": {"tiny": _over_patches(encoder_layers=2, decoder_layers=2)},
}
"""The presets by the name of the architecture."""


class ImageTextValidator(Validator[ImageTextRecipe, ImageTextCorpus, ImageTextBundle]):
    """Validates by the loss of the references, and by BLEU and exact match of greedy texts."""

    labels: ClassVar[tuple[str, str, str]]
    """The names of the parts of a sample."""
    nouns: ClassVar[Nouns] = TRANSLATIONS
    """The nouns for inputs and outputs in messages."""

    pipeline: ClassVar[type[ImageTextPipeline]]

    def outputs(self, decode: DecodeConfig) -> list[str]:
        """Return the best output for each input."""
        pipeline, check = self.pipeline(self.bundle), lambda share: self.stop_if_asked()
        return pipeline.texts(self.corpus.valid, decode=decode, progress=check)

    def search_description(self) -> str:
        """Return a short description of the search for texts."""
        return search_name(self.recipe.decode)

    def validate(self, weights: dict[str, Tensor]) -> Validation:
        """Return the loss of the references, and BLEU and exact match of greedy texts."""
        self.bundle_of(weights)
        rows = self.corpus.valid_rows
        lengths = rows.lengths
        most = max(self.recipe.train.batch_tokens, int(lengths.max()))
        plan = plan_in_order(lengths, most)
        means = self.means(rows.collate(each.tolist()) for each in plan)
        found, references = self.outputs(DecodeConfig(beam=1)), self.corpus.valid.references()
        exact = sum(text in wanted for text, wanted in zip(found, references, strict=True))
        scores = {"bleu": multi_bleu(found, references), "exact": 100 * exact / len(found)}
        return Validation({**means, **scores})

    def findings(self, weights: dict[str, Tensor]) -> Findings:
        """Return the scores on the validation set by the search of the recipe, and samples."""
        self.bundle_of(weights)
        valid, found = self.corpus.valid, self.outputs(self.recipe.decode)
        references = valid.references()
        scores = caption_scores(found, references)
        nearest = nearest_references(found, references)
        texts = valid.inputs, found, nearest
        findings = translation_findings(scores, *texts, self.labels, self.nouns)
        sound = not findings.faults
        return dataclasses.replace(findings, remarks=[], is_usable=sound)

    @property
    def validations_to_score(self) -> float:
        """The estimated duration of the end of the run, in validations."""
        return float(self.recipe.decode.beam)


class CaptioningValidator(ImageTextValidator):
    """Validates by the loss of the references, and by BLEU and exact match of greedy captions."""

    labels = "image", "output", "nearest reference"
    nouns = Nouns("image", "caption")
    pipeline = ImageCaptioner


class MultimodalValidator(ImageTextValidator):
    """Validates by the loss of the references, and by BLEU and exact match of translations."""

    labels = "source", "output", "reference"
    pipeline = MultimodalTranslator


class ImageTextTask(TokenTask):
    """The base of tasks on images with text."""

    corpus: ClassVar[type[ImageTextCorpus]]
    bundle: ClassVar[type[Bundle]] = ImageTextBundle
    metrics: ClassVar[tuple[Metric, ...]] = (LOSS, BLEU, EXACT)
    chooses: ClassVar[str] = "bleu"
    validation_bound: ClassVar[str] = "decode.batch_tokens"

    def read(
        self,
        recipe: ImageTextRecipe,
        base: Bundle | None,
        resumed: Path | None,
        say: Say = lambda line: None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> ImageTextCorpus:
        """Read the texts of a recipe, decode their images, and learn the tokenizers."""
        assert base is None or isinstance(base, ImageTextBundle)
        data, config = recipe.data, recipe.tokenizer
        train, valid, patches = read_sets(recipe, base, self.corpus.files_of, say, should_stop)
        if resumed is not None:
            tokenizers = load_tokenizers(resumed, joint=config.joint)
        elif base is not None:
            tokenizers = base.source_tokenizer, base.target_tokenizer
        else:
            config, *learned = _learned(config, train)
            tokenizers = learned[0], learned[1]

        def epoch(found: CaptionSet, chosen: Sequence[int], ids: Sequence[Example]) -> CaptionRows:
            images = [found.captions[row].image for row in chosen]
            examples = [ids[row] for row in chosen]
            kind, start = self.corpus.files_of, recipe.model.start_token
            return CaptionRows(found.pixels, images, examples, patches, kind, start)

        ids = _examples(train, tokenizers)
        rows = [row for row, example in enumerate(ids) if max(map(len, example)) <= data.max_length]
        if not rows:
            raise DataError(
                f"{data.text_files[0]}: every {self.corpus.unit} has more than data.max_length "
                f"{data.max_length} tokens; raise it"
            )
        return self.corpus(
            card_files(data),
            config,
            *tokenizers,
            train,
            valid,
            epoch(train, rows, ids),
            epoch(valid, range(len(valid.captions)), _examples(valid, tokenizers)),
            rows,
            held_out=not data.valid_files,
        )

    def example(self, model: Any, preset: Sections) -> tuple[str, Callable[[], Model]]:
        """Return the model of a preset with its vocabulary, or with the largest one."""
        stated = preset.get("tokenizer", {}).get("vocab_size")
        size = stated or MOST_PIECES
        build = partial(build_image_text_model, model, ImageShape(_EXAMPLE_SIZE), size, size)
        return f"{'' if stated else 'to '}{size:,}", build

    def sections(self, bundle: Bundle) -> dict[str, dict[str, Any]]:
        """Return the model, the tokenizer and the image size of a bundle."""
        assert isinstance(bundle, ImageTextBundle)
        return {**super().sections(bundle), "data": {"image_size": bundle.config.image_size}}


class CaptioningTask(ImageTextTask):
    """Captioning of images."""

    name: ClassVar[str] = "captioning"
    recipe: ClassVar[type[Recipe]] = CaptioningRecipe
    pipeline: ClassVar[type[Pipeline]] = ImageCaptioner
    validator: ClassVar[type[Validator[Any, Any, Any]]] = CaptioningValidator
    architecture: ClassVar[str] = "captioner"
    corpus: ClassVar[type[ImageTextCorpus]] = CaptionCorpus
    check_data: ClassVar[str] = "check that each caption describes its image"

    def recognizes(self, data: Mapping[str, Any]) -> bool:
        """Return whether `[data]` names captions."""
        return bool(data.get("captions"))


class MultimodalTask(ImageTextTask):
    """Translation of sentences beside images."""

    name: ClassVar[str] = "multimodal"
    recipe: ClassVar[type[Recipe]] = MultimodalRecipe
    pipeline: ClassVar[type[Pipeline]] = MultimodalTranslator
    validator: ClassVar[type[Validator[Any, Any, Any]]] = MultimodalValidator
    architecture: ClassVar[str] = "multimodal"
    corpus: ClassVar[type[ImageTextCorpus]] = ImagePairCorpus
    check_data: ClassVar[str] = (
        "check that each target translates its source, and that the images belong to them"
    )

    def recognizes(self, data: Mapping[str, Any]) -> bool:
        """Return whether `[data]` names both images and pairs."""
        return bool(data.get("images")) and bool(data.get("pairs"))


def _learned(
    config: TokenizerConfig, train: CaptionSet
) -> tuple[TokenizerConfig, Tokenizer, Tokenizer]:
    """Learn the tokenizers of source and target; captions have one tokenizer."""
    if train.kind == PAIRS:
        return learn_tokenizers(config, ParallelText(train.sources, train.texts, ()))
    config, tokenizer = learn_tokenizer(config, train.texts)
    return config, tokenizer, tokenizer


def _examples(found: CaptionSet, tokenizers: tuple[Tokenizer, Tokenizer]) -> list[Example]:
    """Return the ids of each source and target; the source of a caption is empty."""
    sides = zip(tokenizers, (found.sources, found.texts), strict=True)
    return list(zip(*(token_ids(*each) for each in sides), strict=True))
