"""The verbs `attention`, which draws attention weights, and `heads`, which measures heads."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from crosshead.cli.app import app
from crosshead.cli.options import (
    BundleArgument,
    DeviceOption,
    SourceOption,
    ThreadsOption,
    ToOption,
)
from crosshead.cli.terminal import put, table


@app.command(
    epilog="\b\nExamples:\n"
    "  crosshead attention runs/en-de 'A dog runs.' --out attention.png\n"
    "  crosshead attention runs/en-de 'A dog runs.' --out attention.html\n"
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
        typer.Option(
            metavar="F",
            help="Picture to write. Its name ends in .png, .pdf or .svg, or in .html for a page "
            "that shows every head.",
        ),
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
    from crosshead.inspection.drawing import PAGE, check_picture, draw_attention_of
    from crosshead.tasks.loading import load
    from crosshead.tasks.translation.translator import Translator

    check_picture(out, PAGE)
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


@app.command(
    epilog="\b\nExamples:\n"
    "  crosshead heads runs/en-de --source valid.en --target valid.de\n"
    "  crosshead heads runs/en-de --source valid.en --target valid.de --bleu --plot heads.png"
)
def heads(
    bundle: BundleArgument,
    source: SourceOption,
    target: Annotated[
        Path, typer.Option(metavar="F", help="File of translations, one per source line.")
    ],
    bleu: Annotated[
        bool, typer.Option("--bleu", help="Measure BLEU as well: translate without each head.")
    ] = False,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="F", help="Picture to write. Its name ends in .png, .pdf or .svg."),
    ] = None,
    to: ToOption = None,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
) -> None:
    """Measure what each attention head does on a file.

    The table has the mean entropy of its weights in nats, their mean distance in positions, and
    what the loss in nats a piece gains, or BLEU loses, if the head adds nothing.
    """
    from crosshead.cli.arguments import check_outputs, into
    from crosshead.inspection.drawing import check_picture
    from crosshead.inspection.head_measures import draw_heads, measure_heads
    from crosshead.tasks.loading import load_as
    from crosshead.tasks.translation.translator import Translator
    from crosshead.text.parallel.corpora import read_aligned

    if plot is not None:
        check_picture(plot)
    check_outputs({"--plot": plot}, [source, target], bundle)
    translator = into(load_as(Translator, bundle, device, threads), to)
    sources, targets = read_aligned(source, target)
    found = [*measure_heads(translator, sources, targets, scored=bleu)]
    names = ("kind", "layer", "head", "entropy", "distance", "loss", *["bleu"] * bleu)
    rows = [
        [each.kind, str(each.layer), str(each.head)]
        + [f"{getattr(each, name):.3f}" for name in names[3:]]
        for each in found
    ]
    put(table([names, *rows], len(names) - 1))
    if plot is not None:
        draw_heads(found, path=plot)
