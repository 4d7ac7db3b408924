"""Classes of images with a trained classifier, and the bundle of one."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from crosshead.addons.vision.bundles import ImageBundle, ImageBundleConfig, ImagePipeline
from crosshead.addons.vision.data.images import ImageLike, as_floats
from crosshead.addons.vision.models.classifier import Classifier
from crosshead.addons.vision.models.vision_transformer import VisionTransformerConfig
from crosshead.bundle.card import Words
from crosshead.errors import ConfigError
from crosshead.models.base import AttentionKind
from crosshead.tasks.pipeline import AttentionInputs, patch_names

BATCH = 64
"""The number of images that a model reads at a time."""


class ImageClassifier(ImagePipeline):
    """Classifies images. A call returns the most probable classes, the best first."""

    does, verb = "classifies images", "classify"
    usage = "Classify with: {command} {bundle} IMAGE..."

    bundle: ImageBundle

    @property
    def model(self) -> Classifier:
        """The bundle's model."""
        return self.bundle.model

    @property
    def classes(self) -> list[str]:
        """The names of the classes."""
        return self.bundle.config.classes

    def __call__(self, images: "ImageLike | Sequence[ImageLike]", top: int = 5) -> Any:
        """Return the most probable classes of an image, or of each of several images.

        Args:
            images: An image: a file, an image of Pillow, or an array of pixels, "H W C", `uint8`.
                Or a list of images.
            top: The largest number of classes.

        Returns:
            Pairs of class and probability, the best first; a list of them for a list of images.

        Raises:
            ConfigError: If `top` is below 1.
            DataError: If an image cannot be read, or is none.
        """
        if top < 1:
            raise ConfigError(f"top: expected 1 or more, found {top}")
        single = not isinstance(images, list | tuple)
        given: list[Any] = [images] if single else list(images)  # type: ignore[arg-type]
        pixels = [self.pixels(each) for each in given]
        found = [self._best(row, top) for row in self.probabilities(np.array(pixels))]
        return found[0] if single else found

    def probabilities(
        self, pixels: np.ndarray, progress: Callable[[float], None] = lambda share: None
    ) -> Iterator[np.ndarray]:
        """Yield the probabilities of all classes, "K", for each image.

        Args:
            pixels: Images in the size that the model reads, "N H W C", as `pixels` returns them.
            progress: Called with the share that is done, from 0 to 1, before each batch.
        """
        for first in range(0, len(pixels), BATCH):
            progress(first / len(pixels))
            inputs = as_floats(pixels[first : first + BATCH]).to(self.device)
            with torch.inference_mode():
                yield from self.model(inputs).float().softmax(dim=-1).cpu().numpy()

    def attention_inputs(
        self, text: ImageLike, target: str | None = None, kind: AttentionKind = "encoder"
    ) -> AttentionInputs:
        """Return the inputs for an image; queries and keys are its patches.

        A class token comes first, if the model has one.
        """
        if target is not None:
            raise ConfigError(f"this model {self.does}: it takes no target; leave it out")
        pixels = self.pixels(text)
        config = self.model.config
        assert isinstance(config, VisionTransformerConfig)  # a convnet has no attention
        names = ["class"] * (config.pool == "class") + patch_names(self.rows)
        inputs = as_floats(pixels[None]).to(self.device)
        return AttentionInputs((inputs,), names, names)

    def facts(self) -> list[list[str]]:
        """Return the classes and the size of the images."""
        names, size = self.classes, self.bundle.config.image_size
        more = f" and {len(names) - 12:,} more" if len(names) > 12 else ""
        return [
            ["classes", f"{len(names):,}: {', '.join(names[:12])}{more}"],
            ["images", f"{size} x {size} pixels"],
        ]

    @classmethod
    def words(cls, config: ImageBundleConfig) -> Words:
        """Return the words of a model card."""
        return Words(
            does="classifies images",
            hub_task="image-classification",
            command="crosshead classify DIR image.jpg",
            variable="classify",
            call='classify("image.jpg")',
            scored="Classes of",
        )

    def _best(self, probabilities: np.ndarray, top: int) -> list[tuple[str, float]]:
        """Return the most probable classes with their probabilities."""
        order = np.argsort(-probabilities, kind="stable")[:top]
        return [(self.classes[number], float(probabilities[number])) for number in order]
