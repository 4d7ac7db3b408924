"""The verb `attention`, which draws attention weights."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from crosshead.cli.app import app
from crosshead.cli.options import BundleArgument, DeviceOption, ToOption
from crosshead.cli.terminal import put


@app.command(
    epilog="\b\nExamples:\n"
    "  crosshead attention runs/en-de 'A dog runs.' --out attention.png\n"
    "  crosshead attention runs/en-de 'A dog runs.' --layer 2 --head 1 --out head.pdf\n"
    "  crosshead attention runs/en-de 'A dog runs.' --kind encoder --out encoder.svg\n"
    "  crosshead attention runs/shakespeare 'ROMEO: what light' --layer 1 --out text.png\n"
    "  crosshead attention runs/photos cat.jpg --kind rollout --out cat.png"
)
def attention(
    bundle: BundleArgument,
    text: Annotated[
        str,
        typer.Argument(
            metavar="TEXT",
            help="Sentence to translate, text to read, or the file of an image to classify or "
            "describe. For a model that translates beside images: the file of an image, a tab and "
            "the sentence.",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(metavar="F", help="Picture to write. Its name ends in .png, .pdf or .svg."),
    ],
    target: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="Translation whose attention is drawn (default: the model's own)."
        ),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            metavar="K",
            help="Kind of attention: cross, encoder or decoder; the last two are self-attention "
            "(default: cross, or the model's only kind). For an image: encoder, or rollout, which "
            "joins all layers (Abnar and Zuidema 2020). For a sentence beside an image: "
            "also image, from the sentence to the patches.",
        ),
    ] = None,
    layer: Annotated[
        int | None,
        typer.Option(metavar="L", help="Layer to draw, counted from 1 (default: all layers)."),
    ] = None,
    head: Annotated[
        int | None,
        typer.Option(metavar="H", help="Head to draw, counted from 1 (default: all heads)."),
    ] = None,
    scale: Annotated[
        Literal["one", "max", "row"],
        typer.Option(
            show_default=False,
            help="What has the darkest colour: the weight 1 (one), the largest weight of a map "
            "(max), or the largest of each row (row). Long texts have small weights (default: "
            "one).",
        ),
    ] = "one",
    to: ToOption = None,
    device: DeviceOption = "auto",
) -> None:
    """Draw the attention weights of a model on a text.

    The picture is a grid of all heads of all layers. With --layer and --head it shows one large
    head with its values. Rows are queries (the positions that attend), columns are keys (the
    positions they attend to). For a model of monolingual text, \\n in TEXT is a line break and
    [MASK] a masked token.

    For a classifier of images the picture shows the image, and over it the weights of the class
    token for the patches of the image, or without a class token the mean over all patches.
    """
    from crosshead.cli.arguments import check_outputs, into
    from crosshead.errors import ConfigError
    from crosshead.inspection.drawing import check_picture, draw_attention_of
    from crosshead.tasks.loading import load
    from crosshead.tasks.translation.translator import Translator

    check_picture(out)
    check_outputs({"--out": out}, [text.partition("\t")[0]], bundle)
    pipeline = load(bundle, device)
    if to is not None and not isinstance(pipeline, Translator):
        raise ConfigError(f"--to is for models that translate text; this one {pipeline.does}")
    if isinstance(pipeline, Translator):
        pipeline = into(pipeline, to)
    else:
        text = text.replace("\\n", "\n")
    drawn = draw_attention_of(
        pipeline, text, out, target=target, kind=kind, layer=layer, head=head, scale=scale
    )
    put(f"{drawn}: {out}\n")
