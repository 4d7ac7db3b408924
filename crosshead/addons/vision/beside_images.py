"""The work of `translate` and `evaluate` for images with text."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from crosshead.addons.vision.bundles import ImageTextPipeline
from crosshead.addons.vision.caption_pipeline import ImageCaptioner
from crosshead.addons.vision.data.caption_sets import (
    PAIRS,
    CaptionFormat,
    ImageNames,
    other_images,
    read_caption_set,
)
from crosshead.addons.vision.data.images import ImageFolder
from crosshead.addons.vision.multimodal_translator import MultimodalTranslator
from crosshead.addons.vision.scores import caption_scores
from crosshead.cli.arguments import search_settings
from crosshead.cli.evaluation import (
    SCORES_FOLLOW,
    comparison_table,
    metric_names,
    say_if_seen,
    say_if_tokenised,
    scores_jsonl,
    scores_table,
)
from crosshead.cli.terminal import answering, note
from crosshead.errors import DataError
from crosshead.evaluation.sacrebleu_metrics import compare
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
        found, read = [[BLANK] for _ in lines], {}
        for row, line in enumerate(lines):
            if line.strip():
                try:
                    read[row] = self._read(line)
                except DataError as error:
                    note(f"error: line {first + row + 1}: {error}")
                    self._broken += 1
                    found[row] = [UNREAD]
        if read:
            pixels, texts = zip(*read.values(), strict=True)
            best = self._translator.search(
                np.stack(pixels), range(len(read)), texts, decode, n_best, first, progress
            )
            for row, translations in zip(read, best, strict=True):
                found[row] = translations
        return found

    def finish(self) -> None:
        """Raise `DataError` if there were lines without a readable image."""
        if self._broken:
            raise DataError(
                f"{counted(self._broken, 'line')} got no translation; the messages above say why"
            )

    def _read(self, line: str) -> tuple[np.ndarray, str]:
        """Return the image of a line in the model's size, and its sentence."""
        name, tab, sentence = line.partition("\t")
        if not tab:
            raise DataError(f"expected `image<TAB>sentence`, found {line[:60]!r}")
        fitting = self._places.find(name)
        if len(fitting) != 1:
            several = f"{len(fitting)} images end so; give the folder too"
            raise DataError(
                f"{name!r}: {several if fitting else 'no such image'} in {self._folders}"
            )
        return fitting[0].decoded(self._translator.image_size), sentence


def text_evaluation(
    form: CaptionFormat,
    bundle: Path,
    images: Sequence[str],
    files: Sequence[str],
    *,
    metrics: str | None,
    tokenize: str | None,
    jsonl: bool,
    device: str,
    threads: int | None,
    **flags: Any,
) -> str:
    """Return the scores of a model on images with text; `flags` are those of the search.

    Of pairs, a second system gets shuffled images.
    """
    names = metric_names(metrics or "bleu,chrf", tokenize)
    kind = MultimodalTranslator if form == PAIRS else ImageCaptioner
    pipeline: ImageTextPipeline = load_as(kind, bundle, device, threads)
    decode = search_settings(pipeline.bundle.config.decode, False, flags, None)
    found = read_caption_set(images, files, pipeline.image_size, kind=form)
    for line in found.messages():
        note(line)
    say_if_seen([bundle], files)
    say_if_tokenised(found.texts, ", ".join(files), names, tokenize)
    systems, noun = {"right images": found}, "images"
    if form == PAIRS:
        noun, systems["shuffled images"] = "sentences", found.beside(other_images(found.rows))
    total = len(found.inputs)
    texts: dict[str, Sequence[str]] = {}
    with answering(len(systems) * total, noun, SCORES_FOLLOW) as advance:
        for number, (name, each) in enumerate(systems.items()):
            progress = partial(advance, number * total, total)
            texts[name] = pipeline.texts(each, decode=decode, progress=progress)
    if form == PAIRS:
        compared = compare(texts, found.texts, names, tokenize)
        return scores_jsonl(compared) if jsonl else comparison_table(compared)
    scores = caption_scores(texts["right images"], found.references(), names, tokenize)
    return scores_jsonl(scores) if jsonl else scores_table(scores)
