"""The verb `caption`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crosshead.addons.vision.image_files import in_order, whole_images
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

if TYPE_CHECKING:
    from crosshead.addons.vision.caption_pipeline import ImageCaption


@app.command(
    epilog="\b\nExamples:\n"
    "  crosshead caption runs/scenes image.png\n"
    "  crosshead caption runs/scenes photos/*.jpg --jsonl --output captions.jsonl\n"
    "  crosshead caption runs/scenes a.png b.png --plot sheet.png --layer 2 --head 1"
)
def caption(
    bundle: BundleArgument,
    images: Annotated[list[Path], typer.Argument(metavar="IMAGE", help="Image files to describe.")],
    beam: BeamOption = None,
    length_penalty: PenaltyOption = None,
    output: Annotated[
        Path | None,
        typer.Option(metavar="F", help="File to write (default: standard output)."),
    ] = None,
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
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="PICTURE",
            help="Draw each image with one map of the cross-attention per word into this .png, "
            ".svg or .pdf.",
        ),
    ] = None,
    layer: Annotated[
        int | None,
        typer.Option(
            metavar="L",
            help="Layer of --plot, counted from 1 (default: the mean over all layers).",
        ),
    ] = None,
    head: Annotated[
        int | None,
        typer.Option(
            metavar="H", help="Head of --plot, counted from 1 (default: the mean over all heads)."
        ),
    ] = None,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
) -> None:
    """Write a caption of each image.

    The command prints one line per image, in order. With --jsonl a line also has the image and the
    score, and with --n-best each caption has a line. An image that cannot be read is named on
    standard error and makes the exit code 2 at the end. Its line is empty, or with --jsonl it has
    the key `error`. An image with an empty caption is named there too.
    """
    from crosshead.addons.vision.caption_maps import draw_word_maps, word_maps
    from crosshead.addons.vision.caption_pipeline import ImageCaptioner
    from crosshead.addons.vision.models.captioner import CaptionerConfig
    from crosshead.cli.arguments import check_outputs
    from crosshead.cli.search_flags import search_settings
    from crosshead.errors import DataError, UserError
    from crosshead.inspection.drawing import check_picture
    from crosshead.inspection.record import check_numbered
    from crosshead.system.progress import counted
    from crosshead.tasks.loading import load_as

    if plot is not None:
        check_picture(plot)
    elif layer is not None or head is not None:
        raise UserError(
            "--layer and --head choose what --plot draws; give --plot, or leave them out"
        )
    check_outputs({"--output": output, "--plot": plot}, images, bundle)
    captioner = load_as(ImageCaptioner, bundle, device, threads)
    stack = captioner.bundle.config.model
    assert isinstance(stack, CaptionerConfig)
    if layer is not None:
        check_numbered("layer", layer, stack.decoder_layers, "cross")
    if head is not None:
        check_numbered("head", head, stack.heads, "cross")
    flags = {"beam": beam, "length_penalty": length_penalty}
    decode = search_settings(captioner.bundle.config.decode, False, flags, n_best)
    read, broken = whole_images(images, captioner.pixels)
    found = captioner.caption([pixels for _, pixels in read], decode=decode, n_best=n_best or 1)

    def line(image: Path, found: "ImageCaption") -> str:
        if jsonl:
            score = round(found.score, 4)
            return json_line({"image": str(image), "caption": found.text, "score": score})
        listed = f"{image} ||| {found.text} ||| {found.score:.4f}\n"
        return f"{found.text}\n" if n_best is None else listed

    rows = {
        image: "".join(line(image, each) for each in best)
        for (image, _), best in zip(read, found, strict=True)
    }
    lines = in_order(images, rows, broken) if jsonl else [rows.get(each, "\n") for each in images]
    with open_output(output) as write:
        write("".join(lines).encode(errors="backslashreplace"))
    empty = [
        str(file)
        for (file, _), best in zip(read, found, strict=True)
        if not any(each.text.strip() for each in best)
    ]
    if empty and not jsonl:
        names = ", ".join(empty)
        note(f"{counted(len(empty), 'image')} got an empty caption: {names}")
    if plot is not None and read:
        maps = [
            word_maps(captioner, pixels, best.text)
            for (_, pixels), (best, *_) in zip(read, found, strict=True)
            if best.text.split()
        ]
        if maps:
            draw_word_maps(maps, layer=layer, head=head, path=plot)
        else:
            note(f"{plot}: not drawn, because the captions have no words")
    if broken and len(images) == 1:
        raise typer.Exit(2)  # the message says it all
    if broken:
        raise DataError(f"{len(broken):,} of {len(images):,} images could not be read")
