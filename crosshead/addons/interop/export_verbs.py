"""The verb `export`, which writes a model in the format of another library."""

from pathlib import Path
from typing import Annotated

import typer

from crosshead.cli.app import app
from crosshead.cli.options import BundleArgument
from crosshead.cli.terminal import put, table


@app.command(
    epilog="\b\nExamples:\n"
    "  crosshead export runs/en-de --to ctranslate2 --out en-de-ct2\n"
    "  crosshead export runs/en-de --to ctranslate2 --type int8 --out en-de-int8 \\\n"
    "    --valid-source val.en\n"
    "  crosshead export runs/en-de --to argos --out en-de.argosmodel\n"
    "  crosshead export runs/en-de --to onnx --out en-de-onnx"
)
def export(
    bundle: BundleArgument,
    to: Annotated[
        str,
        typer.Option(
            metavar="FORMAT",
            help="Format to write: ctranslate2, argos, huggingface or onnx.",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(metavar="PATH", help="Directory to write, or file NAME.argosmodel for argos."),
    ],
    kind: Annotated[
        str | None,
        typer.Option(
            "--type",
            metavar="T",
            help="Number format of the weights: float32, int8, int8_float32, int16, float16 or "
            "bfloat16 (default: float32). int8 is the smallest; int8_float32 gives the "
            "same file. onnx has float32 and int8, huggingface has float32 alone.",
        ),
    ] = None,
    valid_source: Annotated[
        Path | None,
        typer.Option(
            metavar="F",
            help="Source lines on which the export is compared with the model, or lines of text "
            "for a language model (default: lines made up from the vocabulary). The first 200 are "
            "used.",
        ),
    ] = None,
    source_language: Annotated[
        str | None,
        typer.Option(
            metavar="L",
            help="Code of the source language, such as en, if the bundle does not say it. argos "
            "needs both languages.",
        ),
    ] = None,
    target_language: Annotated[
        str | None,
        typer.Option(metavar="L", help="Code of the target language, likewise."),
    ] = None,
    no_verify: Annotated[
        bool,
        typer.Option(
            "--no-verify",
            help="Write the export without loading it with its library and without comparing it.",
        ),
    ] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Replace an earlier export at PATH. Nothing else is replaced."
        ),
    ] = False,
) -> None:
    """Write a model in the format of another library, such as CTranslate2 or Argos.

    The command loads the export with that library and compares it with the model: the
    log-probability of every token, and the translations. An export that differs is an error,
    and nothing is written. What a format cannot express is refused before anything is written.

    Every directory has a README with the program that uses it. A translation model has all formats.
    A language model has ctranslate2 and huggingface (GPT-2).
    """
    from crosshead.addons.interop.export import export as export_bundle
    from crosshead.system.lines import read_lines
    from crosshead.tasks.registry import load_bundle

    done = export_bundle(
        load_bundle(bundle),
        to,
        out,
        kind=kind,
        sources=None if valid_source is None else read_lines(valid_source),
        verify=not no_verify,
        force=force,
        source=bundle,
        source_language=source_language,
        target_language=target_language,
    )
    rows = [
        ["export", f"{done.path}, {done.form} {done.kind}, {done.size / 1e6:.1f} MB"],
        ["search", str(done.search)],
        ["verified", "no" if done.comparison is None else str(done.comparison)],
    ]
    put(table(rows))
