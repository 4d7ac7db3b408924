"""The verbs for models that translate: `translate`, `evaluate`, `compare` and `score`."""

from collections.abc import Mapping, Sequence
from functools import partial
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
from crosshead.cli.terminal import open_output, put, watched
from crosshead.errors import UserError
from crosshead.system.pipes import count_lines, read_groups


@app.command(
    epilog="\b\nExamples:\n"
    "  crosshead translate runs/en-de input.txt --output output.txt\n"
    '  echo "A dog runs." | crosshead translate runs/en-de --beam 5\n'
    "  crosshead translate runs/en-de input.txt --n-best 3\n"
    "  crosshead translate runs/signs input.tsv --images photos.zip"
)
def translate(
    bundle: BundleArgument,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            show_default=False,
            help="File to translate, one sentence per line; a .gz file is unpacked (default: -, "
            "standard input).",
        ),
    ] = "-",
    images: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH",
            help="Folder or zip archive of images, for a model that translates beside images: the "
            "lines are then `image<TAB>sentence`. Repeat it for more images.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="F",
            help="File to write (default: standard output). The file appears only when it is "
            "complete.",
        ),
    ] = None,
    beam: BeamOption = None,
    length_penalty: PenaltyOption = None,
    n_best: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            max=1000,
            help="Number of translations per line, as `number ||| text ||| score` (default: only "
            "the best one, as text). The beam must be at least as large.",
        ),
    ] = None,
    sample: Annotated[
        bool,
        typer.Option(
            "--sample",
            help="Sample translations instead of searching for the most probable one.",
        ),
    ] = False,
    temperature: Annotated[
        float | None,
        typer.Option(
            metavar="T",
            help="Sampling temperature: below 1 is more conservative, above 1 more varied "
            "(default: the bundle's, usually 1; needs --sample).",
        ),
    ] = None,
    top_k: Annotated[
        int | None,
        typer.Option(
            metavar="K",
            help="Sample from the K most probable tokens only; 0 is no limit (default: the "
            "bundle's, usually 0; needs --sample).",
        ),
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option(
            metavar="P",
            help="Sample from the smallest set of tokens with this total probability, above 0 and "
            "up to 1 (default: the bundle's, usually 1; needs --sample).",
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            metavar="S",
            help="Random seed of the samples (default: the bundle's, usually 1; needs --sample). "
            "The same seed gives the same translations.",
        ),
    ] = None,
    scores: Annotated[
        bool,
        typer.Option(
            "--scores", help="Print each translation with its score, as `text<TAB>score`."
        ),
    ] = False,
    jsonl: JsonlOption = False,
    batch_tokens: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=64,
            help="Number of source tokens decoded at once, padding counted (default: the bundle's, "
            "usually 4096). Lower it if memory runs out. A longer sentence is decoded alone.",
        ),
    ] = None,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
    precision: PrecisionOption = "float32",
) -> None:
    """Translate lines of text.

    The command prints one line for each input line, in order, and an empty line for an empty one.
    Lines from a pipe are translated as they arrive. The bundle holds the default search settings.
    A score is the log-probability divided by the length penalty. A line that is too long for the
    model is split at the ends of sentences, with a warning.

    With --images, a line whose image cannot be read is named on standard error and gets an empty
    line, and the exit code is 2 at the end.
    """
    from crosshead.cli import answers
    from crosshead.cli.multimodal import BesideImages
    from crosshead.pipelines.translator import Translator
    from crosshead.tasks.loading import load_as

    answers.check_output(output, file, bundle)
    translator: Translator | BesideImages = (
        load_as(Translator, bundle, device, threads, precision)
        if images is None
        else BesideImages(bundle, images, device, threads, precision)
    )
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
    before = 0
    total = count_lines(file) if watched(output) else None
    with open_output(output) as write, answers.answering(total) as advance:
        for lines in read_groups(file):
            progress = partial(advance, before, len(lines))
            found = translator.translate(
                lines, decode=decode, n_best=n_best or 1, first=before, progress=progress
            )
            first, listed = before + 1, n_best is not None  # people count lines from 1
            write(answers.answers(lines, found, first, listed, scores, jsonl).encode())
            progress(1.0, answers.line_warnings(found, first))
            before += len(lines)
    if isinstance(translator, BesideImages):
        translator.finish()


@app.command(
    epilog="\b\nExamples:\n"
    "  crosshead evaluate runs/en-de --source test.en --reference test.de\n"
    "  crosshead evaluate runs/shakespeare --text test.txt --stride 64\n"
    "  crosshead evaluate runs/ett --series ETTh1.csv --start 2018-02-01\n"
    "  crosshead evaluate runs/photos --images photos.zip\n"
    "  crosshead evaluate runs/scenes --images images.zip --captions test.jsonl\n"
    "  crosshead evaluate runs/signs --images images.zip --pairs test.jsonl"
)
def evaluate(
    bundle: BundleArgument,
    source: Annotated[
        Path | None,
        typer.Option(
            metavar="F",
            help="File of source sentences, one per line; a .gz file is unpacked. Needs "
            "--reference.",
        ),
    ] = None,
    reference: Annotated[
        Path | None,
        typer.Option(metavar="F", help="File of reference translations, one per source line."),
    ] = None,
    text: Annotated[
        Path | None,
        typer.Option(metavar="F", help="File of text to score, for a model of monolingual text."),
    ] = None,
    series: Annotated[
        Path | None,
        typer.Option(metavar="F", help="File of a series to forecast and score, CSV or Parquet."),
    ] = None,
    images: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH",
            help="Folder or zip archive of images. Without --captions and --pairs, a classifier is "
            "scored: the folder of an image is its class, and of a set with splits the folder test "
            "counts.",
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Time of the first value of --series to score (default: the first after a "
            "context). Give a time after the training period.",
        ),
    ] = None,
    captions: Annotated[
        list[str] | None,
        typer.Option(
            metavar="F",
            help="File of captions of --images to compare with, for a captioner. Repeat it for "
            "more files.",
        ),
    ] = None,
    pairs: Annotated[
        list[str] | None,
        typer.Option(
            metavar="F",
            help="File of pairs beside --images, for a model that translates beside images: JSON "
            "Lines with the keys image, source and target, or lines "
            "`image<TAB>source<TAB>target`. Repeat it for more files.",
        ),
    ] = None,
    original: Annotated[
        bool,
        typer.Option(
            "--original",
            help="Show errors of --series in the units of its columns (default: in deviations of "
            "the training period).",
        ),
    ] = False,
    stride: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Number of tokens by which the window over --text moves (default: the window's "
            "length). Smaller values give each token more context and take longer.",
        ),
    ] = None,
    memory: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            max=10**6,
            help="Memory of a transformer-xl, in positions (default: as in training).",
        ),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="Metrics, separated by commas: bleu, chrf, ter, perplexity (default: bleu,chrf).",
        ),
    ] = None,
    tokenize: TokenizeOption = None,
    beam: BeamOption = None,
    length_penalty: PenaltyOption = None,
    jsonl: JsonlOption = False,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
) -> None:
    """Translate a test set and score the translations, or score a text, forecasts or classes.

    Give --source and --reference for a model that translates. Each metric is printed with its 95 %
    bootstrap interval and a signature: sacreBLEU's, or for perplexity one that names its
    normalisation. The bundle holds the default search settings.

    Give --text for a model of monolingual text. The command prints perplexity and bits per
    character, or for a masked language model masked perplexity and accuracy. The model reads the
    text in windows of the training length, which move by --stride. A model with a memory
    reads the text in one pass instead, unless --stride is given.

    Give --series for a forecaster. The command forecasts from every row that has a context before
    it and a horizon after it, and prints the errors beside those of two untrained forecasts.

    Give --images for a classifier of images. The command prints the accuracy with its 95 % interval
    (Wilson 1927), and how often each class was taken for which.

    Give --captions and --images for a captioner. The command writes a caption of each image, and
    compares it with all its captions in the files: BLEU, chrF and exact match.

    Give --pairs and --images for a model that translates beside images. The command prints BLEU,
    chrF and exact match with the right images, and with images shuffled among the sentences
    (Caglayan et al. 2019). Equal scores mean that the images are of no use to the model.
    """
    from crosshead.cli import classify, evaluation, multimodal
    from crosshead.data.parallel.corpora import read_aligned
    from crosshead.evaluation import evaluate as score_test_set
    from crosshead.pipelines.translator import Translator
    from crosshead.tasks.loading import load_as

    of_translation = {
        "--source": source,
        "--reference": reference,
        "--metrics": metrics,
        "--tokenize": tokenize,
        "--beam": beam,
        "--length-penalty": length_penalty,
    }
    of_text = {"--stride": stride, "--memory": memory}
    of_series = {"--start": start, "--original": original or None}
    if captions is not None or pairs is not None:
        flag = "--captions" if pairs is None else "--pairs"
        if images is None:
            raise UserError(f"{flag} and --images go together: give both, or leave out both")
        elsewhere: dict[str, object] = {
            "--captions": captions if pairs else None,
            "--text": text, "--source": source, "--reference": reference, "--series": series,
            **of_series, **of_text,
        }  # fmt: skip
        _refuse(elsewhere, f"is not for {flag[2:]}: leave it out, or leave out {flag}")
        names = evaluation.metric_names("bleu,chrf" if metrics is None else metrics, tokenize)
        search = {"beam": beam, "length_penalty": length_penalty}
        if pairs is not None:
            beside = multimodal.pair_evaluation(
                bundle, images, pairs, names, tokenize, search, device, threads
            )
            put(multimodal.pairs_jsonl(beside) if jsonl else multimodal.pairs_table(beside))
            return
        assert captions is not None
        scored = evaluation.caption_evaluation(
            bundle, images, captions, names, tokenize, search, device, threads
        )
        put(evaluation.scores_jsonl(scored) if jsonl else evaluation.scores_table(scored))
        return
    if images is not None:
        others = {"--text": text, "--series": series, **of_text, **of_series, **of_translation}
        _refuse(others, "is for other data: leave it out, or leave out --images")
        if len(images) > 1:
            raise UserError("--images: give one folder or archive of images with classes")
        classes = classify.image_evaluation(bundle, Path(images[0]), device, threads)
        put(classify.confusions_jsonl(classes) if jsonl else classify.confusions_table(classes))
        return
    if series is not None:
        others = {"--text": text, **of_text, **of_translation}
        _refuse(others, "is for text: leave it out, or leave out --series")
        found = evaluation.series_evaluation(bundle, series, start, original, device, threads)
        put(evaluation.scores_jsonl(found) if jsonl else evaluation.forecast_table(found))
        return
    _refuse(of_series, "is for forecasts: leave it out, or give --series")
    if text is not None:
        _refuse(of_translation, "applies to translations only; leave out it or --text")
        scores = evaluation.text_evaluation(bundle, text, stride, memory, device, threads)
        put(evaluation.scores_jsonl(scores) if jsonl else evaluation.scores_table(scores))
        return
    _refuse(of_text, "applies to --text only; leave it out, or give --text")
    if source is None or reference is None:
        raise UserError(
            "give --source and --reference, --text for a model of monolingual text, --series for a "
            "forecaster, --images for a classifier, --captions and --images for a captioner, or "
            "--pairs and --images for a model that translates beside images"
        )
    names = evaluation.metric_names(
        "bleu,chrf" if metrics is None else metrics, tokenize, ["perplexity"]
    )
    sources, references = read_aligned(source, reference)
    instead = "give --text, not --source and --reference"
    translator = load_as(Translator, bundle, device, threads, instead=instead)
    flags = {"beam": beam, "length_penalty": length_penalty}
    scores = score_test_set(
        translator, sources, references, names, tokenize,
        translate=lambda lines: evaluation.translated(translator, lines, flags),
    )  # fmt: skip
    put(evaluation.scores_jsonl(scores) if jsonl else evaluation.scores_table(scores))


_SCORE_TEXT = "to score a text: `crosshead evaluate BUNDLE --text FILE`"


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
        typer.Argument(metavar="BUNDLE", help="Two or more bundles; the first is the baseline."),
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

    p is the probability that chance alone gives a difference from the first bundle at least as
    large as the measured one.
    """
    from crosshead.cli import evaluation
    from crosshead.data.parallel.corpora import read_aligned
    from crosshead.evaluation import compare as compare_systems
    from crosshead.pipelines.translator import Translator
    from crosshead.tasks.loading import load_as

    names = evaluation.metric_names(metrics, tokenize)
    evaluation.check_distinct(bundles)
    sources, references = read_aligned(source, reference)
    flags = {"beam": beam, "length_penalty": length_penalty}
    systems: dict[str, Sequence[str]] = {
        str(bundle): evaluation.translated(
            load_as(Translator, bundle, device, threads, instead=_SCORE_TEXT), sources, flags
        )
        for bundle in bundles
    }
    scores = compare_systems(systems, references, names, tokenize)
    put(evaluation.scores_jsonl(scores) if jsonl else evaluation.comparison_table(scores))


@app.command(epilog="\b\nExample:\n  crosshead score runs/en-de --source test.en --target test.de")
def score(
    bundle: BundleArgument,
    source: SourceOption,
    target: Annotated[
        Path, typer.Option(metavar="F", help="File of translations to score, one per source line.")
    ],
    jsonl: Annotated[
        bool,
        typer.Option(
            "--jsonl",
            help="Print JSON Lines (one object per line) that also hold each token's "
            "log-probability.",
        ),
    ] = False,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
) -> None:
    """Print the log-probability of each given translation.

    The command prints one natural logarithm per line. It includes the end of the sentence. White
    space around a line is ignored, as in translation.
    """
    from crosshead.cli import answers
    from crosshead.data.parallel.corpora import read_aligned
    from crosshead.pipelines.translator import Translator
    from crosshead.tasks.loading import load_as

    sources, targets = read_aligned(source, target)
    translator = load_as(Translator, bundle, device, threads, instead=_SCORE_TEXT)
    for text in answers.scored(translator, sources, targets, jsonl):
        put(text)
