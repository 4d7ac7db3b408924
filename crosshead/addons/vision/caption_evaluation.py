"""The scores of a captioner on images with captions."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from crosshead.addons.vision.caption_pipeline import ImageCaptioner
from crosshead.addons.vision.caption_scores import caption_scores
from crosshead.addons.vision.data.caption_sets import read_caption_set
from crosshead.cli.answers import answering
from crosshead.cli.evaluation import SCORES_FOLLOW, say_if_tokenised
from crosshead.cli.search_flags import search_settings
from crosshead.cli.seen_data import say_if_seen
from crosshead.cli.terminal import note
from crosshead.evaluation.bootstrap import CorpusScore
from crosshead.tasks.loading import load_as


def caption_evaluation(
    bundle: Path,
    images: Sequence[str],
    captions: Sequence[str],
    metrics: Sequence[str],
    tokenize: str | None,
    flags: Mapping[str, Any],
    device: str,
    threads: int | None,
) -> list[CorpusScore]:
    """Return the scores of a captioner on images with captions."""
    captioner = load_as(ImageCaptioner, bundle, device, threads)
    decode = search_settings(captioner.bundle.config.decode, False, flags, None)
    found = read_caption_set(images, captions, captioner.bundle.config.image_size)
    for line in found.left_out.described().lines():
        note(line)
    say_if_seen([bundle], captions)
    say_if_tokenised(found.texts, ", ".join(captions), metrics, tokenize)
    with answering(len(found.names), "images", SCORES_FOLLOW) as advance:
        best = captioner.search(
            found.pixels, decode, progress=partial(advance, 0, len(found.names))
        )
    texts = [each[0].text for each in best]
    return caption_scores(texts, found.references(), metrics, tokenize)
