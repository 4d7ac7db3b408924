"""The verbs of models that translate."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from crosshead.cli.app import app
from crosshead.cli.options import (
    BeamOption,
    BundleArgument,
    DeviceOption,
    JsonlOption,
    MetricsOption,
    PenaltyOption,
    PrecisionOption,
    ReferenceOption,
    SourceOption,
    ThreadsOption,
    TokenizeOption,
)
from crosshead.errors import UserError
from crosshead.terminal import put


@app.command(
    epilog="\b\nExamples:\n"
    "  crosshead translate runs/en-de input.txt --output output.txt\n"
    '  echo "A dog runs." | crosshead translate runs/en-de --beam 5\n'
    "  crosshead translate runs/en-de input.txt --n-best 3"
)
def translate(
    bundle: BundleArgument,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Text (.gz too); - is standard input.")
    ] = "-",
    output: Annotated[
        Path | None, typer.Option(metavar="F", help="A file, whole or absent; else the output.")
    ] = None,
    beam: BeamOption = None,
    length_penalty: PenaltyOption = None,
    n_best: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, max=1000, help="Lines of `number ||| text ||| score`."),
    ] = None,
    sample: Annotated[bool, typer.Option("--sample", help="Draw instead of searching.")] = False,
    temperature: Annotated[float | None, typer.Option(metavar="T", help="Of samples.")] = None,
    top_k: Annotated[int | None, typer.Option(metavar="K", help="Of samples.")] = None,
    top_p: Annotated[float | None, typer.Option(metavar="P", help="Of samples.")] = None,
    seed: Annotated[int | None, typer.Option(metavar="S", help="Of samples.")] = None,
    scores: Annotated[bool, typer.Option("--scores", help="Lines of `text<TAB>score`.")] = False,
    jsonl: JsonlOption = False,
    batch_tokens: Annotated[
        int | None, typer.Option(metavar="N", help="Source tokens decoded at once.")
    ] = None,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
    precision: PrecisionOption = "float32",
) -> None:
    """Translate lines of text.

    One line out for each line in, in order, an empty one for an empty one. A pipe is answered as it
    comes. By default the search is as the bundle says. The score is the log-probability over the
    length penalty. A line too long for the model is split at the ends of sentences, with a warning.
    """
    from crosshead import answers
    from crosshead.pipelines import Translator, load_as

    answers.check_not_input(output, file)
    translator = load_as(Translator, bundle, device, threads, precision)
    flags = {
        "beam": beam,
        "length_penalty": length_penalty,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "seed": seed,
        "batch_tokens": batch_tokens,
    }
    decode = answers.search_settings(translator.bundle.config.decode, sample, flags, n_best)
    answers.answer(translator, file, output, decode, n_best, scores, jsonl)


@app.command(
    epilog="\b\nExamples:\n"
    "  crosshead evaluate runs/en-de --source test.en --reference test.de\n"
    "  crosshead evaluate runs/shakespeare --text test.txt --stride 64"
)
def evaluate(
    bundle: BundleArgument,
    source: Annotated[
        Path | None, typer.Option(metavar="F", help="Source sentences (.gz).")
    ] = None,
    reference: Annotated[
        Path | None, typer.Option(metavar="F", help="A reference for each line.")
    ] = None,
    text: Annotated[
        Path | None, typer.Option(metavar="F", help="Text, for a model of text by itself.")
    ] = None,
    stride: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Tokens by which the window over --text moves on.",
            show_default="the window's length",
        ),
    ] = None,
    memory: Annotated[
        int | None,
        typer.Option(
            metavar="N", max=10**6, help="Positions that a model with a memory is to remember."
        ),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="LIST", help="Of bleu, chrf, ter and perplexity, by commas; else bleu,chrf."
        ),
    ] = None,
    tokenize: TokenizeOption = None,
    beam: BeamOption = None,
    length_penalty: PenaltyOption = None,
    jsonl: JsonlOption = False,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
) -> None:
    """Translate a test set and score it; or score a text.

    A model of text by itself is scored on --text: by perplexity and bits per character, in windows
    as long as those of training, which move on by --stride; a model with a memory reads it in one
    go, with the memory of training or --memory. Each metric comes with its bootstrap
    interval of 95 % and a signature: sacreBLEU's, or of perplexity one that says how it is
    normalised. By default the search is as the bundle says.
    """
    from crosshead import reports
    from crosshead.data.corpora import read_aligned
    from crosshead.pipelines import Translator, load_as

    if text is not None:
        of_translation = {
            "--source": source,
            "--reference": reference,
            "--metrics": metrics,
            "--tokenize": tokenize,
            "--beam": beam,
            "--length-penalty": length_penalty,
        }
        _refuse(of_translation, "is for translations: leave it out, or leave out --text")
        scores = reports.text_evaluation(bundle, text, stride, memory, device, threads)
        put(reports.scores_jsonl(scores) if jsonl else reports.scores_table(scores))
        return
    _refuse({"--stride": stride, "--memory": memory}, "is for texts: leave it out, or give --text")
    if source is None or reference is None:
        raise UserError("give --source and --reference, or --text for a model of text by itself")
    names = reports.metric_names(
        "bleu,chrf" if metrics is None else metrics, tokenize, ["perplexity"]
    )
    sources, references = read_aligned(source, reference)
    instead = "give --text, not --source and --reference"
    translator = load_as(Translator, bundle, device, threads, instead=instead)
    flags = {"beam": beam, "length_penalty": length_penalty}
    scores = reports.evaluation(translator, sources, references, names, tokenize, flags)
    put(reports.scores_jsonl(scores) if jsonl else reports.scores_table(scores))


_SCORE_TEXT = "`crosshead evaluate BUNDLE --text FILE` scores a text by it"


def _refuse(options: Mapping[str, object], why: str) -> None:
    """Raise `UserError` for the first option that is given (not None)."""
    for name, value in options.items():
        if value is not None:
            raise UserError(f"{name} {why}")


@app.command(
    epilog="\b\nExample:\n"
    "  crosshead compare runs/first runs/second --source test.en --reference test.de"
)
def compare(
    bundles: Annotated[
        list[Path],
        typer.Argument(metavar="BUNDLE", help="Two or more; the first is the baseline."),
    ],
    source: SourceOption,
    reference: ReferenceOption,
    metrics: MetricsOption = "bleu,chrf",
    tokenize: TokenizeOption = None,
    beam: BeamOption = None,
    length_penalty: PenaltyOption = None,
    jsonl: JsonlOption = False,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
) -> None:
    """Compare bundles on a test set by paired bootstrap.

    p is how likely a difference from the first bundle at least as large is by chance.
    """
    from crosshead import reports
    from crosshead.data.corpora import read_aligned
    from crosshead.evaluation import compare as compare_systems
    from crosshead.pipelines import Translator, load_as

    names = reports.metric_names(metrics, tokenize)
    reports.check_distinct(bundles)
    sources, references = read_aligned(source, reference)
    flags = {"beam": beam, "length_penalty": length_penalty}
    systems: dict[str, Sequence[str]] = {
        str(bundle): reports.translated(
            load_as(Translator, bundle, device, threads, instead=_SCORE_TEXT), sources, flags
        )
        for bundle in bundles
    }
    scores = compare_systems(systems, references, names, tokenize)
    put(reports.scores_jsonl(scores) if jsonl else reports.comparison_table(scores))


@app.command(epilog="\b\nExample:\n  crosshead score runs/en-de --source test.en --target test.de")
def score(
    bundle: BundleArgument,
    source: SourceOption,
    target: Annotated[Path, typer.Option(metavar="F", help="A translation for each source line.")],
    jsonl: Annotated[
        bool, typer.Option("--jsonl", help="One JSON object a line, with every piece's.")
    ] = False,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
) -> None:
    """Print log-probabilities of given translations.

    One for each line: natural logarithms, the end of the sentence included. White space around a
    line is left out, as in translation.
    """
    from crosshead import answers
    from crosshead.data.corpora import read_aligned
    from crosshead.pipelines import Translator, load_as

    sources, targets = read_aligned(source, target)
    translator = load_as(Translator, bundle, device, threads, instead=_SCORE_TEXT)
    for text in answers.scored(translator, sources, targets, jsonl):
        put(text)
