"""Options that several verbs share."""

import re
from pathlib import Path
from typing import Annotated, Any

import typer

_NAME = re.compile("(hf|https?):", re.IGNORECASE)
"""The beginning of a name on a hub, or of an address in its place, which gets a message."""


def bundle_place(text: str) -> Path:
    """Return the path of a bundle, after downloading it if it is named on a hub."""
    if not _NAME.match(text):
        return Path(text)
    from crosshead.tasks.loading import local_bundle

    return local_bundle(text)


BundleArgument = Annotated[
    Path,
    typer.Argument(
        metavar="BUNDLE",
        parser=bundle_place,
        help="Trained model: a directory, a file made by `crosshead pack`, or hf://ORG/NAME.",
    ),
]
BundlesArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="BUNDLE",
        parser=bundle_place,
        help="Trained model: a directory, a file made by `crosshead pack`, or hf://ORG/NAME. "
        "Several models that translate are an ensemble: each token has the mean of their "
        "probabilities.",
    ),
]
SourceOption = Annotated[
    Path,
    typer.Option(
        metavar="F", help="File of source sentences, one per line; a .gz file is unpacked."
    ),
]
ReferenceOption = Annotated[
    Path | None,
    typer.Option(metavar="F", help="File of reference translations, one per source line."),
]
PairsOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="F",
        help="File of sources and references, in place of --source and --reference: TSV, CSV or "
        "JSON Lines, as for `crosshead train`. Repeat it for more files.",
    ),
]
MetricsOption = Annotated[
    str,
    typer.Option(
        metavar="LIST",
        show_default=False,
        help="Metrics, separated by commas: bleu, chrf, ter (default: bleu,chrf).",
    ),
]
TokenizeOption = Annotated[
    str | None,
    typer.Option(
        metavar="T",
        help="Tokenization that sacreBLEU applies for BLEU, such as 13a, none or ja-mecab "
        "(default: 13a, zh for Chinese, char for other scripts without spaces).",
    ),
]
BeamOption = Annotated[
    int | None,
    typer.Option(
        metavar="K",
        help="Beam size in hypotheses; 1 is greedy search, which is faster (default: the "
        "bundle's).",
    ),
]
PenaltyOption = Annotated[
    float | None,
    typer.Option(
        metavar="A",
        help="Exponent of the length penalty; larger values favour longer translations, 0 turns "
        "it off (default: the bundle's).",
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
        "The same seed gives the same texts.",
    ),
]


def count_option(text: str) -> Any:
    """Return an option that takes a number from 1 on, with its help text."""
    return typer.Option(metavar="N", min=1, max=10**6, show_default=False, help=text)


ToOption = Annotated[
    str | None,
    typer.Option(
        metavar="CODE",
        help="Language to translate to, such as de, for a model of several directions (default: "
        "the model's only one).",
    ),
]
EngineOption = Annotated[
    str,
    typer.Option(
        metavar="E",
        show_default=False,
        help="Decoding engine: crosshead, ctranslate2 (`pip install 'crosshead[serve]'`) or auto, "
        "which is ctranslate2 where it finds the same translations (default: auto). `translate` "
        "stores ctranslate2's form of a model that it suits in BUNDLE/.engines.",
    ),
]
DeviceOption = Annotated[
    str,
    typer.Option(
        metavar="D",
        show_default=False,
        help="Device to compute on, such as cpu, cuda:1, mps or xpu (default: auto, the first "
        "CUDA GPU, or the CPU if there is none).",
    ),
]
ThreadsOption = Annotated[
    int | None,
    typer.Option(
        metavar="T",
        help="Number of CPU threads; 0 takes all cores (default: PyTorch's choice). Lower it to "
        "leave cores to other programs.",
    ),
]
PrecisionOption = Annotated[
    str,
    typer.Option(
        metavar="P",
        show_default=False,
        help="Number format: float32 or bfloat16 (default: float32). bfloat16 is faster on "
        "processors that support it, and may change some answers.",
    ),
]
JsonlOption = Annotated[
    bool, typer.Option("--jsonl", help="Print JSON Lines (one object per line) for programs.")
]
Files = list[str] | None
