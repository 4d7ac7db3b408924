"""The verb `fill`."""

import dataclasses
from typing import TYPE_CHECKING, Annotated

import typer

from crosshead.cli.app import app
from crosshead.cli.options import (
    BundleArgument,
    DeviceOption,
    JsonlOption,
    PrecisionOption,
    ThreadsOption,
    count_option,
)
from crosshead.cli.terminal import json_line, put_bytes, table

if TYPE_CHECKING:
    from crosshead.tasks.masked.mask_filler import MaskFiller


@app.command(
    epilog="\b\nExamples:\n"
    "  crosshead fill runs/masked 'A man [MASK] a horse.'\n"
    "  crosshead fill runs/masked 'A man [MASK] a [MASK].' --top 5"
)
def fill(
    bundle: BundleArgument,
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help="Text with [MASK] for each masked token.")
    ],
    top: Annotated[
        int | None, count_option("Number of candidates to list for each [MASK] (default: none).")
    ] = None,
    jsonl: JsonlOption = False,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
    precision: PrecisionOption = "float32",
) -> None:
    """Fill in the masked tokens of a text.

    This needs a model trained with --text and --model encoder. Each [MASK] stands for one token: a
    word or a part of a word, depending on the tokenizer. The model fills the [MASK] it is most
    certain of first, then predicts the others again. In TEXT, \\n is a line break.
    """
    from crosshead.tasks.loading import load_as
    from crosshead.tasks.masked.mask_filler import MaskFiller

    filler = load_as(MaskFiller, bundle, device, threads, precision)
    put_bytes(_filled(filler, text, top, jsonl).encode(errors="backslashreplace"))


def _filled(filler: "MaskFiller", text: str, top: int | None, jsonl: bool) -> str:
    """Return the output of `fill`: the filled text and, with `top`, each mask's candidates."""
    from crosshead.tasks.masked.mask_filler import MARK

    found = filler.fill(text.replace("\\n", "\n"), 1 if top is None else top)
    if jsonl:
        return json_line(dataclasses.asdict(found))
    lines = found.text + "\n"
    for number, candidates in enumerate(found.candidates if top else [], 1):
        rows = [[f"{MARK} {number}", "probability"]]
        rows += [[_shown(each.piece), f"{each.probability:.4f}"] for each in candidates]
        lines += "\n" + table(rows, numbers=1)
    return lines


def _shown(piece: str) -> str:
    """Return a piece for a table; the word between two adjacent spaces is empty."""
    return repr(piece)[1:-1] or "(empty word)"
