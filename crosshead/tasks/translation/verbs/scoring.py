"""The verbs that score translations: `evaluate`, `compare` and `score`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from crosshead.cli.app import app
from crosshead.cli.kinds import evaluate
from crosshead.cli.options import (
    BeamOption,
    BundlesArgument,
    DeviceOption,
    EngineOption,
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
AnyMetricsOption = Annotated[
    str | None,
    typer.Option(
        metavar="LIST",
        help="Metrics, separated by commas: bleu, chrf, ter, perplexity (default: bleu,chrf).",
    ),
]


@evaluate.kind(
    examples=(
        "crosshead evaluate runs/en-de --source test.en --reference test.de",
        "crosshead evaluate runs/first runs/second --source test.en --reference test.de",
        "crosshead evaluate runs/en-de --pairs test.csv --fields English,German",
    )
)
def evaluate_translations(
    bundles: BundlesArgument,
    source: SourcesOption = None,
    reference: ReferenceOption = None,
    to: ToOption = None,
    pairs: PairsOption = None,
    fields: FieldsOption = None,
    metrics: AnyMetricsOption = None,
    tokenize: TokenizeOption = None,
    beam: BeamOption = None,
    length_penalty: PenaltyOption = None,
    jsonl: JsonlOption = False,
    engine: EngineOption = "auto",
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
) -> None:
    """Give --source and --reference, or --pairs, for a model that translates.

    Each metric is printed with its 95 % bootstrap interval and a signature: sacreBLEU's, or for
    perplexity one that names its normalisation. The bundle holds the default search
    settings. Several bundles are scored together, as an ensemble.
    """
    from crosshead.cli.evaluation import metric_names, scores_jsonl, scores_table
    from crosshead.tasks.translation.verbs import evaluation

    _check_test_set(
        source, reference, pairs, fields, f", or the data of another kind: {evaluate.others()}"
    )
    names = metric_names(metrics or "bleu,chrf", tokenize, ["perplexity"])
    test = evaluation.TranslationSet(source, reference, pairs, fields)
    search = {"beam": beam, "length_penalty": length_penalty}
    scores = evaluation.translation_evaluation(
        bundles, test, to, names, tokenize, search, engine, device, threads
    )
    put(scores_jsonl(scores) if jsonl else scores_table(scores))


def _check_test_set(
    source: Path | None,
    reference: Path | None,
    pairs: list[str] | None,
    fields: str | None,
    others: str = "",
) -> None:
    """Raise `UserError` unless the files of one test set are given; `others` are other data."""
    sides = {"--source": source, "--reference": reference}
    given = [name for name, file in sides.items() if file is not None]
    if pairs is not None:
        if given:
            raise UserError(f"{given[0]} is not for pairs: leave it out, or leave out --pairs")
    elif len(given) != 2:
        found = f"{given[0]} alone: " if given else ""
        raise UserError(f"{found}give --source and --reference, or --pairs{others}")
    elif fields is not None:
        raise UserError("--fields names the fields of --pairs; leave it out")


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
    engine: EngineOption = "auto",
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
) -> None:
    """Compare bundles on a test set by paired bootstrap.

    Give --source and --reference, or --pairs.

    p is the probability that chance alone gives a difference from the first bundle at least as
    large as the measured one.
    """
    from crosshead.bundle.places import bundle_shown
    from crosshead.cli import arguments
    from crosshead.cli.evaluation import (
        comparison_table,
        metric_names,
        say_if_tokenised,
        scores_jsonl,
    )
    from crosshead.evaluation.sacrebleu_metrics import compare as compare_systems
    from crosshead.tasks.loading import load_as
    from crosshead.tasks.translation.translator import Translator
    from crosshead.tasks.translation.verbs import evaluation

    _check_test_set(source, reference, pairs, fields)
    names = metric_names(metrics, tokenize)
    test = evaluation.TranslationSet(source, reference, pairs, fields)
    # All models are loaded and checked before the first one translates, which takes long.
    translators: dict[str, Translator] = {}
    for bundle in bundles:
        loaded = load_as(Translator, bundle, device, threads)
        translators[bundle_shown(bundle)] = arguments.into(loaded, to)
        test.check(translators[bundle_shown(bundle)], bundle_shown(bundle))
    sources, references = test.read()
    say_if_tokenised(references, test.reference_files, names, tokenize)
    flags = {"beam": beam, "length_penalty": length_penalty}
    systems: dict[str, Sequence[str]] = {
        name: evaluation.translated(translator, sources, flags, engine)
        for name, translator in translators.items()
    }
    scores = compare_systems(systems, references, names, tokenize)
    put(scores_jsonl(scores) if jsonl else comparison_table(scores))


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
    from crosshead.cli import arguments
    from crosshead.tasks.loading import load_as
    from crosshead.tasks.translation.translator import Translator
    from crosshead.tasks.translation.verbs import answers
    from crosshead.text.parallel.corpora import read_aligned

    loaded = load_as(Translator, bundles, device, threads)
    translator = arguments.into(loaded, to)
    sources, targets = read_aligned(source, target)
    for text in answers.scored(translator, sources, targets, jsonl):
        put(text)
