"""The verbs that write training data with models: `distill` and `backtranslate`."""

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crosshead.cli.app import app
from crosshead.cli.kinds import TRAIN, Further, TrainOptions
from crosshead.cli.options import (
    BeamOption,
    BundleArgument,
    BundlesArgument,
    DeviceOption,
    PenaltyOption,
    PrecisionOption,
    SeedOption,
    SourceOption,
    TemperatureOption,
    ThreadsOption,
    ToOption,
    TopKOption,
    TopPOption,
)
from crosshead.cli.terminal import note, put
from crosshead.tasks.translation.verbs.translate import (
    BatchTokensOption,
    SampleOption,
)

if TYPE_CHECKING:
    from crosshead.addons.experiments.synthetic import Synthesis, SyntheticPairs
    from crosshead.recipe.recipe import Recipe
    from crosshead.tasks.corpus import Corpus
    from crosshead.tasks.translation.translator import Translator

OutOption = Annotated[
    Path,
    typer.Option(
        metavar="DIR",
        help="Directory of the new training set. If the command is stopped, the same command "
        "continues from the last block of 1,024 lines.",
    ),
]

_OPTIONS: dict[str, Any] = {
    "curve": Annotated[
        bool,
        typer.Option(
            "--curve",
            help="After this run, train on a half and a quarter of the pairs, each with the same "
            "limits, and estimate the gain from twice the data. At least 400 training pairs are "
            "needed. The runs stand in DIR.curve.",
        ),
    ],
    "folds": Annotated[
        int | None,
        typer.Option(
            metavar="K",
            min=2,
            max=20,
            help="Cross-validate after this run: split the pairs into K folds, and train K models, "
            "each validated on one fold instead of the validation files (2 to 20; default: "
            "none). Use it if the set is small. The runs stand in DIR.K-folds.",
        ),
    ],
}


def _further(
    given: Mapping[str, Any], settings: "Recipe", start: Path | None, resume: bool
) -> Further | None:
    """Return the runs that --curve and --folds ask for."""
    curve, folds = given["curve"], given["folds"]
    if not curve and folds is None:
        return None
    from crosshead.addons.experiments.data_curve import CURVE
    from crosshead.addons.experiments.folds import fold_experiment
    from crosshead.addons.experiments.subsets import check_subsets, run_experiments

    asked = [] if folds is None else [fold_experiment(folds)]
    asked += [CURVE] if curve else []
    for each in asked:
        check_subsets(settings, each.flag, None if resume else start)

    def check_data(corpus: "Corpus") -> None:
        for each in asked:
            each.check_pairs(corpus)

    flags = {"--curve" if each is CURVE else f"--folds {folds}": each.models for each in asked}
    return Further(flags, check_data, partial(run_experiments, experiments=asked))


TRAIN.append(TrainOptions("experiments", _OPTIONS, further=_further))


@app.command(
    epilog="\b\nExamples:\n"
    "  crosshead distill runs/teacher --source train.en --out data/distilled\n"
    "  crosshead distill runs/first runs/second --source train.en --out data/distilled"
)
def distill(
    bundles: BundlesArgument,
    source: SourceOption,
    out: OutOption,
    to: ToOption = None,
    beam: BeamOption = None,
    length_penalty: PenaltyOption = None,
    batch_tokens: BatchTokensOption = None,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
    precision: PrecisionOption = "float32",
) -> None:
    """Write a training set with the translations of a teacher, for a smaller or faster model.

    The teacher, a model or an ensemble, translates all sources by beam search. A student that
    learns from its translations often comes close to the teacher (Kim and Rush 2016). A repeated
    pair is written once.

    The command prints the command that trains a student on the new files. Without --preset student,
    the student has a thicker decoder: it is better and slower.
    """
    from crosshead.addons.experiments.synthetic import distill as write_distilled

    flags = {"beam": beam, "length_penalty": length_penalty, "batch_tokens": batch_tokens}
    machine = device, threads, precision
    made = _made(
        bundles, source, out, False, flags, to, machine,
        lambda translator, work: write_distilled(translator, work, out),
    )  # fmt: skip
    put(_next_command("--preset student ", made, ""))


@app.command(
    epilog="\b\nExamples:\n"
    "  crosshead backtranslate runs/de-en news.de --out data/news\n"
    "  crosshead backtranslate runs/de-en news.de --out data/news --sample --tag '<BT>'"
)
def backtranslate(
    bundle: BundleArgument,
    text: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="File of text in the target language, one sentence per line; a .gz file is "
            "unpacked.",
        ),
    ],
    out: OutOption,
    tag: Annotated[
        str | None,
        typer.Option(
            metavar="PIECE",
            help="Piece that begins every synthetic source, such as <BT>, so that the model can "
            "tell them from human sources (default: none).",
        ),
    ] = None,
    to: ToOption = None,
    beam: BeamOption = None,
    length_penalty: PenaltyOption = None,
    sample: SampleOption = False,
    temperature: TemperatureOption = None,
    top_k: TopKOption = None,
    top_p: TopPOption = None,
    seed: SeedOption = None,
    batch_tokens: BatchTokensOption = None,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
    precision: PrecisionOption = "float32",
) -> None:
    """Write a training set from monolingual text of the target language.

    BUNDLE is a reverse model: it translates from the target language to the source language. Its
    translations become the sources, and the text itself the targets (Sennrich et al. 2016). Sampled
    translations (--sample) are more varied than those of beam search, which helps when there is
    much text (Edunov et al. 2018). A tag marks synthetic sources (Caswell et al. 2019).

    The command prints the command that trains on human and synthetic pairs.
    """
    from crosshead.addons.experiments.synthetic import back_translate

    flags = {
        "beam": beam, "length_penalty": length_penalty, "temperature": temperature,
        "top_k": top_k, "top_p": top_p, "seed": seed, "batch_tokens": batch_tokens,
    }  # fmt: skip
    machine = device, threads, precision
    made = _made(
        [bundle], text, out, sample, flags, to, machine,
        lambda translator, work: back_translate(translator, work, out, tag),
    )  # fmt: skip
    special = shlex.quote(f"tokenizer.special={json.dumps([tag])}") if tag else ""
    put(_next_command("--source HUMAN_SOURCE --target HUMAN_TARGET ", made, special))


def _made(
    bundles: Sequence[Path],
    text: Path,
    out: Path,
    sample: bool,
    flags: Mapping[str, Any],
    to: str | None,
    machine: tuple[str, int | None, str],
    make: "Callable[[Translator, Synthesis], SyntheticPairs]",
) -> "SyntheticPairs":
    """Load the models, translate with progress, and print how many pairs there are.

    A warning counts the translations that may be bad.
    """
    import torch

    from crosshead.addons.experiments.synthetic import BLOCK, Synthesis
    from crosshead.cli.arguments import check_direction, into, search_settings
    from crosshead.system.progress import counted
    from crosshead.tasks.loading import load_as
    from crosshead.tasks.translation.engine import SUITED, EngineSearch
    from crosshead.tasks.translation.translator import Translator
    from crosshead.text.profile import FLAGS

    translator = into(load_as(Translator, bundles, *machine), to)
    translator.engine = EngineSearch(SUITED, torch.get_num_threads())
    check_direction(translator, text)
    decode = search_settings(translator.bundle.config.decode, sample, flags, None)
    try:
        made = make(translator, Synthesis(bundles, text, decode))
    except KeyboardInterrupt:
        note(
            f"stopped; to continue, give the same command again: {out} keeps the finished blocks "
            f"of {BLOCK:,} lines"
        )
        raise
    left_out = [f"{number:,} {reason}" for reason, number in made.left_out.items() if number]
    note(
        f"{counted(made.pairs, 'pair')} in {made.source} and {made.target}"
        + (f" (left out: {', '.join(left_out)})" if left_out else "")
    )
    odd = made.odd
    if odd.flagged:
        kinds = [f"{name} {odd.flags[name]:,}" for name in FLAGS if odd.flags[name]]
        note(
            f"warning: {odd.flagged:,} of {counted(odd.translations, 'translation')} may be bad "
            f"({', '.join(kinds)}); read some of them before you train on them"
        )
    return made


def _next_command(before: str, made: "SyntheticPairs", special: str) -> str:
    """Return the command that trains on a synthetic set."""
    source, target = (shlex.quote(str(path)) for path in (made.source, made.target))
    setting = f" --set {special}" if special else ""
    return (
        f"crosshead train {before}--source {source} --target {target} --valid-source VALID_SOURCE "
        f"--valid-target VALID_TARGET --out RUN{setting}\n"
    )
