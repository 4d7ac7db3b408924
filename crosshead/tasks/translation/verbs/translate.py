"""The verb `translate`."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from crosshead.cli.kinds import translate
from crosshead.cli.options import (
    BeamOption,
    BundleArgument,
    DeviceOption,
    EngineOption,
    JsonlOption,
    PenaltyOption,
    PrecisionOption,
    SeedOption,
    TemperatureOption,
    ThreadsOption,
    ToOption,
    TopKOption,
    TopPOption,
)
from crosshead.cli.terminal import note, open_output, watched
from crosshead.errors import DataError, UserError
from crosshead.system.lines import check_sentences, check_text, head_of, kind_of
from crosshead.system.pipes import count_lines, read_document, read_groups

if TYPE_CHECKING:
    from crosshead.decoding.settings import DecodeConfig
    from crosshead.tasks.translation.line_translator import Translation
    from crosshead.tasks.translation.text_translator import TextTranslator
    from crosshead.text.documents.document import Document

Format = Literal["lines", "text", "markdown", "html", "srt"]
"""The formats of what is translated: lines, or one document."""

MoreArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="BUNDLE|FILE",
        show_default=False,
        help="More models of an ensemble, then the file to translate: one sentence per line, or a "
        "document in Markdown (.md), HTML (.html) or subtitles (.srt, .vtt). A .gz file is "
        "unpacked (default: -, standard input).",
    ),
]
FormatOption = Annotated[
    Format | None,
    typer.Option(
        "--format",
        show_default=False,
        help="Format of the input (default: markdown, html or srt for a file whose name ends in "
        ".md, .html, .srt or .vtt, else what its content shows). All but lines are documents: "
        "their sentences are translated, and their markup stays. text is lines of several "
        "sentences.",
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
        "the best one, as text). The beam must be at least as large.",
    ),
]
SampleOption = Annotated[
    bool,
    typer.Option(
        "--sample",
        help="Sample translations instead of searching for the most probable one.",
    ),
]
ScoresOption = Annotated[
    bool,
    typer.Option("--scores", help="Print each translation with its score, as `text<TAB>score`."),
]
GlossaryOption = Annotated[
    Path | None,
    typer.Option(
        metavar="F",
        help="Glossary: a term and its translation on each line of a TSV or CSV file, or TBX "
        "(default: none). A line with the term alone keeps it as it is.",
    ),
]
ExactTermsOption = Annotated[
    bool,
    typer.Option(
        "--exact-terms",
        help="Write terms exactly as the glossary has them (default: a model that has learned to "
        "use terms may write another form of a word).",
    ),
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


@translate.kind(
    examples=(
        "crosshead translate runs/en-de input.txt --output output.txt",
        'echo "A dog runs." | crosshead translate runs/en-de --beam 5',
        "crosshead translate runs/en-de input.txt --n-best 3",
        "crosshead translate runs/first runs/second runs/third input.txt",
        "crosshead translate runs/both input.txt --to de",
        "crosshead translate runs/en-de page.html --output seite.html",
        "crosshead translate runs/en-de input.txt --glossary terms.tsv",
    )
)
def translate_text(
    bundle: BundleArgument,
    more: MoreArgument = None,
    to: ToOption = None,
    glossary: GlossaryOption = None,
    exact_terms: ExactTermsOption = False,
    kind: FormatOption = None,
    output: OutputOption = None,
    beam: BeamOption = None,
    length_penalty: PenaltyOption = None,
    n_best: NBestOption = None,
    sample: SampleOption = False,
    temperature: TemperatureOption = None,
    top_k: TopKOption = None,
    top_p: TopPOption = None,
    seed: SeedOption = None,
    scores: ScoresOption = False,
    jsonl: JsonlOption = False,
    batch_tokens: BatchTokensOption = None,
    engine: EngineOption = "auto",
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
    precision: PrecisionOption = "float32",
) -> None:
    """Print one line for each input line, in order, and an empty line for an empty one.

    Lines from a pipe are translated as they arrive. The bundle holds the default search settings.
    A score is the log-probability divided by the length penalty. A line that is too long for the
    model is split at the ends of sentences, with a warning.

    Several bundles are an ensemble: each token has the mean of the models' probabilities. Their
    tokenizers must be the same, and the first one gives the search settings. The last argument is
    the file, unless it is a directory or a packed bundle.

    At the end, one warning counts the odd lines: lines unlike the training data, and translations
    that repeat themselves, copy the source or have an unusual length. --jsonl lists the flags of
    each line.

    A document comes out with its markup. With --n-best, --scores or --jsonl its sentences are
    listed instead, as lines are.
    """
    from crosshead.cli import arguments
    from crosshead.text.glossary import STEM, Glossary

    bundles, file = arguments.bundles_and_file(bundle, more or [])
    for each in bundles:
        arguments.check_outputs({"--output": output}, [file], each)
    flags = {
        "beam": beam, "length_penalty": length_penalty, "temperature": temperature,
        "top_k": top_k, "top_p": top_p, "seed": seed, "batch_tokens": batch_tokens,
    }  # fmt: skip
    settings = partial(arguments.search_settings, sample=sample, flags=flags, n_best=n_best)
    loaded = _translator(bundles, engine, settings, device, threads, precision)
    translator = arguments.into(loaded, to)
    if exact_terms and glossary is None:
        raise UserError("--exact-terms is for --glossary; leave it out")
    languages = translator.source_language, translator.target_language
    terms = Glossary.read(glossary, STEM, *languages, exact=exact_terms) if glossary else None
    document = _document(kind, file, translator)
    translated = partial(translator.translate, glossary=terms, scored=jsonl)
    translate_input(
        settings(translator.bundle.config.decode), translated, file, document,
        check_sentences if kind is None else check_text, output=output, n_best=n_best,
        scores=scores, jsonl=jsonl,
    )  # fmt: skip


def _translator(
    bundles: Sequence[Path],
    engine: str,
    settings: Callable[["DecodeConfig"], "DecodeConfig"],
    device: str,
    threads: int | None,
    precision: str,
) -> "TextTranslator":
    """Return the translator of one or several bundles, without PyTorch if that is possible."""
    from crosshead.system.processor import number_of_threads
    from crosshead.tasks.translation.stored import stored_translator

    [place, *others], workers = bundles, number_of_threads(threads or 0)
    may_be_stored = not others and precision == "float32" and device in ("auto", "cpu")
    if may_be_stored and (found := stored_translator(place, engine, settings, workers)):
        return found

    from crosshead.bundle.texts import BundleState
    from crosshead.tasks.loading import load_as
    from crosshead.tasks.translation.engine import EngineSearch
    from crosshead.tasks.translation.translator import Translator

    state = None if others else BundleState.of(place)
    loaded = load_as(Translator, bundles, device, threads, precision)
    loaded.engine = EngineSearch(engine, workers, state)
    return loaded


def translate_input(
    decode: "DecodeConfig",
    translated: Callable[..., list[list["Translation"]]],
    file: str,
    document: "Document | None",
    check: Callable[[bytes, str], None],
    *,
    output: Path | None,
    n_best: int | None,
    scores: bool,
    jsonl: bool,
) -> None:
    """Translate the lines of a file, or its document, and write the answers.

    `translated` translates groups of lines with the settings `decode`, and `check` refuses other
    files.
    """
    from crosshead.cli.terminal import answering
    from crosshead.tasks.translation.line_translator import TranslatedSentence
    from crosshead.tasks.translation.verbs import answers
    from crosshead.text.marks import without_tags

    whole = document is not None and n_best is None and not scores and not jsonl
    unit = "line" if document is None else "sentence"
    groups = read_groups(file, check) if document is None else iter([document.sentences])
    total = None
    if watched(output):
        total = count_lines(file) if document is None else len(document.sentences)
    before, odd = 0, answers.OddLines(unit)
    with open_output(output) as write, answering(total, f"{unit}s") as advance:
        for lines in groups:
            progress = partial(advance, before, len(lines))
            found = translated(
                lines, decode=decode, n_best=n_best or 1, first=before, progress=progress
            )
            first, listed = before + 1, n_best is not None  # people count lines from 1
            if document is not None and not whole:  # its sentences are listed, without tags
                shown = [TranslatedSentence.of(*pair) for pair in zip(lines, found, strict=True)]
                lines = [sentence.source for sentence in shown]
                found = [sentence.translations for sentence in shown]
            written = (
                document.with_translations([best[0].text for best in found])
                if whole and document is not None
                else answers.answers(lines, found, first, listed, scores, unit if jsonl else None)
            )
            write(written.encode())
            odd.add([without_tags(line) for line in lines], found, first)
            progress(1.0)
            before += len(lines)
    for warning in odd.warnings():
        note(warning)


def _document(kind: Format | None, file: str, translator: "TextTranslator") -> "Document | None":
    """Return the document to translate, or None to translate lines.

    Without `--format`, the end of the file's name decides, then its content. A plain text is lines.
    """
    from crosshead.text.documents.document import Document
    from crosshead.text.documents.formats import ENDS, parser_of

    named = {**ENDS, ".txt": None}.get(Path(file.removesuffix(".gz")).suffix.lower())
    found = kind_of(head_of(Path(file)))
    name = kind or named or (found and found.format)
    if name in (None, "lines"):
        return None
    text = read_document(file)
    try:
        return Document.of(
            text, parser_of(name), translator.source_language, translator.target_language
        )
    except DataError as error:
        raise DataError(f"{'standard input' if file == '-' else file}: {error}") from None
