"""Scores of captions by their references, and of classifiers by their classes."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from crosshead.addons.vision.data.labelled_images import LabelledImages
from crosshead.addons.vision.image_classifier import ImageClassifier
from crosshead.evaluation.bootstrap import RESAMPLES, SEED, CorpusScore, accuracy, bootstrapped
from crosshead.evaluation.sacrebleu_metrics import (
    check_sizes,
    metric_of,
    metric_scores,
    sentence_chrf,
)
from crosshead.version import __version__


def multi_bleu(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Return BLEU against several references each, with `default_tokenisation` and no interval.

    Args:
        hypotheses: The texts.
        references: The references of each text, at least one.
    """
    streams = _streams(references)
    metric = metric_of("bleu", None, streams[0])
    return float(metric.corpus_score(list(hypotheses), streams).score)


def caption_scores(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    metrics: Sequence[str] = ("bleu", "chrf"),
    tokenize: str | None = None,
) -> list[CorpusScore]:
    """Score captions against one or more references each, and by exact match.

    Args:
        hypotheses: The captions.
        references: The references of each caption, at least one.
        metrics: Names from `METRICS`.
        tokenize: The tokenisation of BLEU, as for `corpus_scores`.

    Returns:
        The scores, in the order of `metrics`, and then exact match: the percentage of captions that
        equal one of their references.

    Raises:
        ConfigError: If a metric or the tokenisation is unknown.
        DataError: If the sets are empty or differ in length.
    """
    check_sizes({"captions": hypotheses}, references)
    scores = metric_scores(hypotheses, _streams(references), metrics, tokenize)
    hits = [
        (0.0, 1, int(text in wanted)) for text, wanted in zip(hypotheses, references, strict=True)
    ]
    signature = f"bs:{RESAMPLES}|seed:{SEED}|per:text|version:crosshead-{__version__}"
    return [*scores, bootstrapped("exact match, %", hits, accuracy, signature)]


def nearest_references(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> list[str]:
    """Return the reference that is nearest to each text: an equal one, or the best by chrF2."""

    def likeness(text: str, wanted: str) -> tuple[bool, float]:
        # chrF2 ignores white space, so that several references may have the score of an equal one.
        return text == wanted, sentence_chrf([text], [wanted])[0]

    pairs = zip(hypotheses, references, strict=True)
    return [max(wanted, key=partial(likeness, text)) for text, wanted in pairs]


def _streams(references: Sequence[Sequence[str]]) -> list[Any]:
    """Return references as sacreBLEU takes them: the first of each text, the second, and so on."""
    most = max(map(len, references))
    return [
        [each[number] if number < len(each) else None for each in references]
        for number in range(most)
    ]


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
        images: The images, at least one, with classes of the model.
        split: The name of the images, for the signature.
        progress: Called with the share that is done, from 0 to 1, before each batch.

    Returns:
        The accuracy, and the numbers of images by class and prediction.
    """
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
