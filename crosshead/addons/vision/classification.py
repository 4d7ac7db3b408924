"""Classification: models that name the class of an image."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from jaxtyping import Float
from pydantic import SerializeAsAny, model_validator
from torch import Tensor
from torch.nn import functional as F

from crosshead.addons.vision.bundles import ImageBundle, ImageBundleConfig
from crosshead.addons.vision.data.image_decoding import kept_size
from crosshead.addons.vision.data.image_epochs import ImageBatch, ImageRows
from crosshead.addons.vision.data.labelled_images import (
    ImageData,
    ImageSets,
    LabelledImages,
    images_sha256,
    read_image_sets,
)
from crosshead.addons.vision.image_classifier import ImageClassifier
from crosshead.addons.vision.models.classifier import Classifier, ClassifierConfig, build_classifier
from crosshead.addons.vision.models.image_encoder import ImageShape
from crosshead.addons.vision.scores import classification_scores
from crosshead.bundle.base import Bundle, BundleConfig
from crosshead.bundle.card import CardFile
from crosshead.bundle.config import BundleScore
from crosshead.errors import DataError
from crosshead.models.base import Model
from crosshead.recipe.presets import Sections
from crosshead.recipe.recipe import Recipe
from crosshead.recipe.train import TrainConfig
from crosshead.system.progress import counted, left_out
from crosshead.tasks.base import Task
from crosshead.tasks.corpus import Corpus, stop_check
from crosshead.tasks.pipeline import Pipeline
from crosshead.tasks.usability import Findings
from crosshead.tasks.validation import LOSS, Loss, Metric, Validation, Validator

ACCURACY = Metric("accuracy", "accuracy, %", higher_is_better=True, digits=1)


_AUGMENTATION = {"crop": 4, "flip": True, "mixup": 0.8, "cutmix": 1.0}

_IMAGES = {
    "schedule": "cosine",
    "learning_rate": 0.001,
    "max_updates": 10_000,
    "adam_beta2": 0.999,
    "adam_eps": 1e-8,
    "batch_tokens": 8192,
    "patience": 0,
}


def _vit(**sizes: int) -> Sections:
    model = {"layers": 6, **sizes, "dropout": 0.0, "stem": "convolution"}
    return {"data": _AUGMENTATION, "model": model, "train": _IMAGES}


def _convnet(d_model: int, **train: float) -> Sections:
    model = {"d_model": d_model, "dropout": 0.1}
    return {"data": _AUGMENTATION, "model": model, "train": {**_IMAGES, **train}}


PRESETS: dict[str, dict[str, Sections]] = {
    "vit": {
        "tiny": _vit(d_model=128, d_ff=256, heads=4),
        "small": _vit(d_model=192, d_ff=384, heads=6),
    },
    "convnet": {"tiny": _convnet(128, learning_rate=0.002), "small": _convnet(256)},
}
"""The presets by the name of the architecture."""


class ClassificationRecipe(Recipe):
    """A run on images with classes."""

    data: SerializeAsAny[ImageData]
    left_open: ClassVar[Mapping[str, Mapping[str, object]]] = {
        "data": {"image_size": None},
        **Recipe.left_open,
    }

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.data.image_size is not None:
            self.patches(self.data.image_size)
        return self

    def patches(self, size: int) -> int:
        """Return the number of patches of images of this size, or raise ValueError."""
        assert isinstance(self.model, ClassifierConfig)
        if self.data.crop >= size:
            raise ValueError(
                f"data.crop {self.data.crop} moves images of {size} pixels out of the picture; "
                "lower it"
            )
        return self.model.tokens(ImageShape(size))


@dataclass(frozen=True)
class ImageCorpus(Corpus):
    """The images of a run by split."""

    sets: ImageSets
    tokens: int
    """The number of patches of an image."""

    kind: ClassVar[type[Bundle]] = ImageBundle
    unit, unit_name = "image", "images"

    @property
    def size(self) -> int:
        """The number of training images."""
        return len(self.sets.train)

    @property
    def longest_input(self) -> int:
        """The number of patches of an image."""
        return self.tokens

    @property
    def lengths(self) -> np.ndarray:
        """The number of patches of each training image."""
        return self._rows(self.sets.train).lengths

    @property
    def valid(self) -> ImageRows:
        """The validation images."""
        return self._rows(self.sets.valid)

    def epochs(self, recipe: ClassificationRecipe) -> Callable[[int], ImageRows]:
        """Return a function that gives the training images of an epoch, augmented."""
        seed = recipe.train.seed
        return lambda epoch: self._rows(self.sets.train, recipe.data, (seed, epoch))

    def _rows(self, images: LabelledImages, *augment: Any) -> ImageRows:
        return ImageRows(images, self.tokens, len(self.sets.classes), *augment)

    def sha256(self) -> str:
        """Return the checksum of the pixels and the classes."""
        found = hashlib.sha256("\n".join(self.sets.classes).encode("utf-8", "surrogateescape"))
        for part in (self.sets.train, self.sets.valid):
            found.update(part.pixels.tobytes())
            found.update(part.labels.tobytes())
        return found.hexdigest()

    def origin(self, row: int) -> str:
        """Return the file of an image."""
        return self.sets.train.names[row]

    def opening(self, data: ImageData) -> list[str]:
        """Return the number of images by split, and the classes; then the broken images."""
        classes, size = self.sets.classes, self.sets.size
        names = ", ".join(classes) if len(classes) <= 12 else f"{classes[0]} to {classes[-1]}"
        first = (
            f"{counted(self.size, 'image')} to train on, of {size} x {size} pixels, in "
            f"{len(classes)} classes ({names}); validation: {self.validation(data)}"
        )
        broken = self.sets.broken
        return [first, left_out(broken, "broken image")] if broken else [first]

    def validation(self, data: ImageData) -> str:
        """Return the number and the origin of the validation and test images."""
        found = counted(len(self.sets.valid), "image")
        found += " held out of the training images" if self.sets.held_out else ""
        test = len(self.sets.test)
        return f"{found}; test: {counted(test, 'image')}, scored at the end" if test else found

    def left_out(self) -> dict[str, int]:
        """Return the number of broken images."""
        return {"broken images": len(self.sets.broken)} if self.sets.broken else {}

    def bundle_config(self, recipe: ClassificationRecipe, longest_input: int) -> BundleConfig:
        """Return the classes and the size of the images."""
        return ImageBundleConfig(
            task=ClassificationTask.name,
            model=recipe.model,
            classes=self.sets.classes,
            image_size=self.sets.size,
        )

    def completed(self, recipe: ClassificationRecipe) -> ClassificationRecipe:
        """Return the recipe with the size of the images."""
        data = recipe.data.model_copy(update={"image_size": self.sets.size})
        return recipe.model_copy(update={"data": data})


def classification_loss(logits: Float[Tensor, "B K"], batch: ImageBatch, smoothing: float) -> Loss:
    """Return the cross-entropy of images against their classes, smoothed, and the accuracy.

    The target distribution has 1 - eps on the classes of an image, by their shares, and eps/K on
    every class. With one class an image it is that of `label_smoothed_cross_entropy`.

    Reference:
        Szegedy et al. 2016, section 7; Zhang et al. 2018, Eq. 1.
    """
    logits = logits.float()
    loss, nll = (
        F.cross_entropy(logits, batch.targets, label_smoothing=eps, reduction="sum")
        for eps in (smoothing, 0.0)
    )
    hits = (logits.detach().argmax(dim=-1) == batch.targets.argmax(dim=-1)).sum()
    sums = {"loss": loss, "nll": nll.detach(), "accuracy": 100.0 * hits}
    return Loss(sums, batch.count)


class ClassificationValidator(Validator[ClassificationRecipe, ImageCorpus, ImageBundle]):
    """Validates by the classes of all validation images, which are not augmented."""

    def search_description(self) -> str:
        """Return the size of the images."""
        size = self.corpus.sets.size
        return f"{size} x {size} pixels"

    def validate(self, weights: dict[str, Tensor]) -> Validation:
        """Return the loss and the accuracy of the validation images."""
        self.bundle_of(weights)
        valid = self.corpus.valid
        plan = valid.in_order(max(self.recipe.train.batch_tokens, self.corpus.tokens))
        return Validation(self.means(valid.collate(rows.tolist()) for rows in plan))

    def findings(self, weights: dict[str, Tensor]) -> Findings:
        """Return the accuracy on the test images, or on the validation images without any."""
        sets = self.corpus.sets
        images = sets.test if len(sets.test) else sets.valid
        split = "test" if len(sets.test) else "valid"
        classifier = ImageClassifier(self.bundle_of(weights))
        found = classification_scores(
            classifier, images, split, progress=lambda share: self.stop_if_asked()
        )
        usual = 100 * float(np.bincount(images.labels).max()) / len(images)
        accuracy = found.scores[0].value
        faults = []
        if accuracy <= usual:
            faults.append(
                f"its accuracy of {accuracy:.1f} % is not above {usual:.1f} %, the share of the "
                "most frequent class"
            )
        name = "test images" if len(sets.test) else "validation"
        scores = [BundleScore.of(each, name) for each in found.scores]
        return Findings(scores, faults)


class ClassificationTask(Task):
    """Classification of images."""

    name: ClassVar[str] = "classification"
    recipe: ClassVar[type[Recipe]] = ClassificationRecipe
    bundle: ClassVar[type[Bundle]] = ImageBundle
    pipeline: ClassVar[type[Pipeline]] = ImageClassifier
    validator: ClassVar[type[Validator[Any, Any, Any]]] = ClassificationValidator
    metrics: ClassVar[tuple[Metric, ...]] = (LOSS, ACCURACY)
    chooses: ClassVar[str] = "accuracy"
    architecture: ClassVar[str] = "vit"
    units: ClassVar[str] = "images"
    batch_units: ClassVar[str] = "patches"
    counter: ClassVar[str] = "images"

    def recognizes(self, data: Mapping[str, Any]) -> bool:
        """Return whether `[data]` names images without captions and without pairs."""
        return bool(data.get("images")) and not (data.get("captions") or data.get("pairs"))

    def read(
        self,
        recipe: ClassificationRecipe,
        base: Bundle | None,
        resumed: Path | None,
        say: Callable[[str], None] = lambda line: None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> ImageCorpus:
        """Read, split and decode images."""
        assert base is None or isinstance(base, ImageBundle)
        data = recipe.data
        if not data.images:
            raise DataError("no training data: give a folder of images, or a zip of one (--images)")
        if base:
            kept_size(data.image_size, base.config.image_size)
        classes = base.config.classes if base else ()
        sets = read_image_sets(data, classes, say, stop_check(should_stop))
        try:
            tokens = recipe.patches(sets.size)
        except ValueError as error:
            raise DataError(f"{data.images[0]}: {error}") from None
        parts = sets.train, sets.valid, sets.test
        files = [
            CardFile(path, count, images_sha256(Path(path), parts))
            for path, count in sets.counts.items()
        ]
        return ImageCorpus(files, sets, tokens)

    def loss(self, model: Classifier, batch: ImageBatch, settings: TrainConfig) -> Loss:
        """Return the loss of a batch: see `classification_loss`."""
        return classification_loss(model(batch.images), batch, settings.label_smoothing)

    def example(self, model: ClassifierConfig, preset: Sections) -> tuple[str, Callable[[], Model]]:
        """Return the model of a preset for ten classes of images of 32 pixels."""
        return "", partial(build_classifier, model, ImageShape(32), 10)

    def sections(self, bundle: Bundle) -> dict[str, dict[str, Any]]:
        """Return the model of a bundle and the size of its images."""
        assert isinstance(bundle, ImageBundle)
        return {**super().sections(bundle), "data": {"image_size": bundle.config.image_size}}
