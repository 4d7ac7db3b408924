"""The parts of `translate` and `evaluate` for images with text."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from crosshead.addons.vision.caption_pipeline import ImageCaptioner
from crosshead.addons.vision.data.caption_sets import (
    CAPTIONS,
    PAIRS,
    CaptionFormat,
    CaptionSet,
    ImageNames,
    other_images,
    read_caption_set,
)
from crosshead.addons.vision.data.images import ImageFolder
from crosshead.addons.vision.image_pipeline import ImageTextPipeline
from crosshead.addons.vision.multimodal_translator import MultimodalTranslator
from crosshead.addons.vision.scores import caption_scores
from crosshead.cli.answers import answering
from crosshead.cli.evaluation import (
    SCORES_FOLLOW,
    metric_names,
    say_if_tokenised,
    scores_jsonl,
    scores_table,
)
from crosshead.cli.search_flags import search_settings
from crosshead.cli.seen_data import say_if_seen
from crosshead.cli.terminal import json_line, note, table
from crosshead.decoding.search import DecodeConfig
from crosshead.errors import DataError
from crosshead.evaluation.bootstrap import CorpusScore
from crosshead.system.progress import counted
from crosshead.tasks.loading import load_as
from crosshead.tasks.translation.line_translator import Translation

BLANK = Translation("", 0.0, 0.0, [], [])
"""The translation of a blank line."""

UNREAD = Translation("", math.nan, math.nan, [], [], flags=("unread",))
"""The translation of a line whose image cannot be read."""


class BesideImages:
    """A translator of lines `image<TAB>sentence`, with the images of some folders.

    A line whose image cannot be read gets an empty translation with the flag `unread` and without a
    score, and its reason is printed.
    """

    def __init__(
        self, bundle: Path, images: Sequence[str], device: str, threads: int | None, precision: str
    ) -> None:
        self._folders = ", ".join(images)
        self._places = ImageNames([ImageFolder(Path(name)) for name in images])
        self._translator = load_as(MultimodalTranslator, bundle, device, threads, precision)
        self.bundle = self._translator.bundle
        self._broken = 0

    def translate(
        self,
        lines: Sequence[str],
        *,
        decode: Any,
        n_best: int,
        first: int,
        progress: Callable[[float], None],
    ) -> list[list[Translation]]:
        """Return the translations of each line, best first."""
        rows, pixels, texts = [], [], []
        found = [[BLANK] for _ in lines]
        for row, line in enumerate(lines):
            if not line.strip():
                continue
            name, tab, sentence = line.partition("\t")
            try:
                if not tab:
                    raise DataError(f"expected `image<TAB>sentence`, found {line[:60]!r}")
                pixels.append(self._pixels(name))
            except DataError as error:
                note(f"error: line {first + row + 1}: {error}")
                self._broken += 1
                found[row] = [UNREAD]
                continue
            rows.append(row)
            texts.append(sentence)
        if rows:
            images = range(len(rows))
            best = self._translator.search(
                np.stack(pixels), images, texts, decode, n_best, first, progress
            )
            for row, translations in zip(rows, best, strict=True):
                found[row] = translations
        return found

    def finish(self) -> None:
        """Raise `DataError` if there were lines without a readable image."""
        if self._broken:
            raise DataError(
                f"{counted(self._broken, 'line')} got no translation; the messages above say why"
            )

    def _pixels(self, name: str) -> np.ndarray:
        """Return the image of this name in the model's size."""
        fitting = self._places.find(name)
        if len(fitting) != 1:
            several = f"{len(fitting)} images end so; give the folder too"
            raise DataError(
                f"{name!r}: {several if fitting else 'no such image'} in {self._folders}"
            )
        [place] = fitting
        return place.decoded(self._translator.image_size)


class PairScores(NamedTuple):
    """The scores of translations with a choice of images."""

    images: str
    """`right`, or `shuffled` among the sentences."""
    scores: list[CorpusScore]


def pair_evaluation(
    bundle: Path, images: Sequence[str], pairs: Sequence[str], *, jsonl: bool, **options: Any
) -> str:
    """Return the scores of a model with the right images, and with shuffled images."""
    test = _test_set(MultimodalTranslator, bundle, images, pairs, PAIRS, **options)
    found, right = test.found, [each.image for each in test.found.captions]
    chosen = {"right": right, "shuffled": other_images(right)}
    rows, total = [], len(chosen) * len(right)
    with answering(total, "sentences") as advance:
        for number, (name, of) in enumerate(chosen.items()):
            progress = partial(advance, number * len(right), len(right))
            best = test.pipeline.search(
                found.pixels, of, found.sources, test.decode, progress=progress
            )
            rows.append(PairScores(name, test.scores(best, [[text] for text in found.texts])))
    return pairs_jsonl(rows) if jsonl else pairs_table(rows)


def caption_evaluation(
    bundle: Path, images: Sequence[str], captions: Sequence[str], *, jsonl: bool, **options: Any
) -> str:
    """Return the scores of a captioner on images with captions."""
    test = _test_set(ImageCaptioner, bundle, images, captions, CAPTIONS, **options)
    total = len(test.found.names)
    with answering(total, "images", SCORES_FOLLOW) as advance:
        best = test.pipeline.search(
            test.found.pixels, test.decode, progress=partial(advance, 0, total)
        )
    scores = test.scores(best, test.found.references())
    return scores_jsonl(scores) if jsonl else scores_table(scores)


class _TestSet(NamedTuple):
    """A model that reads images and writes text, and a set to score it on."""

    pipeline: Any
    decode: DecodeConfig
    found: CaptionSet
    metrics: list[str]
    tokenize: str | None

    def scores(
        self, best: Sequence[Sequence[Any]], references: Sequence[Sequence[str]]
    ) -> list[CorpusScore]:
        """Return the scores of the best texts."""
        texts = [each[0].text for each in best]
        return caption_scores(texts, references, self.metrics, self.tokenize)


def _test_set(
    kind: type[ImageTextPipeline],
    bundle: Path,
    images: Sequence[str],
    files: Sequence[str],
    form: CaptionFormat,
    *,
    metrics: str | None,
    tokenize: str | None,
    device: str,
    threads: int | None,
    **flags: Any,
) -> _TestSet:
    """Load a model and a set; `flags` are those of the search."""
    names = metric_names(metrics or "bleu,chrf", tokenize)
    pipeline = load_as(kind, bundle, device, threads)
    decode = search_settings(pipeline.bundle.config.decode, False, flags, None)
    found = read_caption_set(images, files, pipeline.image_size, kind=form)
    for line in found.messages():
        note(line)
    say_if_seen([bundle], files)
    say_if_tokenised(found.texts, ", ".join(files), names, tokenize)
    return _TestSet(pipeline, decode, found, names, tokenize)


def pairs_table(found: Sequence[PairScores]) -> str:
    """Return a table of scores: a row with the right images, and a row with shuffled images.

    If no metric tells the rows apart, a line below says so.
    """
    rows = [["images", *(each.metric for each in found[0].scores)]]
    for images, scores in found:
        rows.append(
            [images, *(f"{each.value:.2f} ({each.low:.2f} to {each.high:.2f})" for each in scores)]
        )
    lines = [f"{each.metric}: {each.signature}\n" for each in found[0].scores]
    if all(map(_are_alike, *(each.scores for each in found))):
        lines.append(
            "Both rows are alike within their intervals: as far as this set can tell, the images "
            "are of no use to the model.\n"
        )
    return table(rows) + "\n" + "".join(lines)


def pairs_jsonl(found: Sequence[PairScores]) -> str:
    """Return scores as JSON Lines, with the choice of images in each."""
    return "".join(
        json_line({"images": images, **dataclasses.asdict(each)})
        for images, scores in found
        for each in scores
    )


def _are_alike(right: CorpusScore, shuffled: CorpusScore) -> bool:
    """Return whether each of two scores lies within the interval of the other."""
    return (
        shuffled.low <= right.value <= shuffled.high and right.low <= shuffled.value <= right.high
    )
