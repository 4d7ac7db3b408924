"""The verbs that score: `evaluate`, `compare` and `score`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from crosshead.cli.app import app
from crosshead.cli.options import (
    BeamOption,
    BundlesArgument,
    DeviceOption,
    JsonlOption,
    MetricsOption,
    PairsOption,
    PenaltyOption,
    ReferenceOption,
    SourceOption,
    ThreadsOption,
    TokenizeOption,
    ToOption,
    bundle_place,
)
from crosshead.cli.terminal import put
from crosshead.cli.training_options import FieldsOption
from crosshead.errors import UserError

SourcesOption = Annotated[
    Path | None,
    typer.Option(
        metavar="F",
        help="File of source sentences, one per line; a .gz file is unpacked. Needs --reference.",
    ),
]
TextOption = Annotated[
    Path | None,
    typer.Option(metavar="F", help="File of text to score, for a model of monolingual text."),
]
SeriesOption = Annotated[
    Path | None,
    typer.Option(metavar="F", help="File of a series to forecast and score, CSV or Parquet."),
]
ImagesOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATH",
        help="Folder or zip archive of images. Without --captions and --pairs, a classifier is "
        "scored: the folder of an image is its class, and of a set with splits the folder test "
        "is used.",
    ),
]
StartOption = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Time of the first value of --series to score (default: the first after a "
        "context). Give a time after the training period.",
    ),
]
CaptionsOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="F",
        help="File of captions of --images to compare with, for a captioner. Repeat it for "
        "more files.",
    ),
]
OriginalOption = Annotated[
    bool,
    typer.Option(
        "--original",
        help="Show errors of --series in the units of its columns (default: in deviations of "
        "the training period).",
    ),
]
StrideOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Number of tokens by which the window over --text moves (default: the window's "
        "length). Smaller values give each token more context and take longer.",
    ),
]
MemoryOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        max=10**6,
        help="Memory of a transformer-xl, in positions (default: as in training).",
    ),
]
AnyMetricsOption = Annotated[
    str | None,
    typer.Option(
        metavar="LIST",
        help="Metrics, separated by commas: bleu, chrf, ter, perplexity (default: bleu,chrf).",
    ),
]

_SCORE_TEXT = "to score a text: `crosshead evaluate BUNDLE --text FILE`"
_TRANSLATION = (
    "--source", "--reference", "--to", "--metrics", "--tokenize", "--beam", "--length-penalty",
)  # fmt: skip
_TEXT, _SERIES = ("--stride", "--memory"), ("--start", "--original")
_NO_SERIES = (_SERIES, "is for forecasts: leave it out, or give --series")
_NO_PAIRS = ("--text", "--source", "--reference", "--series", *_SERIES, *_TEXT)
_NO_WORDS = (*_NO_PAIRS, "--to")
_NOT_FOR_PAIRS = "is not for pairs: leave it out, or leave out --pairs"
_REFUSED: dict[str, list[tuple[tuple[str, ...], str]]] = {
    "--pairs": [(("--captions", *_NO_PAIRS), _NOT_FOR_PAIRS)],
    "--captions": [(_NO_WORDS, "is not for captions: leave it out, or leave out --captions")],
    "--images": [
        (
            ("--text", "--series", *_TEXT, *_SERIES, *_TRANSLATION),
            "is for other data: leave it out, or leave out --images",
        )
    ],
    "--series": [
        (("--text", *_TEXT, *_TRANSLATION), "is for text: leave it out, or leave out --series")
    ],
    "--text": [
        _NO_SERIES,
        (_TRANSLATION, "applies to translations only; leave out it or --text"),
    ],
    "--source": [_NO_SERIES, (_TEXT, "applies to --text only; leave it out, or give --text")],
}
"""The options of `evaluate` that other kinds of data have, by the option that gives the data, and
what the error says. The first given kind counts; without one, it is a test set of translations."""


@app.command(
    epilog="\b\nExamples:\n"
    "  crosshead evaluate runs/en-de --source test.en --reference test.de\n"
    "  crosshead evaluate runs/first runs/second --source test.en --reference test.de\n"
    "  crosshead evaluate runs/en-de --pairs test.csv --fields English,German\n"
    "  crosshead evaluate runs/shakespeare --text test.txt --stride 64\n"
    "  crosshead evaluate runs/ett --series ETTh1.csv --start 2018-02-01\n"
    "  crosshead evaluate runs/photos --images photos.zip\n"
    "  crosshead evaluate runs/scenes --images images.zip --captions test.jsonl\n"
    "  crosshead evaluate runs/signs --images images.zip --pairs test.jsonl"
)
def evaluate(
    bundles: BundlesArgument,
    source: SourcesOption = None,
    reference: ReferenceOption = None,
    to: ToOption = None,
    text: TextOption = None,
    series: SeriesOption = None,
    images: ImagesOption = None,
    start: StartOption = None,
    captions: CaptionsOption = None,
    pairs: PairsOption = None,
    fields: FieldsOption = None,
    original: OriginalOption = False,
    stride: StrideOption = None,
    memory: MemoryOption = None,
    metrics: AnyMetricsOption = None,
    tokenize: TokenizeOption = None,
    beam: BeamOption = None,
    length_penalty: PenaltyOption = None,
    jsonl: JsonlOption = False,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
) -> None:
    """Translate a test set and score the translations, or score a text, forecasts or classes.

    Give --source and --reference, or --pairs, for a model that translates. Each metric is printed
    with its 95 % bootstrap interval and a signature: sacreBLEU's, or for perplexity one that names
    its normalisation. The bundle holds the default search settings. Several bundles are scored
    together, as an ensemble.

    Give --text for a model of monolingual text. The command prints perplexity and bits per
    character, or for a masked language model masked perplexity and accuracy. The model reads the
    text in windows of the training length, which move by --stride. A model with a memory
    reads the text in one pass instead, unless --stride is given.

    Give --series for a forecaster. The command forecasts from every row that has a context before
    it and a horizon after it, and prints the errors beside those of two untrained forecasts.

    Give --images for a classifier of images. The command prints the accuracy with its 95 % interval
    (Wilson 1927), and a table of confusions: how many images of each class were given each other
    class.

    Give --captions and --images for a captioner. The command writes a caption of each image, and
    compares it with all its captions in the files: BLEU, chrF and exact match.

    Give --pairs and --images for a model that translates beside images. The pairs are JSON Lines
    with the keys image, source and target, or lines `image<TAB>source<TAB>target`. The command
    prints BLEU, chrF and exact match with the right images, and with images shuffled among the
    sentences (Caglayan et al. 2019). Equal scores mean that the images are of no use to the model;
    a line says so if their intervals do not tell them apart.
    """
    from crosshead.addons.vision import classify
    from crosshead.addons.vision import multimodal_verbs as multimodal
    from crosshead.cli import arguments, evaluation, translation_sets

    _check_kind(
        {
            "--source": source, "--reference": reference, "--to": to, "--metrics": metrics,
            "--tokenize": tokenize, "--beam": beam, "--length-penalty": length_penalty,
            "--text": text, "--stride": stride, "--memory": memory, "--series": series,
            "--start": start, "--original": original or None, "--images": images,
            "--captions": captions, "--pairs": pairs, "--fields": fields,
        }
    )  # fmt: skip
    search = {"beam": beam, "length_penalty": length_penalty}
    listed = "bleu,chrf" if metrics is None else metrics
    beside = None if images is None else pairs
    given = {"--pairs": beside, "--images": images, "--series": series, "--text": text}
    others = [option for option, value in given.items() if value is not None]
    bundle = arguments.only(bundles, others[0]) if others else bundles[0]
    if pairs is not None and images is not None:
        names = evaluation.metric_names(listed, tokenize)
        rows = multimodal.pair_evaluation(
            bundle, images, pairs, names, tokenize, search, device, threads
        )
        put(multimodal.pairs_jsonl(rows) if jsonl else multimodal.pairs_table(rows))
        return
    if captions is not None and images is not None:
        names = evaluation.metric_names(listed, tokenize)
        scores = evaluation.caption_evaluation(
            bundle, images, captions, names, tokenize, search, device, threads
        )
    elif images is not None:
        classes = classify.image_evaluation(bundle, Path(images[0]), device, threads)
        put(classify.confusions_jsonl(classes) if jsonl else classify.confusions_table(classes))
        return
    elif series is not None:
        found = evaluation.series_evaluation(bundle, series, start, original, device, threads)
        put(evaluation.scores_jsonl(found) if jsonl else evaluation.forecast_table(found))
        return
    elif text is not None:
        scores = evaluation.text_evaluation(bundle, text, stride, memory, device, threads)
    else:
        names = evaluation.metric_names(listed, tokenize, ["perplexity"])
        test = translation_sets.TranslationSet(source, reference, pairs, fields)
        scores = evaluation.translation_evaluation(
            bundles, test, to, names, tokenize, search, device, threads
        )
    put(evaluation.scores_jsonl(scores) if jsonl else evaluation.scores_table(scores))


def _check_kind(given: Mapping[str, Any]) -> None:
    """Raise `UserError` for missing data, and for options (not None) of another kind of data."""
    kind = next((option for option in _REFUSED if given[option] is not None), "--source")
    if kind == "--captions" and given["--images"] is None:
        raise UserError("--captions and --images go together: give both, or leave out both")
    if given["--fields"] is not None and (kind != "--pairs" or given["--images"] is not None):
        raise UserError("--fields names the fields of --pairs without --images; leave it out")
    if kind == "--pairs" and given["--images"] is not None and given["--to"] is not None:
        raise UserError("--to is not for models that translate beside images; leave it out")
    for options, why in _REFUSED[kind]:
        for option in options:
            if given[option] is not None:
                raise UserError(f"{option} {why}")
    if kind == "--images" and len(given["--images"]) > 1:
        raise UserError("--images: give one folder or archive of images with classes")
    if kind == "--source":
        _check_sides(
            given["--source"], given["--reference"],
            "; --text for a model of monolingual text, --series for a forecaster, --images for a "
            "classifier, --captions and --images for a captioner, or --pairs and --images for a "
            "model that translates beside images",
        )  # fmt: skip


def _check_sides(source: Path | None, reference: Path | None, others: str = "") -> None:
    """Raise `UserError` unless both files of a test set are given; `others` are other data."""
    if source is None and reference is None:
        raise UserError(f"give --source and --reference, or --pairs{others}")
    if source is None or reference is None:
        alone = "--reference" if source is None else "--source"
        raise UserError(f"{alone} alone: --source and --reference go together; give both")


@app.command(
    epilog="\b\nExamples:\n"
    "  crosshead compare runs/first runs/second --source test.en --reference test.de\n"
    "  crosshead compare runs/first runs/second --pairs test.csv --fields English,German"
)
def compare(
    bundles: Annotated[
        list[Path],
        typer.Argument(
            metavar="BUNDLE",
            parser=bundle_place,
            help="Two or more bundles; the first is the baseline.",
        ),
    ],
    source: SourcesOption = None,
    reference: ReferenceOption = None,
    to: ToOption = None,
    pairs: PairsOption = None,
    fields: FieldsOption = None,
    metrics: MetricsOption = "bleu,chrf",
    tokenize: TokenizeOption = None,
    beam: BeamOption = None,
    length_penalty: PenaltyOption = None,
    jsonl: JsonlOption = False,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
) -> None:
    """Compare bundles on a test set by paired bootstrap.

    Give --source and --reference, or --pairs.

    p is the probability that chance alone gives a difference from the first bundle at least as
    large as the measured one.
    """
    from crosshead.bundle.hub_names import bundle_shown
    from crosshead.cli import arguments, evaluation, translation_sets
    from crosshead.evaluation.comparison import compare as compare_systems
    from crosshead.pipelines.translator import Translator
    from crosshead.tasks.loading import load_as

    if pairs is None:
        _check_sides(source, reference)
        if fields is not None:
            raise UserError("--fields names the fields of --pairs; leave it out")
    elif source is not None or reference is not None:
        raise UserError(f"{'--reference' if source is None else '--source'} {_NOT_FOR_PAIRS}")
    names = evaluation.metric_names(metrics, tokenize)
    evaluation.check_distinct(bundles)
    test = translation_sets.TranslationSet(source, reference, pairs, fields)
    # All models are loaded and checked before the first one translates, which takes long.
    translators: dict[str, Translator] = {}
    for bundle in bundles:
        loaded = load_as(Translator, bundle, device, threads, instead=_SCORE_TEXT)
        translators[bundle_shown(bundle)] = arguments.into(loaded, to)
        test.check(translators[bundle_shown(bundle)], bundle_shown(bundle))
    sources, references = test.read()
    evaluation.say_if_tokenised(references, test.reference_files, names, tokenize)
    flags = {"beam": beam, "length_penalty": length_penalty}
    systems: dict[str, Sequence[str]] = {
        name: evaluation.translated(translator, sources, flags)
        for name, translator in translators.items()
    }
    scores = compare_systems(systems, references, names, tokenize)
    put(evaluation.scores_jsonl(scores) if jsonl else evaluation.comparison_table(scores))


@app.command(epilog="\b\nExample:\n  crosshead score runs/en-de --source test.en --target test.de")
def score(
    bundles: BundlesArgument,
    source: SourceOption,
    target: Annotated[
        Path, typer.Option(metavar="F", help="File of translations to score, one per source line.")
    ],
    to: ToOption = None,
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

    The command prints the log-probability (natural logarithm) of each translation, end of sentence
    included. A pair that is too long for the model gets `nan`. White space around a line is
    ignored, as in translation.
    """
    from crosshead.cli import answers, arguments
    from crosshead.pipelines.translator import Translator
    from crosshead.tasks.loading import load_as
    from crosshead.text.parallel.corpora import read_aligned

    loaded = load_as(Translator, bundles, device, threads, instead=_SCORE_TEXT)
    translator = arguments.into(loaded, to)
    sources, targets = read_aligned(source, target)
    for text in answers.scored(translator, sources, targets, jsonl):
        put(text)
