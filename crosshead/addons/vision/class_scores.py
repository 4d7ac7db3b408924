"""Scores of classifiers of images: accuracy and confusions."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from crosshead.addons.vision.data.labelled_images import LabelledImages
from crosshead.addons.vision.image_classifier import ImageClassifier
from crosshead.errors import DataError
from crosshead.evaluation.bootstrap import CorpusScore
from crosshead.version import __version__


@dataclass(frozen=True)
class ClassScores:
    """The scores of a classifier, and its confusions."""

    scores: list[CorpusScore]
    """The accuracy in per cent, and with more than five classes the accuracy of the best five."""
    classes: list[str]
    counts: np.ndarray
    """The number of images of each class (rows) by predicted class (columns), "K K"."""

    def confused(self) -> list[tuple[str, str, int]]:
        """Return class, wrong prediction and number of images, the most frequent first."""
        wrong = self.counts * (1 - np.eye(len(self.classes), dtype=np.int64))
        order = np.argsort(-wrong, axis=None, kind="stable")[: np.count_nonzero(wrong)]
        pairs = (divmod(int(place), len(self.classes)) for place in order)
        return [(self.classes[a], self.classes[b], int(wrong[a, b])) for a, b in pairs]


def classification_scores(
    classifier: ImageClassifier,
    images: LabelledImages,
    split: str,
    *,
    progress: Callable[[float], None] = lambda share: None,
) -> ClassScores:
    """Score the predictions of a classifier. The intervals are Wilson's, with 95 %.

    Args:
        classifier: The model.
        images: The images, with classes of the model.
        split: The name of the images, for the signature.
        progress: Called with the share that is done, from 0 to 1, before each batch.

    Returns:
        The accuracy, and the numbers of images by class and prediction.

    Raises:
        DataError: If there are no images.
    """
    if not len(images):
        raise DataError("there are no images to score")
    found = np.stack(list(classifier.probabilities(images.pixels, progress)))
    kinds = len(classifier.classes)
    counts = np.zeros((kinds, kinds), np.int64)
    np.add.at(counts, (images.labels, found.argmax(axis=1)), 1)
    best = np.argsort(-found, axis=1, kind="stable")[:, :5] == images.labels[:, None]
    size = images.pixels.shape[1]
    signature = (
        f"images:{len(images)}|split:{split}|classes:{kinds}|pixels:{size}|interval:wilson|"
        f"version:crosshead-{__version__}"
    )
    hits = {"accuracy, %": int(best[:, 0].sum())}
    if kinds > 5:
        hits["top-5 accuracy, %"] = int(best.sum())
    scores = [
        CorpusScore(name, 100 * number / len(images), *_wilson(number, len(images)), signature)
        for name, number in hits.items()
    ]
    return ClassScores(scores, classifier.classes, counts)


def _wilson(hits: int, total: int) -> tuple[float, float]:
    """Return the 95 % interval of a share in per cent (Wilson 1927)."""
    z, share = 1.959964, hits / total
    middle = (share + z * z / (2 * total)) / (1 + z * z / total)
    half = z * math.sqrt(share * (1 - share) / total + (z / (2 * total)) ** 2) / (1 + z * z / total)
    return 100 * max(0.0, middle - half), 100 * min(1.0, middle + half)
