"""Classifiers of images trained on CIFAR-10, once each, with more and more training images.

The archive has 10,000 training images and 2,000 test images. A tenth of the training images is held
out, and chooses the weights. All runs have the same updates, augmentation and optimiser.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZipFile, ZipInfo

import numpy as np

from crosshead.addons.studies import runs
from crosshead.addons.studies.effort import Effort
from crosshead.addons.studies.study import Say
from crosshead.addons.vision.data.images import encode_png
from crosshead.bundle.places import CONFIG
from crosshead.recipe.recipe import Recipe
from crosshead.system.files import make_directory
from crosshead.system.stored import read_metadata
from crosshead.tasks.recipes import compose

MISSING = "the images of CIFAR-10 are not there"
"""The reason why a quantity that needs them is not measured."""

SIZES = (1000, 3000, 9000)
"""The numbers of training images. The largest is all images that are not held out."""

UPDATES, BATCH = 1800, 64
"""The updates of a run in the full form, and the images of a batch."""

ARCHIVE = "cifar10-small.zip"
_DOWNLOADED = Path("data")
_CLASSES, _QUICK_SIZES, _QUICK_PIXELS = ("high", "low"), (6, 12), 8
_AUGMENTATION = {"crop": 4, "flip": True, "mixup": 0.0, "cutmix": 0.0}
_TRAIN = {
    "batch_tokens": BATCH * 64, "schedule": "cosine", "adam_beta2": 0.999, "adam_eps": 1e-8,
    "weight_decay": 0.05, "label_smoothing": 0.1, "precision": "float32", "device": "cpu",
    "threads": 1, "patience": 0, "keep_last": 1, "average": 0,
}  # fmt: skip
_VIT = {
    "architecture": "vit", "patch_size": 4, "pool": "mean", "layers": 6, "d_model": 128,
    "d_ff": 256, "heads": 4, "dropout": 0.0,
}  # fmt: skip
_SMALL_VIT = {"layers": 1, "d_model": 16, "d_ff": 16, "heads": 2}


class ClassifierKind(NamedTuple):
    """A classifier."""

    name: str
    """Its name in tables and pictures."""
    model: Mapping[str, Any]
    learning_rate: float
    small: Mapping[str, Any]
    """The sizes of the quick form."""


KINDS = {
    "patch": ClassifierKind(
        "Vision Transformer, patches", {**_VIT, "stem": "patch"}, 0.001, _SMALL_VIT
    ),
    "stem": ClassifierKind(
        "Vision Transformer, convolution stem", {**_VIT, "stem": "convolution"}, 0.001, _SMALL_VIT
    ),
    # This width makes the network as large and as slow as the Vision Transformers.
    "convnet": ClassifierKind(
        "convolutional network",
        {"architecture": "convnet", "d_model": 224, "blocks": 3, "dropout": 0.0},
        0.001,
        {"d_model": 16, "blocks": 2},
    ),
}
"""Two Vision Transformers, with the mean of the patches as the vector that is classified, as in the
convolutional network; and the convolutional network."""

Job = tuple[str, int]
"""A kind and a number of training images."""


@dataclass(frozen=True)
class ImageRuns:
    """Images to train on, and the runs on them."""

    images: Path
    folder: Path
    seed: int
    sizes: Sequence[int]
    """The numbers of training images."""
    pixels: int
    """Height and width of the images."""
    share: float
    """The share of the updates of the full form; 0 for the quick form."""

    @property
    def jobs(self) -> list[Job]:
        """The runs of all kinds at all sizes, by kind."""
        return [(kind, size) for kind in KINDS for size in self.sizes]

    def recipe(self, kind: str, size: int) -> Recipe:
        """Return the recipe of a run."""
        _, model, rate, small = KINDS[kind]
        updates = max(2, round(self.share * UPDATES))
        train = {
            **_TRAIN, "seed": self.seed, "learning_rate": rate, "max_updates": updates,
            "warmup": max(1, updates // 20), "valid_every": max(1, updates // 10),
        }  # fmt: skip
        data = {
            "images": [str(self.images)], "train_images": size, "image_size": self.pixels,
            **_AUGMENTATION,
        }  # fmt: skip
        sizes = {} if self.share else small
        found: Recipe = compose(recipe={"data": data, "model": {**model, **sizes}, "train": train})
        return found

    def place(self, kind: str, size: int) -> Path:
        """Return the directory of a run."""
        recipe = self.recipe(kind, size)
        return runs.place_of(self.folder, recipe, recipe.data.model_dump_json(), self.share)

    def finished(self, kind: str, size: int) -> Path:
        """Return the file that a run has once it has ended."""
        return runs.finished(self.place(kind, size))

    def accuracy(self, kind: str, size: int) -> float:
        """Return the accuracy of a run on the test images, in per cent."""
        place = self.place(kind, size)
        runs.ensure_trained(place, self.recipe(kind, size))
        scores = read_metadata(place / CONFIG)["scores"]
        [found] = [each["value"] for each in scores if each["metric"] == "accuracy, %"]
        return float(found)

    def accuracies(self, say: Say) -> dict[Job, float]:
        """Train all jobs, several at a time, and return their accuracy on the test images."""
        calls = {job: partial(self.accuracy, *job) for job in self.jobs}
        found = {}
        for job, accuracy in runs.side_by_side(calls, quick=not self.share):
            found[job] = accuracy
            kind, size = job
            say(f"{KINDS[kind].name}, {size:,} images: {accuracy:.1f} % of the test images")
        return {job: found[job] for job in self.jobs}


def cifar10(effort: Effort, seed: int, scratch: Path, say: Say) -> ImageRuns | None:
    """Return the runs on CIFAR-10, or on images made in `scratch` in the quick form; or None."""
    if effort.quick:
        images = made_up(scratch)
        return ImageRuns(images, scratch / "runs", seed, _QUICK_SIZES, _QUICK_PIXELS, 0)
    images = Path(os.environ.get("CROSSHEAD_DATA") or _DOWNLOADED) / ARCHIVE
    if not images.is_file():
        say(
            f"{ARCHIVE} not found in {images.parent}; quantities that need it are skipped: it is a "
            "zip of train/CLASS/NAME.jpg and test/CLASS/NAME.jpg; put it there, or set "
            "CROSSHEAD_DATA to its folder"
        )
        return None
    return ImageRuns(images, runs.RUNS / "cifar10", seed, SIZES, 32, effort.share)


def made_up(directory: Path) -> Path:
    """Write a zip of small images of two classes, bright above or below, to try the code."""
    make_directory(directory)
    path, random = directory / "images.zip", np.random.default_rng(1)
    half = _QUICK_PIXELS // 2
    with ZipFile(path, "w") as archive:
        for split, count in (("train", 8), ("test", 4)):
            for label, rows in zip(_CLASSES, (slice(half), slice(half, None)), strict=True):
                for number in range(count):
                    pixels = random.integers(0, 120, (_QUICK_PIXELS, _QUICK_PIXELS, 3), np.uint8)
                    pixels[rows] += 130
                    name = f"{split}/{label}/{number}.png"
                    archive.writestr(ZipInfo(name), encode_png(pixels))
    return path
