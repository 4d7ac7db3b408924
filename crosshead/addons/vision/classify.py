"""The verb `classify`, and the part of `evaluate` for images."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crosshead.cli.app import app
from crosshead.cli.options import (
    BundleArgument,
    DeviceOption,
    JsonlOption,
    ThreadsOption,
    count_option,
)
from crosshead.cli.terminal import json_line, note, put, table

if TYPE_CHECKING:
    from crosshead.addons.vision.scores import ClassScores

MOST_CONFUSIONS = 20
"""The largest number of listed confusions: they fit on a screen. JSON Lines have all."""


@app.command(
    epilog="\b\nExamples:\n"
    "  crosshead classify runs/photos cat.jpg dog.png\n"
    "  crosshead classify runs/photos new/*.jpg --top 1 --jsonl"
)
def classify(
    bundle: BundleArgument,
    images: Annotated[
        list[Path],
        typer.Argument(
            metavar="IMAGE...",
            help="Files of images: JPEG, PNG, GIF, WebP, TIFF, BMP, PPM or JPEG 2000.",
        ),
    ],
    top: Annotated[
        int, count_option("Number of classes to print for each image (default: 5).")
    ] = 5,
    jsonl: JsonlOption = False,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
) -> None:
    """Print the most probable classes of images.

    The command prints a line for each image: its file, and the classes with their probabilities,
    the best first. A file that is no whole image gets a message instead, and with --jsonl a line
    with the key `error`. The other files are still classified, and the command then exits with 2.
    """
    from crosshead.addons.vision.image_classifier import BATCH, ImageClassifier
    from crosshead.tasks.loading import load_as

    classifier = load_as(ImageClassifier, bundle, device, threads)
    is_any_broken = False
    for first in range(0, len(images), BATCH):
        some = images[first : first + BATCH]
        read, broken = classifier.whole_images(some)
        for error in broken.values():
            note(f"error: {error}")
        is_any_broken |= bool(broken)
        best = dict(zip(read, classifier([*read.values()], top), strict=True))
        put("".join(_answer(path, best.get(path), broken.get(path), jsonl) for path in some))
    if is_any_broken:
        raise typer.Exit(2)


def _answer(
    path: Path, best: list[tuple[str, float]] | None, error: str | None, jsonl: bool
) -> str:
    """Return a line with the classes of an image, or with the error in JSON."""
    if best is None:
        return json_line({"image": str(path), "error": error}) if jsonl else ""
    if jsonl:
        classes = [{"class": name, "probability": share} for name, share in best]
        return json_line({"image": str(path), "classes": classes})
    return f"{path}\t{', '.join(f'{name} {share:.3f}' for name, share in best)}\n"


def image_evaluation(
    bundle: Path, images: Path, *, jsonl: bool, device: str, threads: int | None
) -> str:
    """Return the scores of a classifier on the images of a folder or archive."""
    from crosshead.addons.vision.data.labelled_images import (
        images_sha256,
        read_labelled,
        scored_images,
    )
    from crosshead.addons.vision.image_classifier import ImageClassifier
    from crosshead.addons.vision.scores import classification_scores
    from crosshead.cli.evaluation import SEEN, on_card
    from crosshead.cli.terminal import answering
    from crosshead.system.progress import left_out
    from crosshead.tasks.loading import load_as

    classifier = load_as(ImageClassifier, bundle, device, threads)
    found, split = scored_images(images)
    whole, broken = read_labelled(found, classifier.classes, classifier.image_size, note)
    if broken:
        note(left_out(broken, "broken image"))
    if split == "all" and on_card(bundle, images_sha256(images, [whole])):
        note(f"{images}: {SEEN}, such as a folder test beside the folder train")
    with answering(len(whole), "images") as advance:
        progress = partial(advance, 0, len(whole))
        scores = classification_scores(classifier, whole, split, progress=progress)
        progress(1.0)
    return confusions_jsonl(scores) if jsonl else confusions_table(scores)


def confusions_table(found: "ClassScores") -> str:
    """Return the scores, and the most frequent confusions."""
    from crosshead.cli.evaluation import scores_table

    worst = [[a, b, str(images)] for a, b, images in found.confused()[:MOST_CONFUSIONS]]
    rows = table([["class", "taken for", "images"], *worst], numbers=1)
    return f"{scores_table(found.scores)}\n{rows}"


def confusions_jsonl(found: "ClassScores") -> str:
    """Return scores as JSON Lines, then a line for each class with the numbers of predictions."""
    from crosshead.cli.evaluation import scores_jsonl

    lines = [
        json_line({"class": name, "predicted": dict(zip(found.classes, row, strict=True))})
        for name, row in zip(found.classes, found.counts.tolist(), strict=True)
    ]
    return scores_jsonl(found.scores) + "".join(lines)
