"""Images: a convolutional network against Vision Transformers, by the number of training images."""

import math
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from crosshead.addons.studies.charts import COLORS
from crosshead.addons.studies.classifiers import (
    BATCH,
    KINDS,
    MISSING,
    SIZES,
    ImageRuns,
    Job,
    cifar10,
)
from crosshead.addons.studies.effort import Effort, Times
from crosshead.addons.studies.study import (
    Band,
    Result,
    Say,
    Study,
    Table,
    Value,
    after_training,
    reported,
)
from crosshead.addons.studies.turns import TRAINING, Timed, compute, timed
from crosshead.addons.vision.models.classifier import Classifier, build_classifier
from crosshead.addons.vision.models.image_encoder import ImageShape

FEW = f"convolutional network minus patches, {SIZES[0]:,} images, in points of accuracy"
MANY = f"convolutional network minus patches, {SIZES[-1]:,} images"
NARROWS = f"the difference with {SIZES[0]:,} images over the difference with {SIZES[-1]:,}"
STEM = f"convolution stem minus patches, {SIZES[-1]:,} images"
REST = f"convolutional network minus convolution stem, {SIZES[-1]:,} images"
TIME = "time of an update: convolutional network over patches"

LEAST = 3.0
"""The smallest difference in points that counts: two standard errors of the difference of two
accuracies near one half on 2,000 test images."""

BANDS = (
    Band(
        FEW, LEAST, math.inf,
        "\"Useful for smaller datasets\": ViT-B/32 \"performs much worse\" than ResNet50 on the "
        "smallest set. Three points are two standard errors of a difference on 2,000 test images.",
    ),
    Band(
        MANY, LEAST, math.inf,
        "9,000 images are still few: the smallest set of the paper has 9 million.",
    ),
    Band(
        NARROWS, 1.1, math.inf,
        "From 9 to 90 million images the paper's difference changes its sign. A tenth of the "
        "difference is required here, from 1,000 to 9,000 images. In points it could also grow "
        "first, because all models begin at 10 %.",
    ),
    Band(
        STEM, 2, math.inf,
        "Xiao et al. 2021 report one to two points on ImageNet, and more in short schedules. Both "
        "the images and the updates are fewer here.",
    ),
    reported(REST, "No source says how much of the difference a stem closes at this size."),
    reported(TIME, "The width of the network was chosen for equal sizes and similar times."),
)  # fmt: skip

QUOTE = (
    "Vision Transformers overfit more than ResNets with comparable computational cost on smaller "
    "datasets. [...] This result reinforces the intuition that the convolutional inductive bias is "
    "useful for smaller datasets, but for larger ones, learning the relevant patterns directly "
    "from data is sufficient, even beneficial."
)


def run(effort: Effort, seed: int, say: Say) -> Result:
    """Train each classifier on more and more images, and score the test images."""
    with tempfile.TemporaryDirectory() as scratch:
        images = cifar10(effort, seed, Path(scratch), say)
        if images is None:
            missing = dict.fromkeys((band.name for band in BANDS), MISSING)
            return Result(missing, [], lambda figure: None)
        models = classifiers(images)
        times = update_times(models, images, effort)
        found = images.accuracies(say)
        kept = [images.finished(*job) for job in images.jobs]
    tables = [accuracy_table(found, images.sizes), cost_table(models, times)]
    values = measured(found, images.sizes, times["convnet"].ratio.median, effort)
    return Result(values, tables, partial(draw, found), kept=kept)


def classifiers(images: ImageRuns) -> dict[str, Classifier]:
    """Build an untrained classifier of each kind."""
    shape = ImageShape(images.pixels)
    return {
        kind: build_classifier(images.recipe(kind, images.sizes[0]).model, shape, 10)
        for kind in KINDS
    }


def update_times(
    models: Mapping[str, Classifier], images: ImageRuns, effort: Effort
) -> dict[str, Timed]:
    """Measure the forward and backward pass of a batch in turns, by kind."""
    pixels = torch.zeros(BATCH, 3, images.pixels, images.pixels)
    calls = {
        kind: partial(compute, model, partial(model, pixels), TRAINING)
        for kind, model in models.items()
    }
    return timed(calls, lambda kind: "patch", effort.amount(2, 7), effort.share)


def measured(
    found: Mapping[Job, float], sizes: Sequence[int], time: float, effort: Effort
) -> dict[str, Value]:
    """Return the quantities of the bands."""
    few, many = ({kind: found[kind, size] for kind in KINDS} for size in (min(sizes), max(sizes)))
    first, last = (each["convnet"] - each["patch"] for each in (few, many))
    failed = {NARROWS: "the network is not ahead with few images"} if first < LEAST else {}
    values = {
        FEW: first,
        MANY: last,
        NARROWS: first / last if last > 0 else math.inf,
        STEM: many["stem"] - many["patch"],
        REST: many["convnet"] - many["stem"],
        TIME: time,
    }
    return after_training(effort, values, failed)


def accuracy_table(found: Mapping[Job, float], sizes: Sequence[int]) -> Table:
    """Return the accuracy of each kind by the number of training images."""
    rows = [["model", *(f"{size:,} images" for size in sizes)]]
    rows += [[KINDS[kind].name, *(f"{found[kind, size]:.1f}" for size in sizes)] for kind in KINDS]
    return Table("Accuracy on the test images, %", rows)


def cost_table(models: Mapping[str, Classifier], times: Mapping[str, Timed]) -> Table:
    """Return the number of weights of each kind, and the time of an update."""
    rows = [["model", "weights", "an update", "over patches"]]
    for kind, model in models.items():
        weights = sum(each.numel() for each in model.parameters())
        time = times[kind]
        rows.append([KINDS[kind].name, f"{weights:,}", time.shown, str(time.ratio)])
    threads = f"{torch.get_num_threads()} threads"
    return Table(f"Size and time of an update of {BATCH} images, {threads}", rows)


def draw(found: Mapping[Job, float], figure: Any) -> None:
    """Draw the accuracy of each kind by the number of training images."""
    axes = figure.subplots()
    sizes = sorted({size for _, size in found})
    for (kind, (name, *_)), color, mark in zip(KINDS.items(), COLORS, "os^", strict=True):
        values = [found[kind, size] for size in sizes]
        axes.plot(sizes, values, f"{mark}-", color=color, label=name)
    axes.set(xscale="log", xlabel="training images", ylabel="accuracy on the test images, %")
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.set_xticks([], minor=True)
    axes.grid(alpha=0.3)
    axes.legend()


VISION = Study(
    "vision",
    "With few images a convolutional network is better than a Vision Transformer",
    QUOTE,
    "Dosovitskiy et al. 2021, section 4.3",
    BANDS,
    run,
    Times(quick=6, full=7570),
)
