"""The verb `import`."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from crosshead.cli.app import app
from crosshead.cli.terminal import note, put, table


@app.command(
    "import",
    epilog="\b\nExamples:\n  crosshead import opus-mt-en-de --out models/en-de\n"
    "  crosshead translate models/en-de input.txt\n"
    "  crosshead import gpt2 --out models/gpt2\n"
    "  crosshead generate models/gpt2 --prompt 'Once upon a time'\n"
    "  crosshead import hf://Helsinki-NLP/opus-mt-en-de --out models/opus-en-de\n"
    "  crosshead train --from models/en-de --source train.en --target train.de --out runs/tuned",
)
def import_command(
    path: Annotated[
        str,  # a path would turn hf:// into hf:/
        typer.Argument(
            metavar="PATH",
            help="Model of another toolkit: a directory, a zip archive of one, a package of Argos "
            "Translate, or hf://ORG/NAME.",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(metavar="DIR", help="Directory of the new bundle; it must be new or empty."),
    ],
    kind: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            help="Kind of model, if its files do not show it: huggingface, marian, "
            "ctranslate2 or argos (default: recognised by the files).",
        ),
    ] = None,
    source_language: Annotated[
        str | None,
        typer.Option(
            metavar="CODE",
            help="Language code of the sources, such as en, for the bundle, its card and its "
            "exports (default: from the files or the name of the model).",
        ),
    ] = None,
    target_language: Annotated[
        str | None,
        typer.Option(
            metavar="CODE",
            help="Language code of the targets, such as de, for the bundle, its card and its "
            "exports (default: from the files or the name of the model).",
        ),
    ] = None,
) -> None:
    """Turn a model of another toolkit into a bundle.

    The bundle gives the same output as the toolkit. You can translate with the bundle, or continue
    text if it is a GPT-2. You can also score, inspect, fine-tune and export it. A setting of the
    model that crosshead cannot express is refused by its name. A note names each setting of the
    search that does not come along.
    """
    from crosshead.addons.interop.imports.writing import import_to

    imported = import_to(
        path,
        out,
        kind,
        shlex.join(["crosshead", *sys.argv[1:]]),
        source_language=source_language,
        target_language=target_language,
    )
    for line in imported.notes:
        note(line)
    config = imported.bundle.config
    assert config.origin is not None
    rows = [
        ["bundle", str(out)],
        ["imported from", f"{config.origin.name} ({config.origin.kind})"],
        ["model", f"{config.model.architecture}, {config.model.shape()}"],
    ]
    if config.source_language and config.target_language:
        rows.append(["languages", f"{config.source_language} to {config.target_language}"])
    if config.license:
        rows.append(["licence", f"{config.license}, by the card of the model"])
    put(table(rows))
