"""The verb `train`."""

import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crosshead.cli.app import app
from crosshead.cli.options import Files, bundle_place
from crosshead.cli.terminal import note, put, stop_on_signals
from crosshead.errors import ConfigError, UserError

if TYPE_CHECKING:
    from crosshead.recipe.presets import Sections
    from crosshead.recipe.recipe import Recipe


@app.command(
    epilog="\b\nExamples:\n"
    "  crosshead train --source train.en --target train.de --out runs/en-de\n"
    "  crosshead train --text book.txt --out runs/book\n"
    "  crosshead train --series ETTh1.csv --target OT --horizon 96 --out runs/ett\n"
    "  crosshead train --images photos.zip --out runs/photos\n"
    "  crosshead train --images photos --captions captions.jsonl --out runs/captions\n"
    "  crosshead train --images photos --pairs pairs.jsonl --out runs/beside-photos\n"
    "  crosshead train --pairs corpus.jsonl --fields en,de --preset small --out runs/en-de\n"
    "  crosshead train --from runs/base --mix runs/base --source new.en --target new.de \\\n"
    "      --valid-source valid.en --valid-target valid.de --out runs/tuned\n"
    "  crosshead train --pairs small.tsv --folds 5 --out runs/small\n"
    "  crosshead train --source train.en --target train.de --out runs/en-de --curve\n"
    "  crosshead train recipe.toml --out runs/en-de --set model.heads=8 --max-minutes 30"
)
def train(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Directory for the run and its bundle.")],
    recipe: Annotated[
        str | None,
        typer.Argument(
            metavar="RECIPE",
            help="Recipe: a TOML file, or a recipe of the package: cifar10, multi30k, "
            "multi30k-tiny-paper, quickstart, tinyshakespeare, tinyshakespeare-long. Without one, "
            "the preset gives all settings.",
        ),
    ] = None,
    source: Annotated[
        Files,
        typer.Option(
            metavar="F", help="File of source sentences, one per line. Repeat it for more files."
        ),
    ] = None,
    target: Annotated[
        Files,
        typer.Option(
            metavar="F",
            help="File of translations, line by line. Give one for each --source, in order. With "
            "--series: columns to forecast, separated by commas (default: all).",
        ),
    ] = None,
    pairs: Annotated[
        Files,
        typer.Option(
            metavar="F",
            help="File with both sides: TSV, CSV or JSON Lines. Repeat it for more files. With "
            "--images: JSON Lines with the keys image, source and target, or lines "
            "`image<TAB>source<TAB>target`.",
        ),
    ] = None,
    fields: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="Source and target field of --pairs: names from the first line of a TSV or CSV, "
            "keys of JSON Lines (translation.en for a key inside another), or numbers of columns "
            "from 1 (default: 1,2 in a file of two columns).",
        ),
    ] = None,
    source_language: Annotated[
        str | None,
        typer.Option(
            metavar="CODE",
            help="Language code of the sources, such as en, for the bundle and its card (default: "
            "from the file suffix or --fields).",
        ),
    ] = None,
    target_language: Annotated[
        str | None,
        typer.Option(
            metavar="CODE",
            help="Language code of the targets, such as de, for the bundle and its card "
            "(default: from the file suffix or --fields).",
        ),
    ] = None,
    licence: Annotated[
        str | None,
        typer.Option(
            "--license",
            metavar="TEXT",
            help="Licence of the model, such as cc-by-4.0, for the bundle and its card (default: "
            "none, or with --from the licence of that bundle).",
        ),
    ] = None,
    text: Annotated[
        Files,
        typer.Option(
            metavar="F",
            help="File of monolingual text, for a language model. Repeat it for more files.",
        ),
    ] = None,
    series: Annotated[
        Files,
        typer.Option(
            metavar="F",
            help="File of a time series, CSV or Parquet with a time column, for a forecaster. "
            "Repeat it for files that continue it; --target then names columns.",
        ),
    ] = None,
    inputs: Annotated[
        Files,
        typer.Option(
            metavar="C,D",
            help="Columns of --series that the model reads and does not forecast, separated by "
            "commas, for series-transformer and series-recurrent (default: none).",
        ),
    ] = None,
    images: Annotated[
        Files,
        typer.Option(
            metavar="PATH",
            help="Folder or zip archive of images. Without --captions and --pairs, the folder "
            "of an image is its class, and folders train, valid and test above the classes are "
            "splits. Repeat it for more images.",
        ),
    ] = None,
    captions: Annotated[
        Files,
        typer.Option(
            metavar="F",
            help="File of captions of --images, for a captioner: JSON Lines with the keys image "
            "and caption, CSV that begins with `image,caption` or `image;caption`, or lines "
            "`image#n<TAB>caption`. Repeat it for more files.",
        ),
    ] = None,
    horizon: Annotated[
        int | None,
        typer.Option(metavar="N", help="Steps to forecast, for --series (default: 96)."),
    ] = None,
    context: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Past steps that a forecast of --series reads (default: 336), or tokens of a "
            "window of --text (default: 256).",
        ),
    ] = None,
    valid_source: Annotated[
        Files,
        typer.Option(
            metavar="F",
            help="Source side of the validation set. Without one, some training pairs are "
            "held out.",
        ),
    ] = None,
    valid_target: Annotated[
        Files,
        typer.Option(
            metavar="F",
            help="Target side of the validation set. Give one for each --valid-source.",
        ),
    ] = None,
    valid_pairs: Annotated[
        Files,
        typer.Option(
            metavar="F",
            help="Validation set as one file with both sides, in a format of --pairs.",
        ),
    ] = None,
    valid_text: Annotated[
        Files,
        typer.Option(
            metavar="F",
            help="Validation set for --text. Without one, the end of the text is held out.",
        ),
    ] = None,
    valid_images: Annotated[
        Files,
        typer.Option(
            metavar="PATH",
            help="Validation set for --images. Without one, the folder valid is used, or a tenth "
            "of the training images of each class is held out.",
        ),
    ] = None,
    valid_captions: Annotated[
        Files,
        typer.Option(
            metavar="F",
            help="Validation captions, in a format of --captions; their images are in --images. "
            "Without them, some images are held out.",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="A",
            help="Architecture: transformer, recurrent or convolutional for pairs; language, "
            "transformer-xl or encoder for --text; patchtst, dlinear, series-transformer or "
            "series-recurrent for --series; vit or convnet for --images; captioner for --captions; "
            "multimodal for --images with --pairs (default: transformer, language for --text, "
            "patchtst for --series, vit for --images, captioner for --captions, multimodal for "
            "--images with --pairs).",
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            metavar="P",
            help="Size of the model and its training settings: tiny, small, base, big; or auto, "
            "which chooses them for your data, budget and machine (default: auto for pairs of "
            "texts; tiny with a RECIPE, with --from, and for other data and architectures). "
            "`crosshead presets` lists them.",
        ),
    ] = None,
    start: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="BUNDLE",
            parser=bundle_place,
            help="Fine-tune this bundle, or the bundle hf://ORG/NAME: start from its weights and "
            "keep its tokenizer.",
        ),
    ] = None,
    mix: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            help="Mix in the training data of this earlier run, so that --from forgets less, and "
            "report on its validation set too. data.old_ratio sets the number of old pairs for "
            "each new pair (default: 1).",
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the run in --out from its last checkpoint.")
    ] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Replace the run in --out. The old run stays until the new one has a bundle.",
        ),
    ] = False,
    curve: Annotated[
        bool,
        typer.Option(
            "--curve",
            help="After this run, train on a half and a quarter of the pairs, each with the same "
            "limits, and estimate the gain from twice the data. At least 400 training pairs are "
            "needed. The runs stand in DIR.curve.",
        ),
    ] = False,
    folds: Annotated[
        int | None,
        typer.Option(
            metavar="K",
            min=2,
            max=20,
            help="Cross-validate after this run: split the pairs into K folds, and train K models, "
            "each validated on one fold instead of the validation files (2 to 20; default: "
            "none). Use it if the set is small. The runs stand in DIR.K-folds.",
        ),
    ] = None,
    max_minutes: Annotated[
        float | None,
        typer.Option(
            metavar="M",
            help="Limit the run to this many minutes, reading and final scoring included (default: "
            "the recipe's, or no limit). With --curve and --folds, each run has this limit.",
        ),
    ] = None,
    max_updates: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Stop training after this many updates (default: the recipe's or the preset's; "
            "no limit with auto).",
        ),
    ] = None,
    max_epochs: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Stop training after this many passes over the data (default: the recipe's, or no "
            "limit; auto chooses a limit).",
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            metavar="S",
            help="Random seed (default: 1). The same seed, data and thread count give the same "
            "model, unless --max-minutes ends the run.",
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            metavar="D",
            help="Device to train on, such as cpu, cuda:1, mps or xpu (default: auto, the first "
            "CUDA GPU or else the CPU).",
        ),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(
            metavar="T",
            help="Number of CPU threads; 0 takes all cores (default: 0). Lower it to leave cores "
            "to other programs.",
        ),
    ] = None,
    precision: Annotated[
        str | None,
        typer.Option(
            metavar="P",
            help="Number format: float32, bfloat16 or float16 (default: auto, bfloat16 if this "
            "machine is faster with it, otherwise float32).",
        ),
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="SECTION.KEY=VALUE",
            help="Set any key of a recipe, such as model.heads=8. Repeat it for more keys.",
        ),
    ] = None,
) -> None:
    """Train a model on parallel text, monolingual text, a time series or images.

    Give parallel text as --source and --target or as --pairs, monolingual text as --text, a time
    series as --series, and images as --images.

    The trained bundle is written to --out. Training ends when the first of --max-minutes,
    --max-updates and --max-epochs is reached. A limit that you give replaces the preset's limits.
    Later settings replace earlier ones in this order: preset, recipe,
    options, --set. The resulting recipe is written to DIR/recipe.toml.

    If you press Ctrl-C or the terminal closes, training finishes the current update, saves a
    checkpoint and exits. SIGTERM does the same. A second signal ends the program at once. Continue
    with --resume.

    --curve and --folds train further models on subsets of the pairs. Finished ones are not trained
    again: continue with --resume and the same option. It also adds them to a finished run.

    --resume reads the settings from DIR/recipe.toml instead of a preset. You may change how long to
    train, how to search, where to compute, the learning rate and the names of files. Other settings
    must stay the same. --preset and --from are ignored.
    """
    from crosshead.cli import reports
    from crosshead.cli.subsets import run_subsets
    from crosshead.system.progress import Display, choose_display
    from crosshead.training.context import any_size
    from crosshead.training.data_curve import check_enough_pairs
    from crosshead.training.run import train as run_recipe
    from crosshead.training.settings import old_domain, typed_flags, without_unset
    from crosshead.training.subsets import Runs, check_subsets

    given = without_unset({
        "data": {
            "source": source, "target": _columns(target) if series else target, "pairs": pairs,
            "fields": fields.split(",") if fields else None,
            "source_language": source_language, "target_language": target_language,
            "license": licence,
            "valid_source": valid_source, "valid_target": valid_target, "valid_pairs": valid_pairs,
            "text": text, "valid_text": valid_text, "series": series,
            "inputs": _columns(inputs),
            "images": images, "valid_images": valid_images,
            "captions": captions, "valid_captions": valid_captions,
            "horizon": horizon, "context": context,
        },
        "model": {"architecture": model},
        "train": {
            "max_minutes": max_minutes, "max_updates": max_updates, "max_epochs": max_epochs,
            "seed": seed, "device": device, "threads": threads, "precision": precision,
        },
    })  # fmt: skip
    typed = typed_flags(given, assignments or [])
    if mix is not None and not resume:
        given.setdefault("data", {}).update(old_domain(mix))
    if resume and force:
        raise UserError(
            f"--resume continues the run in {out}, --force replaces it; leave out one of them"
        )
    settings = _recipe(out, recipe, given, assignments or [], typed, preset, start, resume)
    more = [*(["--curve"] if curve else []), *([f"--folds {folds}"] if folds else [])]
    for flag in more:
        check_subsets(settings, flag.split()[0].removeprefix("--"), None if resume else start)
    command = shlex.join(["crosshead", *sys.argv[1:]])
    try:
        with stop_on_signals() as request:

            def display() -> Display:
                return choose_display(lambda: request.ask(signal.SIGPIPE))

            summary = run_recipe(
                settings,
                out,
                start=start,
                resume=resume,
                force=force,
                command=command,
                display=display(),
                should_stop=request,
                check_size=check_enough_pairs if curve else any_size,
            )
            if summary.rank == 0:  # only the main process prints
                report = reports.end_of_run(summary, *more)
                (note if summary.interrupted else put)(report)
            finished = not summary.interrupted
            if finished and more:
                runs = Runs(settings, force, command, display, request)
                finished = run_subsets(out, runs, curve, folds, resume)
                if not finished:
                    note(reports.how_to_continue(out, *more))
    except ConfigError as error:
        # The run names recipe keys; messages must name flags.
        raise error.named(typed) from None
    raise typer.Exit(0 if finished else request.exit_code)


def _columns(given: list[str] | None) -> str | None:
    """Return the columns of repeated flags as one text, with commas between the names."""
    return ",".join(given) if given else None


def _recipe(
    out: Path,
    recipe: str | None,
    given: "Sections",
    assignments: list[str],
    typed: dict[str, str],
    preset: str | None,
    start: Path | None,
    resume: bool,
) -> "Recipe":
    """Return the recipe of a new or a resumed run, with a note about options that do not count."""
    from crosshead.recipe.presets import AUTO
    from crosshead.training.settings import new_recipe, resumed_recipe

    if resume:
        settings = resumed_recipe(out, recipe, given, assignments, typed)
        if preset or start:
            note(f"the run in {out} has already begun: --preset and --from are ignored")
        return settings
    settings = new_recipe(
        preset or (None if recipe else AUTO), recipe, given, assignments, start, typed
    )
    if preset and start:
        note(f"the model and tokenizer come from {start}; --preset {preset} sets only the training")
    return settings
