"""Captions of images with a bundle."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
import torch
from torch import Tensor

from crosshead.addons.vision.bundles import (
    ImageTextBundle,
    ImageTextBundleConfig,
    ImageTextPipeline,
)
from crosshead.addons.vision.data.images import ImageLike, as_floats
from crosshead.bundle.card import Words
from crosshead.decoding.hypotheses import Hypothesis
from crosshead.decoding.settings import DecodeConfig, search_name
from crosshead.errors import DataError
from crosshead.models.base import AttentionKind, SequenceModel, decodable
from crosshead.tasks.batched_search import search_all
from crosshead.tasks.pipeline import AttentionInputs
from crosshead.vocabulary import EOS


@dataclass(frozen=True)
class ImageCaption:
    """One caption of an image.

    Attributes:
        text: The caption.
        log_prob: The natural log-probability of the caption and its end.
        score: `log_prob` divided by the length penalty. Hypotheses are ranked by it.
        pieces: The tokens that the model produced, including the end.
    """

    text: str
    log_prob: float
    score: float
    pieces: list[str]


@dataclass(frozen=True)
class ImageInputs:
    """Images to search captions for."""

    pixels: np.ndarray
    """Pixels, `uint8`, "N H W C"."""
    patches: int
    """The number of patches of an image."""

    @property
    def lengths(self) -> np.ndarray:
        """The number of patches of each image, and 1."""
        return np.tile([self.patches, 1], (len(self.pixels), 1))

    def collate(self, rows: list[int], device: torch.device) -> Tensor:
        """Return images as floats, "B C H W"."""
        return as_floats(self.pixels[rows]).to(device)


class ImageCaptioner(ImageTextPipeline):
    """Writes captions of images with a bundle's model.

    A call takes the file of an image, its pixels, or a list of them, and returns the best caption
    of each. `caption` takes other settings and returns more about each caption.
    """

    does, verb = "writes captions of images", "caption"
    usage = "Caption with: {command} {bundle} IMAGE"

    bundle: ImageTextBundle

    @property
    def model(self) -> SequenceModel:
        """The bundle's model."""
        return decodable(self.bundle.model)

    @overload
    def __call__(self, images: ImageLike) -> str: ...  # type: ignore[overload-overlap]

    @overload
    def __call__(self, images: Sequence[ImageLike]) -> list[str]: ...

    def __call__(self, images: "ImageLike | Sequence[ImageLike]") -> str | list[str]:
        """Return the best caption of an image, or of each image in a list.

        Args:
            images: The file of an image, an image of Pillow, pixels "H W C" or "H W", or a list of
                them.

        Raises:
            DataError: If a file is no whole image, or an array has other axes.
        """
        if not isinstance(images, list | tuple):
            [found] = self.caption([images])  # type: ignore[list-item]
            return found[0].text
        return [found[0].text for found in self.caption(images)]

    def caption(
        self,
        images: Sequence[ImageLike],
        *,
        decode: DecodeConfig | None = None,
        n_best: int = 1,
        progress: Callable[[float], None] = lambda share: None,
    ) -> list[list[ImageCaption]]:
        """Write captions of images.

        Args:
            images: Files of images, images of Pillow, or pixels "H W C" or "H W".
            decode: The settings of the search, by default the bundle's.
            n_best: The number of captions per image.
            progress: A callback that gets the finished share, from 0 to 1.

        Returns:
            The captions of each image, best first.

        Raises:
            DataError: If a file is no whole image, or an array has other axes.
            ConfigError: If `n_best` is larger than the beam.
        """
        pixels = [self.pixels(image) for image in images]
        return self.search(np.stack(pixels), decode, n_best, progress) if pixels else []

    def search(
        self,
        pixels: np.ndarray,
        decode: DecodeConfig | None = None,
        n_best: int = 1,
        progress: Callable[[float], None] = lambda share: None,
    ) -> list[list[ImageCaption]]:
        """Write captions of images that have the model's size.

        Args:
            pixels: Pixels "N H W C", `uint8`.
            decode: The settings of the search, by default the bundle's.
            n_best: The number of captions per image.
            progress: A callback that gets the finished share, from 0 to 1.

        Returns:
            The captions of each image, best first.
        """
        found = search_all(
            self.model,
            ImageInputs(pixels, self.rows**2),
            self.bundle.specials,
            decode or self.bundle.config.decode,
            n_best,
            most=self.bundle.config.most_tokens,
            progress=progress,
        )
        return [[self._caption(each) for each in hypotheses] for hypotheses in found]

    def attention_inputs(
        self, text: ImageLike, target: str | None = None, kind: AttentionKind = "cross"
    ) -> AttentionInputs:
        """Return the inputs with which the model reads an image and its caption at once.

        Args:
            text: The image: its file, an image of Pillow, or pixels "H W C" or "H W".
            target: The caption, by default the model's own.
            kind: The kind of attention to look at.

        Raises:
            ConfigError: If a caption is given for the encoder, which does not see it.
            DataError: If the image cannot be read, or the caption has no words.
        """
        pixels = self.pixels(text)
        if target is None and kind != "encoder":
            target = self.search(pixels[None])[0][0].text
        if target is not None and not target.split():
            raise DataError("the caption has no words: give a caption")
        return self.teacher_forced(pixels, None, target, kind)

    @classmethod
    def words(cls, config: ImageTextBundleConfig) -> Words:
        """Return the words of a model card."""
        return Words(
            does="writes captions of images",
            hub_task="image-to-text",
            command="crosshead caption DIR image.png",
            variable="caption",
            call='caption("image.png")',
            scored="Search",
        )

    def facts(self) -> list[list[str]]:
        """Return the tokenizer, the images and the search settings."""
        config = self.bundle.config
        return [
            *super().facts(),
            ["captions", f"at most {config.most_tokens} tokens"],
            ["search", search_name(config.decode)],
        ]

    def _caption(self, found: Hypothesis) -> ImageCaption:
        tokenizer = self.bundle.target_tokenizer
        ids = [*found.tokens, EOS] if found.finished else found.tokens
        text = tokenizer.decode(found.tokens)
        return ImageCaption(text, found.log_prob, found.score, tokenizer.pieces(ids))
