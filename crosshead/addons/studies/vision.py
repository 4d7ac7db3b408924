"""Images: a convolutional network against Vision Transformers, by the number of training images.

The archive of CIFAR-10 has 10,000 training images and 2,000 test images. A tenth of the training
images is held out, and chooses the weights. All runs have the same updates, augmentation and
optimiser.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZipFile, ZipInfo

import numpy as np

from crosshead.addons.studies.charts import Sheet, cells
from crosshead.addons.studies.runs import Run, data_at, results, run_of
from crosshead.addons.studies.study import Band, Result, Study, Trial, Value
from crosshead.addons.vision.data.images import encode_png

SIZES, SMALL_SIZES = (1000, 3000, 9000), (6, 12)
"""The numbers of training images. The largest is all images that are not held out."""

PIXELS, SMALL_PIXELS = 32, 8
UPDATES, BATCH = 1800, 64
"""The updates of a run in the full form, and the images of a batch."""

FEW = f"convolutional network minus patches, {SIZES[0]:,} images, in points of accuracy"
MANY = f"convolutional network minus patches, {SIZES[-1]:,} images"
NARROWS = f"the difference with {SIZES[0]:,} images over the difference with {SIZES[-1]:,}"
STEM = f"convolution stem minus patches, {SIZES[-1]:,} images"

LEAST = 3.0
"""The smallest difference in points that counts: two standard errors of the difference of two
accuracies near one half on 2,000 test images."""

BANDS = (
    Band(
        FEW, LEAST, math.inf,
        "“Useful for smaller datasets”: ViT-B/32 “performs much worse” than ResNet50 on the "
        "smallest set. Three points are two standard errors of a difference on 2,000 test images.",
    ),
    Band(MANY, LEAST, math.inf, "9,000 images are still few: the paper begins at 9 million."),
    Band(
        NARROWS, 1.1, math.inf,
        "From 9 to 90 million images the paper's difference changes its sign. A tenth of the "
        "difference is required here.",
    ),
    Band(STEM, 2, math.inf, "One to two points on ImageNet (Xiao et al. 2021)."),
)  # fmt: skip

_VIT = {
    "architecture": "vit", "patch_size": 4, "pool": "mean", "layers": 6, "d_model": 128,
    "d_ff": 256, "heads": 4, "dropout": 0.0,
}  # fmt: skip
_SMALL_VIT = {"layers": 1, "d_model": 16, "d_ff": 16, "heads": 2}


class ClassifierKind(NamedTuple):
    """A classifier: its name in tables and pictures, and its sizes in the quick form."""

    name: str
    model: Mapping[str, Any]
    small: Mapping[str, Any]


KINDS = {
    "patch": ClassifierKind("Vision Transformer, patches", {**_VIT, "stem": "patch"}, _SMALL_VIT),
    "stem": ClassifierKind(
        "Vision Transformer, convolution stem", {**_VIT, "stem": "convolution"}, _SMALL_VIT
    ),
    # This width makes the network as large and as slow as the Vision Transformers.
    "convnet": ClassifierKind(
        "convolutional network",
        {"architecture": "convnet", "d_model": 224, "blocks": 3, "dropout": 0.0},
        {"d_model": 16, "blocks": 2},
    ),
}
"""Two Vision Transformers, with the mean of the patches as the vector that is classified, as in the
convolutional network; and the convolutional network."""

Accuracies = Mapping[tuple[str, int], Sequence[float]]
"""By kind and number of training images, in per cent of the test images."""


def run(trial: Trial) -> Result:
    """Train each classifier on more and more images, from one seed, and score the test images."""
    sizes = SMALL_SIZES if trial.quick else SIZES
    images = made_up(trial.folder) if trial.quick else data_at("cifar10-small.zip")
    found = results(
        trial, product(KINDS, sizes), lambda of, seed: run_on(trial, images, of[0], of[1], seed),
        accuracy, seeds=1,
    )  # fmt: skip
    rows = cells({(KINDS[kind].name, size): of for (kind, size), of in found.items()}, list)
    sheet = Sheet("Accuracy on the test images, %", rows, "training images", ".1f", log="x")
    return Result(measured(found, sizes), [sheet])


def run_on(trial: Trial, images: Path, kind: str, size: int, seed: int) -> Run:
    """Return the run of a kind with a number of training images."""
    quick, updates = trial.quick, trial.amount(2, UPDATES)
    train = {
        "batch_tokens": BATCH * 64, "schedule": "cosine", "adam_beta2": 0.999, "adam_eps": 1e-8,
        "weight_decay": 0.05, "label_smoothing": 0.1, "patience": 0, "average": 0,
        "seed": seed, "learning_rate": 0.001, "max_updates": updates,
        "warmup": max(1, updates // 20), "valid_every": max(1, updates // 10),
    }  # fmt: skip
    data = {
        "images": [str(images)], "image_size": SMALL_PIXELS if quick else PIXELS, "crop": 4,
        "flip": True, "mixup": 0.0, "cutmix": 0.0, "train_images": size,
    }  # fmt: skip
    model = {**KINDS[kind].model, **(KINDS[kind].small if quick else {})}
    return run_of(trial, "cifar10", train, data=data, model=model)


def made_up(directory: Path) -> Path:
    """Write a zip of small images of two classes, bright above or below, to try the code."""
    path, random = directory / "images.zip", np.random.default_rng(1)
    half = SMALL_PIXELS // 2
    with ZipFile(path, "w") as archive:
        for split, count in (("train", 8), ("test", 4)):
            for label, rows in (("high", slice(half)), ("low", slice(half, None))):
                for number in range(count):
                    pixels = random.integers(0, 120, (SMALL_PIXELS, SMALL_PIXELS, 3), np.uint8)
                    pixels[rows] += 130
                    archive.writestr(ZipInfo(f"{split}/{label}/{number}.png"), encode_png(pixels))
    return path


def accuracy(run: Run) -> float:
    """Return the accuracy of a run on the test images, in per cent."""
    return run.scores()["accuracy, %"]


def measured(found: Accuracies, sizes: Sequence[int]) -> dict[str, Value]:
    """Return the quantities of the bands."""
    few, many = ({kind: found[kind, n][0] for kind in KINDS} for n in (min(sizes), max(sizes)))
    first, last = (each["convnet"] - each["patch"] for each in (few, many))
    narrows: Value = first / last if last > 0 else math.inf
    return {
        FEW: first,
        MANY: last,
        NARROWS: narrows if first >= LEAST else "the network is not ahead with few images",
        STEM: many["stem"] - many["patch"],
    }


VISION = Study(
    "vision",
    "With few images a convolutional network is better than a Vision Transformer",
    "Vision Transformers overfit more than ResNets with comparable computational cost on smaller "
    "datasets. [...] the convolutional inductive bias is useful for smaller datasets.",
    "Dosovitskiy et al. 2021, section 4.3",
    BANDS,
    run,
    seconds=7570,
)
