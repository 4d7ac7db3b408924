"""The verb `classify`."""

from pathlib import Path
from typing import Annotated

import typer

from crosshead.cli.app import app
from crosshead.cli.options import BundleArgument, DeviceOption, JsonlOption, ThreadsOption
from crosshead.cli.terminal import json_line, note, put


@app.command(
    epilog="\b\nExamples:\n"
    "  crosshead classify runs/photos cat.jpg dog.png\n"
    "  crosshead classify runs/photos new/*.jpg --top 1 --jsonl"
)
def classify(
    bundle: BundleArgument,
    images: Annotated[
        list[Path],
        typer.Argument(metavar="IMAGE...", help="Files of images, in any format of Pillow."),
    ],
    top: Annotated[
        int,
        typer.Option(metavar="N", min=1, help="Number of classes to print for each image."),
    ] = 5,
    jsonl: JsonlOption = False,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
) -> None:
    """Print the most probable classes of images.

    The command prints a line for each image: its file, and the classes with their probabilities,
    the best first. A file that is no whole image gets a message instead. The other files are still
    classified, and the command then exits with 2.
    """
    import numpy as np

    from crosshead.errors import DataError
    from crosshead.pipelines.image_classifier import BATCH, ImageClassifier
    from crosshead.tasks.loading import load_as

    classifier = load_as(ImageClassifier, bundle, device, threads)
    failed = False
    for first in range(0, len(images), BATCH):
        read: list[tuple[Path, np.ndarray]] = []
        for path in images[first : first + BATCH]:
            try:
                read.append((path, classifier.pixels(path)))
            except DataError as error:
                note(f"error: {error}")
                failed = True
        answers = classifier([pixels for _, pixels in read], top)
        for (path, _), best in zip(read, answers, strict=True):
            put(_answer(path, best, jsonl))
    if failed:
        raise typer.Exit(2)


def _answer(path: Path, best: list[tuple[str, float]], jsonl: bool) -> str:
    """Return a line with the classes of an image."""
    if jsonl:
        classes = [{"class": name, "probability": share} for name, share in best]
        return json_line({"image": str(path), "classes": classes})
    return f"{path}\t{', '.join(f'{name} {share:.3f}' for name, share in best)}\n"
