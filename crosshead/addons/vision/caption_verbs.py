"""The verb `caption`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from crosshead.cli.app import app
from crosshead.cli.options import (
    BeamOption,
    BundleArgument,
    DeviceOption,
    JsonlOption,
    PenaltyOption,
    ThreadsOption,
)
from crosshead.cli.terminal import json_line, note, open_output
from crosshead.tasks.translation.verbs.translate import OutputOption


@app.command(
    epilog="\b\nExamples:\n"
    "  crosshead caption runs/scenes image.png\n"
    "  crosshead caption runs/scenes photos/*.jpg --jsonl --output captions.jsonl"
)
def caption(
    bundle: BundleArgument,
    images: Annotated[list[Path], typer.Argument(metavar="IMAGE", help="Image files to describe.")],
    beam: BeamOption = None,
    length_penalty: PenaltyOption = None,
    output: OutputOption = None,
    jsonl: JsonlOption = False,
    n_best: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            max=1000,
            help="Number of captions per image, as `image ||| caption ||| score` (default: only "
            "the best one, as text). The beam must be at least as large.",
        ),
    ] = None,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
) -> None:
    """Write a caption of each image.

    The command prints one line per image, in order. With --jsonl a line also has the image and the
    score, and with --n-best each caption has a line. An image that cannot be read is named on
    standard error and makes the exit code 2 at the end. Its line is empty, or with --jsonl it has
    the key `error`.
    """
    from crosshead.addons.vision.caption_pipeline import ImageCaptioner
    from crosshead.cli.arguments import check_outputs, search_settings
    from crosshead.tasks.loading import load_as

    check_outputs({"--output": output}, images, bundle)
    captioner = load_as(ImageCaptioner, bundle, device, threads)
    flags = {"beam": beam, "length_penalty": length_penalty}
    decode = search_settings(captioner.bundle.config.decode, False, flags, n_best)
    read, broken = captioner.whole_images(images)
    for error in broken.values():
        note(f"error: {error}")
    captions = captioner.caption([*read.values()], decode=decode, n_best=n_best or 1)
    found = dict(zip(read, captions, strict=True))

    def lines(image: Path) -> Iterator[str]:
        for each in found.get(image, []):
            if jsonl:
                score = round(each.score, 4)
                yield json_line({"image": str(image), "caption": each.text, "score": score})
            elif n_best:
                yield f"{image} ||| {each.text} ||| {each.score:.4f}\n"
            else:
                yield f"{each.text}\n"
        if image in broken:
            yield json_line({"image": str(image), "error": broken[image]}) if jsonl else "\n"

    text = "".join(line for image in images for line in lines(image))
    with open_output(output) as write:
        write(text.encode(errors="backslashreplace"))
    if broken:
        raise typer.Exit(2)
