"""The verb `translate`."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from crosshead.cli.app import app
from crosshead.cli.options import (
    BeamOption,
    BundleArgument,
    DeviceOption,
    JsonlOption,
    PenaltyOption,
    PrecisionOption,
    ThreadsOption,
    ToOption,
)
from crosshead.cli.terminal import note, open_output, watched
from crosshead.errors import DataError, UserError
from crosshead.system.kinds import check_sentences, check_text, head_of, kind_of
from crosshead.system.pipes import count_lines, read_document, read_groups

if TYPE_CHECKING:
    from crosshead.text.documents.document import Document

Format = Literal["lines", "text", "markdown", "html", "srt"]
"""The formats of what is translated: lines, or one document."""

MoreArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="BUNDLE|FILE",
        show_default=False,
        help="More models of an ensemble, then the file to translate: one sentence per line, or a "
        "document in Markdown (.md), HTML (.html) or SubRip (.srt). A .gz file is unpacked "
        "(default: -, standard input).",
    ),
]
ImagesOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATH",
        help="Folder or zip archive of images, for a model that translates beside images: the "
        "lines are then `image<TAB>sentence`. Repeat it for more images.",
    ),
]
FormatOption = Annotated[
    Format | None,
    typer.Option(
        "--format",
        show_default=False,
        help="Format of the input (default: markdown, html or srt for a file whose name ends in "
        ".md, .html or .srt, else what its content shows). All but lines are documents: their "
        "sentences are translated, and their markup stays. text is lines of several sentences.",
    ),
]
OutputOption = Annotated[
    Path | None,
    typer.Option(
        metavar="F",
        help="File to write (default: standard output). The file appears only when it is complete.",
    ),
]
NBestOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        max=1000,
        help="Number of translations per line, as `number ||| text ||| score` (default: only "
        "the best one, as text). The beam, or the number of --mbr, must be at least as large.",
    ),
]
SampleOption = Annotated[
    bool,
    typer.Option(
        "--sample",
        help="Sample translations instead of searching for the most probable one.",
    ),
]
MbrOption = Annotated[
    int | None,
    typer.Option(
        "--mbr",
        metavar="N",
        min=1,
        max=1000,
        help="Draw N samples of each line, and print the one that is most like all of them by "
        "chrF: minimum Bayes risk (default: off). 32 is a start; more are better and slower. The "
        "score is the mean chrF.",
    ),
]
TemperatureOption = Annotated[
    float | None,
    typer.Option(
        metavar="T",
        help="Sampling temperature: below 1 is more conservative, above 1 more varied "
        "(default: the bundle's, usually 1; for sampling).",
    ),
]
TopKOption = Annotated[
    int | None,
    typer.Option(
        metavar="K",
        help="Sample from the K most probable tokens only; 0 is no limit (default: the "
        "bundle's, usually 0; for sampling).",
    ),
]
TopPOption = Annotated[
    float | None,
    typer.Option(
        metavar="P",
        help="Sample from the smallest set of tokens with this total probability, above 0 and "
        "up to 1 (default: the bundle's, usually 1; for sampling).",
    ),
]
SeedOption = Annotated[
    int | None,
    typer.Option(
        metavar="S",
        help="Random seed of the samples (default: the bundle's, usually 1; for sampling). "
        "The same seed gives the same translations.",
    ),
]
ScoresOption = Annotated[
    bool,
    typer.Option("--scores", help="Print each translation with its score, as `text<TAB>score`."),
]
BatchTokensOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=64,
        help="Number of source tokens decoded at once, padding counted (default: the bundle's, "
        "usually 4096). Lower it if memory runs out. A longer sentence is decoded alone.",
    ),
]


@app.command(
    epilog="\b\nExamples:\n"
    "  crosshead translate runs/en-de input.txt --output output.txt\n"
    '  echo "A dog runs." | crosshead translate runs/en-de --beam 5\n'
    "  crosshead translate runs/en-de input.txt --n-best 3\n"
    "  crosshead translate runs/en-de input.txt --mbr 32 --temperature 0.7\n"
    "  crosshead translate runs/first runs/second runs/third input.txt\n"
    "  crosshead translate runs/both input.txt --to de\n"
    "  crosshead translate runs/en-de page.html --output seite.html\n"
    "  crosshead translate runs/signs input.tsv --images photos.zip"
)
def translate(
    bundle: BundleArgument,
    more: MoreArgument = None,
    to: ToOption = None,
    kind: FormatOption = None,
    images: ImagesOption = None,
    output: OutputOption = None,
    beam: BeamOption = None,
    length_penalty: PenaltyOption = None,
    n_best: NBestOption = None,
    sample: SampleOption = False,
    mbr: MbrOption = None,
    temperature: TemperatureOption = None,
    top_k: TopKOption = None,
    top_p: TopPOption = None,
    seed: SeedOption = None,
    scores: ScoresOption = False,
    jsonl: JsonlOption = False,
    batch_tokens: BatchTokensOption = None,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
    precision: PrecisionOption = "float32",
) -> None:
    """Translate lines of text, or a document.

    The command prints one line for each input line, in order, and an empty line for an empty one.
    Lines from a pipe are translated as they arrive. The bundle holds the default search settings.
    A score is the log-probability divided by the length penalty, or with --mbr the mean chrF. A
    line that is too long for the model is split at the ends of sentences, with a warning.

    Several bundles are an ensemble: each token has the mean of the models' probabilities. Their
    tokenizers must be the same, and the first one gives the search settings. The last argument is
    the file, unless it is a directory or a packed bundle.

    At the end, one warning counts the odd lines: lines unlike the training data, and translations
    that repeat themselves, copy the source or have an unusual length. --jsonl lists the flags of
    each line.

    A document comes out with its markup. With --n-best, --scores or --jsonl its sentences are
    listed instead, as lines are.

    With --images, a line whose image cannot be read is named on standard error and gets an empty
    line, and the exit code is 2 at the end.
    """
    from crosshead.addons.vision.multimodal_verbs import BesideImages
    from crosshead.cli import answers, arguments, odd_lines, search_flags
    from crosshead.pipelines.translator import Translator
    from crosshead.tasks.loading import load_as

    bundles, file = arguments.bundles_and_file(bundle, more or [])
    if images is not None and to is not None:
        raise UserError("--to is not for models that translate beside images; leave it out")
    if images is not None and mbr is not None:
        raise UserError("--mbr is not for models that translate beside images; leave it out")
    if images is not None and kind not in (None, "lines"):
        raise UserError(
            f"--format {kind} is not for models that translate beside images; leave it out"
        )
    risk = search_flags.minimum_risk(mbr, beam, length_penalty, n_best)
    for each in bundles:
        arguments.check_outputs({"--output": output}, [file], each)
    document = None if images is not None else _document(kind, file)
    translator: Translator | BesideImages = (
        arguments.into(load_as(Translator, bundles, device, threads, precision), to)
        if images is None
        else BesideImages(arguments.only(bundles, "--images"), images, device, threads, precision)
    )
    flags = {
        "beam": beam, "length_penalty": length_penalty, "temperature": temperature,
        "top_k": top_k, "top_p": top_p, "seed": seed, "batch_tokens": batch_tokens,
    }  # fmt: skip
    sample = sample or risk is not None
    decode = search_flags.search_settings(translator.bundle.config.decode, sample, flags, n_best)
    translated = (
        translator.translate
        if isinstance(translator, BesideImages)
        else partial(translator.translate, risk=risk)
    )
    whole = document is not None and n_best is None and not scores and not jsonl
    unit = "line" if document is None else "sentence"
    check = check_sentences if kind is None and images is None else check_text
    groups = read_groups(file, check) if document is None else iter([document.sentences])
    total = None
    if watched(output):
        total = count_lines(file) if document is None else len(document.sentences)
    before, odd = 0, odd_lines.OddLines(unit)
    with open_output(output) as write, answers.answering(total, f"{unit}s") as advance:
        for lines in groups:
            progress = partial(advance, before, len(lines))
            found = translated(
                lines, decode=decode, n_best=n_best or 1, first=before, progress=progress
            )
            first, listed = before + 1, n_best is not None  # people count lines from 1
            written = (
                document.with_translations([best[0].text for best in found])
                if whole and document is not None
                else answers.answers(lines, found, first, listed, scores, unit if jsonl else None)
            )
            write(written.encode())
            odd.add(lines, found, first)
            progress(1.0)
            before += len(lines)
    for warning in odd.warnings():
        note(warning)
    if isinstance(translator, BesideImages):
        translator.finish()


def _document(kind: Format | None, file: str) -> "Document | None":
    """Return the document to translate, or None to translate lines.

    Without `--format`, the end of the file's name decides, then its content. A plain text is lines.
    """
    from crosshead.text.documents.document import Document
    from crosshead.text.documents.formats import ENDS, FORMATS

    named = {**ENDS, ".txt": None}.get(Path(file.removesuffix(".gz")).suffix.lower())
    found = kind_of(head_of(Path(file)))
    name = kind or named or (found and found.format)
    if name in (None, "lines"):
        return None
    text = read_document(file)
    try:
        return Document.of(text, FORMATS[name])
    except DataError as error:
        raise DataError(f"{'standard input' if file == '-' else file}: {error}") from None
