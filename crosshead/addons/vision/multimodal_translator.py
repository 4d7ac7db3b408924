"""Translation of sentences beside images with a bundle."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import numpy as np
import torch

from crosshead.addons.vision.bundles import (
    ImageTextBundle,
    ImageTextBundleConfig,
    ImageTextPipeline,
)
from crosshead.addons.vision.data.images import ImageLike, as_floats
from crosshead.addons.vision.models.multimodal import ImagesAndTokens, MultimodalTransformer
from crosshead.bundle.card import Words
from crosshead.decoding.settings import DecodeConfig
from crosshead.errors import DataError
from crosshead.models.base import AttentionKind
from crosshead.tasks.batched_search import TokenInputs, search_all
from crosshead.tasks.pipeline import AttentionInputs
from crosshead.tasks.translation.engine import OWN
from crosshead.tasks.translation.line_pipeline import LinePipeline
from crosshead.tasks.translation.line_translator import Translation
from crosshead.tasks.translation.text_translator import checked_lines
from crosshead.text.tokenizers import token_ids

Beside = tuple[ImageLike, str]
"""An image and the sentence beside it."""


@dataclass(frozen=True)
class ImageTokenInputs(TokenInputs):
    """Sentences and their images to search from."""

    pixels: np.ndarray
    """Pixels of all images, `uint8`, "N H W C"."""
    images: Sequence[int]
    """The row of each sentence's image in `pixels`."""

    def collate(self, rows: list[int], device: torch.device) -> ImagesAndTokens:  # type: ignore[override]
        """Return sentences and images as a batch."""
        images = as_floats(self.pixels[[self.images[row] for row in rows]])
        return ImagesAndTokens(images.to(device), super().collate(rows, device))


class MultimodalTranslator(ImageTextPipeline, LinePipeline):
    """Translates sentences beside images with a bundle's model.

    A call takes a pair of an image and a sentence, or a list of pairs, and returns the best
    translation of each. `translate` takes other settings and returns more about each translation.
    An image is the name of a file, or pixels "H W C".
    """

    does, verb = "translates sentences beside images", "translate"
    usage = "Translate with: {command} {bundle} FILE --images FOLDER"

    bundle: ImageTextBundle

    @overload
    def __call__(self, pairs: Beside) -> str: ...

    @overload
    def __call__(self, pairs: Sequence[Beside]) -> list[str]: ...

    def __call__(self, pairs: Beside | Sequence[Beside]) -> str | list[str]:
        """Return the best translation of a sentence beside an image, or of each in a list.

        Args:
            pairs: A tuple of an image and a sentence, or a list of such tuples.

        Raises:
            DataError: If a file is no whole image, or an item is no such tuple.
        """
        if isinstance(pairs, tuple):
            return self([pairs])[0]
        return [found[0].text for found in self.translate(pairs)]

    def translate(
        self,
        pairs: Sequence[Beside],
        *,
        decode: DecodeConfig | None = None,
        n_best: int = 1,
        first: int = 0,
        progress: Callable[[float], None] = lambda share: None,
    ) -> list[list[Translation]]:
        """Translate sentences beside images.

        Sentences are treated as `Translator.translate` treats lines. The parts of a sentence that
        is too long are all translated beside its image.

        Args:
            pairs: The image and the sentence of each pair.
            decode: The settings of the search, by default the bundle's.
            n_best: The number of translations per pair.
            first: The number of the first pair, for samples.
            progress: A callback that gets the finished share, from 0 to 1.

        Returns:
            The translations of each pair, best first.

        Raises:
            DataError: If a file is no whole image, or an item is no pair.
        """
        given: Sequence[Any] = pairs  # callers without a type checker
        for number, pair in enumerate(given, 1):
            if not (isinstance(pair, tuple | list) and len(pair) == 2 and isinstance(pair[1], str)):
                raise DataError(
                    f"pair {number}: expected an image and a sentence, found "
                    f"{type(pair).__name__}; give tuples such as ('image.png', 'a sentence')"
                )
        if not pairs:
            return []
        pixels = np.stack([self.pixels(image) for image, _ in pairs])
        lines = [line for _, line in pairs]
        return self.search(pixels, range(len(lines)), lines, decode, n_best, first, progress)

    def search(
        self,
        pixels: np.ndarray,
        images: Sequence[int],
        lines: Sequence[str],
        decode: DecodeConfig | None = None,
        n_best: int = 1,
        first: int = 0,
        progress: Callable[[float], None] = lambda share: None,
    ) -> list[list[Translation]]:
        """Translate sentences beside images that have the model's size.

        Args:
            pixels: Pixels of the images, `uint8`, "N H W C".
            images: The row in `pixels` of each sentence's image.
            lines: The sentences.
            decode: The settings of the search, by default the bundle's.
            n_best: The number of translations per sentence.
            first: The number of the first sentence, for samples.
            progress: A callback that gets the finished share, from 0 to 1.

        Returns:
            The translations of each sentence, best first.
        """
        decode = decode or self.bundle.config.decode
        lines = checked_lines(lines)
        planned = self.planned(lines, first)
        hypotheses = search_all(
            self.model,
            ImageTokenInputs(planned.ids, pixels, [images[row] for row in planned.rows]),
            self.bundle.specials,
            decode,
            n_best,
            numbers=planned.numbers,
            most=self.bundle.config.model.most_positions,
            progress=progress,
        )
        return self.joined(lines, planned, hypotheses, n_best, decode, OWN)

    def gates(self, image: ImageLike, sentence: str) -> list[tuple[str, float]]:
        """Return the pieces of a sentence, each with its mean gate (0: text alone, 1: image).

        Args:
            image: The file of an image, an image of Pillow, or pixels "H W C" or "H W".
            sentence: The sentence.

        Returns:
            Each piece, the end included, with the mean of its gates from 0 to 1.

        Raises:
            DataError: If the file is no whole image.
        """
        model = self.bundle.model
        assert isinstance(model, MultimodalTransformer)
        read = self.given(self.pixels(image), sentence, kind="encoder")
        images, source, _ = read.inputs
        with torch.inference_mode():
            [found] = model.gates(images, source).tolist()
        return list(zip(read.keys, found, strict=True))

    def attention_inputs(
        self, text: str, target: str | None, kind: AttentionKind
    ) -> AttentionInputs:
        """Return an image, a sentence and its translation for teacher forcing.

        Args:
            text: The file of the image, a tab, and the sentence.
            target: The translation, by default the model's own.
            kind: The kind of attention to look at.
        """
        name, tab, sentence = text.partition("\t")
        if not tab or not sentence.strip():
            raise DataError(
                f"expected the file of an image, a tab and a sentence, found {text[:60]!r}; give "
                "both as one text"
            )
        return self.given(self.pixels(Path(name)), sentence, target, kind)

    def given(
        self,
        pixels: np.ndarray,
        sentence: str,
        target: str | None = None,
        kind: AttentionKind = "cross",
    ) -> AttentionInputs:
        """Return the inputs with which the model reads an image and both sentences at once.

        Args:
            pixels: The image in the model's size, "H W C".
            sentence: The sentence.
            target: The translation, by default the model's own.
            kind: The kind of attention to look at. Patches are named by row and column, from 1.

        Raises:
            ConfigError: If a translation is given for the encoder, which does not see it.
            DataError: If the sentence is longer than the model reads at once.
        """
        [ids] = token_ids(self.bundle.source_tokenizer, [sentence])
        if len(ids) > self.max_source_length:
            raise DataError(
                f"the sentence has {len(ids):,} tokens, and the model reads at most "
                f"{self.max_source_length:,} at once; give a shorter one"
            )
        if target is None and kind not in ("encoder", "image"):
            target = self.search(pixels[None], [0], [sentence])[0][0].text
        return self.teacher_forced(pixels, ids, target, kind)

    @classmethod
    def words(cls, config: ImageTextBundleConfig) -> Words:
        """Return the words of a model card."""
        return Words(
            does="translates sentences beside images",
            hub_task="image-text-to-text",
            command="crosshead translate DIR input.txt --images FOLDER",
            variable="translate",
            call='translate([("image.png", "A sentence.")])',
            scored="Search",
        )
