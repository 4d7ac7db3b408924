"""Bundles of models that read images and write text."""

from dataclasses import dataclass
from typing import ClassVar

from pydantic import Field

from crosshead.addons.vision.models.image_encoder import ImageShape
from crosshead.bundle.base import Bundle
from crosshead.bundle.config import BundleConfig
from crosshead.bundle.text_bundle import TextBundle, TextBundleConfig
from crosshead.config import MOST_PATCH, MOST_TOKENS
from crosshead.decoding.search import Specials
from crosshead.models.base import Model, TokenModel, TokenModelConfig
from crosshead.models.registry import MODELS
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
        assert isinstance(other, ImageTextBundle)
        if self.config.image_size == other.config.image_size:
            return super().why_not_averaged(other)
        return (
            f"its images have {other.config.image_size} pixels, and the images of {{first}} have "
            f"{self.config.image_size}; only bundles for images of one size can be averaged"
        )


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
