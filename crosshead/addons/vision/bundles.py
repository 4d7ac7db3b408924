"""Bundles of models that read images, and the bases of their pipelines."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import numpy as np
from pydantic import Field, model_validator

from crosshead.addons.vision.data.caption_sets import PAIRS, CaptionSet
from crosshead.addons.vision.data.images import ImageLike, as_floats, pixels_of
from crosshead.addons.vision.models.classifier import Classifier, ClassifierConfig, build_classifier
from crosshead.addons.vision.models.image_encoder import ImageShape, ImageStackConfig
from crosshead.bundle.base import Bundle, BundleConfig
from crosshead.bundle.text_bundle import TextBundle, TextBundleConfig
from crosshead.config import MOST_PATCH, MOST_TOKENS, MOST_WIDTH
from crosshead.decoding.hypotheses import Specials
from crosshead.errors import ConfigError, DataError
from crosshead.models.base import AttentionKind, Model, TokenModel, TokenModelConfig
from crosshead.models.registry import MODELS
from crosshead.tasks.pipeline import AttentionInputs, Pipeline, TextPipeline, patch_names
from crosshead.text.batching import collate
from crosshead.text.tokenizers import token_ids
from crosshead.vocabulary import EOS

LONGER = 1.5
"""An output has at most this many times the tokens of the longest target of training."""


class ImageTextBundleConfig(TextBundleConfig):
    """The settings in the `config.json` of a model that reads images and writes text."""

    # Height and width of the images, in pixels.
    image_size: int = Field(ge=1, le=MOST_PATCH)
    # Tokens of the longest target in training, without the end token.
    longest_target: int = Field(ge=1, le=MOST_TOKENS)

    @property
    def most_tokens(self) -> int:
        """The largest number of tokens in an output, the end counted."""
        most = int(LONGER * self.longest_target) + 1
        return min(most, self.model.most_positions or most)


@dataclass(frozen=True)
class ImageTextBundle(TextBundle):
    """A trained model that reads images and writes text, with its tokenizers.

    A captioner has the same tokenizer for both sides.
    """

    config: ImageTextBundleConfig

    config_type: ClassVar[type[BundleConfig]] = ImageTextBundleConfig

    @property
    def specials(self) -> Specials:
        """The special tokens for search, with the target tokens that are never produced."""
        return Specials(self.config.model.start_token, EOS, self.forbidden)

    @classmethod
    def build(cls, config: BundleConfig) -> Model:
        """Build a model for the image size and the vocabulary sizes in `config`."""
        assert isinstance(config, ImageTextBundleConfig)
        sizes = config.source_vocabulary, config.target_vocabulary
        return build_image_text_model(config.model, ImageShape(config.image_size), *sizes)

    def why_not_averaged(self, other: Bundle) -> str:
        """Return why another bundle of the same model cannot be averaged with this one, or ""."""
        return _unlike(self, other, "image_size") or super().why_not_averaged(other)


def _unlike(one: Bundle, other: Bundle, *keys: str) -> str:
    """Return a clause that names the settings in which two bundles differ, or ""."""
    unlike = [key for key in keys if getattr(one.config, key) != getattr(other.config, key)]
    if not unlike:
        return ""
    words = " and ".join(unlike)
    return f"it and {{first}} differ in {words}; only bundles with the same {words} can be averaged"


def build_image_text_model(
    config: TokenModelConfig, images: ImageShape, source_vocabulary: int, target_vocabulary: int
) -> TokenModel:
    """Build a freshly initialised model that reads images and predicts tokens, in training mode.

    Args:
        config: The configuration.
        images: The sizes of the images.
        source_vocabulary: The number of source tokens, unused by a captioner.
        target_vocabulary: The number of target tokens.

    Returns:
        The model of the configured architecture.

    Raises:
        ValueError: If the patches do not cover the images.
    """
    sizes = (source_vocabulary, target_vocabulary)[-config.vocabularies :]
    model = MODELS[config.architecture](config, images, *sizes)
    assert isinstance(model, TokenModel)
    return model


class ImageBundleConfig(BundleConfig):
    """The settings in the `config.json` of a classifier's bundle."""

    # The names of the classes, in the order of the logits.
    classes: list[str] = Field(min_length=2, max_length=MOST_WIDTH)
    # Height and width in pixels.
    image_size: int = Field(ge=1, le=MOST_PATCH)

    @model_validator(mode="after")
    def _check_classes(self) -> Self:
        if len(set(self.classes)) < len(self.classes):
            raise ValueError("classes: expected different names")
        if isinstance(self.model, ClassifierConfig):
            self.model.tokens(ImageShape(self.image_size))
        return self


@dataclass(frozen=True)
class ImageBundle(Bundle):
    """A trained classifier of images, with the names of its classes."""

    config: ImageBundleConfig
    model: Classifier

    config_type: ClassVar[type[BundleConfig]] = ImageBundleConfig

    @property
    def longest_input(self) -> int:
        """The number of patches of an image."""
        config = self.model.config
        assert isinstance(config, ClassifierConfig)
        return config.tokens(self.model.shape)

    @classmethod
    def build(cls, config: BundleConfig) -> Model:
        """Build a model for the images and the classes in `config`."""
        assert isinstance(config, ImageBundleConfig)
        shape = ImageShape(config.image_size)
        return build_classifier(config.model, shape, len(config.classes))

    def why_not_averaged(self, other: Bundle) -> str:
        """Return why another bundle of the same model cannot be averaged with this one, or ""."""
        return _unlike(self, other, "classes", "image_size")


class ImagePipeline(Pipeline):
    """A pipeline whose bundle has an `image_size`."""

    @property
    def image_size(self) -> int:
        """The height and width of the images that the model reads."""
        return int(cast(Any, self.bundle.config).image_size)

    @property
    def rows(self) -> int:
        """The number of rows of patches, and of columns; the model reads patches."""
        config = cast(Any, self.bundle.model).config
        assert isinstance(config, ImageStackConfig)
        return self.image_size // config.patch_size

    def pixels(self, image: ImageLike) -> np.ndarray:
        """Return an image in the size that the model reads, "H W C", `uint8`."""
        return pixels_of(image, self.image_size)

    def whole_images(self, files: Sequence[Path]) -> tuple[dict[Path, np.ndarray], dict[Path, str]]:
        """Return the pixels of each file, and why the other files cannot be read."""
        read: dict[Path, np.ndarray] = {}
        broken: dict[Path, str] = {}
        for file in files:
            try:
                read[file] = self.pixels(file)
            except DataError as error:
                broken[file] = str(error)
        return read, broken


class ImageTextPipeline(ImagePipeline, TextPipeline):
    """A pipeline that reads an image as patches, and writes text."""

    bundle: ImageTextBundle

    def texts(self, found: CaptionSet, **options: Any) -> list[str]:
        """Return the best text for each input of a set, with these options of `search`."""
        beside = (found.rows, found.sources) if found.kind == PAIRS else ()
        best = cast(Any, self).search(found.pixels, *beside, **options)
        return [each[0].text for each in best]

    def facts(self) -> list[list[str]]:
        """Return the size of the images, and further facts."""
        images = (
            f"{self.image_size} x {self.image_size} pixels, {self.rows} x {self.rows} patches; "
            "other images are scaled, and the middle is cut out"
        )
        return [["images", images], *super().facts()]

    def teacher_forced(
        self,
        pixels: np.ndarray,
        source: Sequence[int] | None,
        target: str | None,
        kind: AttentionKind,
    ) -> AttentionInputs:
        """Return the inputs with which the model reads an image and its texts at once.

        The memory is the source, or the patches without one. Patches are named by row and column.
        """
        if kind in ("encoder", "image") and target is not None:
            raise ConfigError("the encoder does not see the target; leave the target out")
        bundle = self.bundle
        [ids] = token_ids(bundle.target_tokenizer, [target or ""])
        batch = collate([(source or (), ids)], [0], bundle.specials.start).to(self.device)
        images = as_floats(pixels[None]).to(self.device)
        inputs = (images, *batch.inputs[source is None :])
        pieces, patches = bundle.target_tokenizer.pieces, patch_names(self.rows)
        if kind == "decoder":
            read = pieces([bundle.specials.start, *ids])
            return AttentionInputs(inputs, read, read)
        memory = patches
        if source is not None:
            memory = bundle.source_tokenizer.pieces([*source, EOS])
        queries = pieces([*ids, EOS]) if kind == "cross" else memory
        if source is None or kind == "image":
            return AttentionInputs(inputs, queries, patches, pixels)
        return AttentionInputs(inputs, queries, memory)
