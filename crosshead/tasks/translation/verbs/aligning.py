"""The verb `align`, which links the words of pairs."""

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
from crosshead.cli.terminal import note, put


@app.command(
    epilog="\b\nExamples:\n"
    "  crosshead align runs/en-de --source test.en --target test.de > links\n"
    "  crosshead align runs/en-de --source test.en --target test.de --gold test.links"
)
def align(
    bundle: BundleArgument,
    source: SourceOption,
    target: Annotated[
        Path, typer.Option(metavar="F", help="File of translations, one per source line.")
    ],
    gold: Annotated[
        Path | None,
        typer.Option(
            metavar="F",
            help="File of right links, a line for each pair: 0-0 is sure, and 1?2 is possible. The "
            "alignment error rate is printed at the end.",
        ),
    ] = None,
    symmetry: Annotated[
        Literal["intersection", "grow-diag"],
        typer.Option(
            show_default=False,
            help="Links that count: those of both directions, or also neighbours of them that one "
            "direction has (default: grow-diag).",
        ),
    ] = "grow-diag",
    to: ToOption = None,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
) -> None:
    """Print which words of each pair translate each other.

    A line has links such as 0-0 1-2: the number of a source word, and that of a target word. Words
    are what spaces separate, and count from 0. The links are those of the model's attention to the
    source: of the head that guided alignment has taught, or the mean of the heads in the last layer
    but one.
    """
    from crosshead.cli import arguments
    from crosshead.tasks.loading import load_as
    from crosshead.tasks.translation import word_alignment
    from crosshead.tasks.translation.translator import Translator
    from crosshead.text.parallel.corpora import read_aligned

    right = None
    if gold is not None:
        sources, lines = read_aligned(source, gold)
        right = word_alignment.read_gold(lines, str(gold))
    sources, targets = read_aligned(source, target)
    if right is not None:
        word_alignment.check_gold(right, sources, targets, str(gold))
    translator = arguments.into(load_as(Translator, bundle, device, threads), to)
    found = []
    for links in word_alignment.alignments(translator, sources, targets, symmetry):
        put(word_alignment.pharaoh(links) + "\n")
        found.append(links)
    if right is not None:
        note(f"alignment error rate {word_alignment.error_rate(found, right):.4f}")
